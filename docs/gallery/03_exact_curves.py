"""Exact robust accuracy.

The share of points that no perturbation of a given length flips, without any attack.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Rule, Series

task = fa.MultiCluster(k=10, d=3072)
test = task.sample(60, seed=1)
grid = np.linspace(0, 50, 101)
series = []
for labels, readout, role in (
    ("coarse", "sum", "averaged"),
    ("fine", "max", "decoupled"),
):
    net = fa.train(task, labels=labels, n=500, seed=0).net
    low, high = fa.radii(net, test, readout=readout).robust_accuracy(grid)
    series.append(Series(f"{labels} labels", grid, low, role))
rules = (
    Rule(np.sqrt(task.d / task.k), "x", "√(d/k)", "averaged"),
    Rule(np.sqrt(task.d / 2), "x", "√(d/2)", "decoupled"),
)
figure = Figure(
    "curves",
    "What an average costs",
    "Exact: certified and attack curves coincide.",
    (Lines(Axis("radius", "l2"), Axis("robust accuracy"), tuple(series), rules=rules),),
)
