"""Averaging needs a small start.

From large initial weights the network stays near where it began, and no average comes.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Rule, Series

task = fa.MultiCluster(k=10, d=3072)
starts = np.logspace(-6, -2, 9)
values = []
for sigma in starts:
    recipe = fa.Recipe(sigma_w=sigma, sigma_b=sigma)
    net = fa.train(task, recipe, labels="coarse", n=300, seed=0).net
    values.append(float(fa.averaging_index(net, task)))
figure = Figure(
    "index",
    "Averaging needs a small start",
    "Averaging index after 100 steps: 1 is a perfect average, 0 a single feature.",
    (
        Lines(
            Axis("size of the first weights σ", log=True),
            Axis("averaging index", range=(-0.05, 1.1)),
            (Series("class labels", starts, values, "averaged", "line+markers"),),
            rules=(Rule(1.0, label="perfect average"), Rule(0.0)),
        ),
    ),
)
