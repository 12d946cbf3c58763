"""The averaging index and its null.

From a large start the network stays near where it began.
"""

import featavg as fa
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series

task = fa.MultiCluster(k=10, d=3072)
starts = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]
values = []
for sigma in starts:
    net = fa.train(
        task, fa.Recipe(sigma_w=sigma, sigma_b=sigma), labels="coarse", n=300, seed=0
    ).net
    values.append(float(fa.averaging_index(net, task)))
figure = Figure(
    "index",
    "Averaging needs a small start",
    "Averaging index after 100 steps.",
    (
        Lines(
            Axis("size of the start", log=True),
            Axis("averaging index"),
            (Series("class labels", starts, values, "averaged"),),
            rules=(Rule(1.0), Rule(0.0)),
        ),
    ),
)
