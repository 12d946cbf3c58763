"""One vector fools all.

The direction that undoes the average undoes it for every point at once; to decoupled features the
same vector does nothing.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Rule, Series

task = fa.MultiCluster(k=10, d=3072)
test = task.sample(200, seed=1)
lengths = np.linspace(0, 60, 61)
series = []
for labels, role in (("coarse", "averaged"), ("fine", "decoupled")):
    net = fa.train(task, labels=labels, n=500, seed=0).net
    x, y = test.coordinates(net.dimension), test.y
    direction = -(task.cluster_labels[:, None] * task.features_in(net.dimension)).sum(
        axis=0
    )
    step = y[:, None] * direction / np.linalg.norm(direction)
    right = []
    for length in lengths:
        outputs = net(x + length * step)
        if labels == "fine":  # the best output of each side
            positive = task.cluster_labels > 0
            outputs = outputs[:, positive].max(1) - outputs[:, ~positive].max(1)
        right.append(np.mean(np.sign(outputs.reshape(-1)) == y))
    series.append(Series(f"{labels} labels", lengths, right, role))
figure = Figure(
    "universal",
    "One vector for every point",
    "Accuracy along −Σμ₊ + Σμ₋, with the sign of the class.",
    (
        Lines(
            Axis("length", "l2"),
            Axis("accuracy"),
            tuple(series),
            rules=(Rule(np.sqrt(task.d / task.k), "x", "√(d/k)"),),
        ),
    ),
)
