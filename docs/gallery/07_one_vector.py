"""One vector fools all.

The direction that undoes the average undoes it for every point at once.
"""

import numpy as np

import featavg as fa
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series

task = fa.MultiCluster(k=10, d=3072)
net = fa.train(task, labels="coarse", n=500, seed=0).net
test = task.sample(200, seed=1)
x, y = test.coordinates(net.dimension), test.y
features = task.features_in(net.dimension)
signs = task.cluster_labels
direction = -(signs[:, None] * features).sum(axis=0)
direction /= np.linalg.norm(direction)
lengths = np.linspace(0, 40, 81)
rates = [np.mean(np.sign(net(x + t * y[:, None] * direction)[:, 0]) == y) for t in lengths]
figure = Figure(
    "universal",
    "One vector for every point",
    "Accuracy along −Σμ₊ + Σμ₋, with the sign of the class.",
    (
        Lines(
            Axis("length", "l2"),
            Axis("accuracy"),
            (Series("averaged", lengths, rates, "averaged"),),
            rules=(Rule(np.sqrt(task.d / task.k), "x", "√(d/k)"),),
        ),
    ),
)
