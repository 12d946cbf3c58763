"""Unequal clusters.

Clusters of 40% and 10% share a class.
"""

import featavg as fa
from featavg.figures.figure import Axis, Bar, Bars, Figure

task = fa.MultiCluster(k=4, d=2000, probabilities=(0.4, 0.1, 0.25, 0.25))
net = fa.train(task, labels="coarse", n=400, seed=0).net
cosines = fa.cosines(net, task)[:, 0]
figure = Figure(
    "unequal",
    "What is the average weighted with?",
    "Cosines of the first equivalent weight with each feature.",
    (
        Bars(
            tuple(f"μ{j + 1}" for j in range(4)),
            (Bar("cosine", cosines, "averaged"),),
            Axis("cosine"),
        ),
    ),
)
