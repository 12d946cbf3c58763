"""Let them compete.

Class labels alone: a maximum over the neurons of a class decouples where their mean averages.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Bar, Bars, Figure

task = fa.MultiCluster(k=10, d=500)
test, m = task.sample(40, seed=1), 20
how = {"n": 500, "sigma_w": 1e-3, "lr": 0.01, "steps": 400, "seed": 0}
mean = fa.train(task, m=5, **how).net
most = fa.train(task, m=m, pooling="max", **how).net
fine = fa.train(task, labels="fine", **how).net
x, positive = test.coordinates(most.dimension), np.arange(2 * m) < m
measured = [
    fa.radii(mean, test).median[0],
    fa.radii(most, x, y=test.y, readout="max", positive=positive).median[0],
    fa.radii(fine, test, readout="max").median[0],
]
theory = [np.sqrt(task.d / task.k), np.sqrt(task.d / 2), np.sqrt(task.d / 2)]
figure = Figure(
    "competition",
    "Class labels, and neurons that compete",
    "Median exact radius, beside √(d/k) and √(d/2).",
    (
        Bars(
            ("mean, class labels", "max, class labels", "fine labels"),
            (
                Bar("exact radius", measured, "decoupled"),
                Bar("theory", theory, "reference"),
            ),
            Axis("median radius", "l2"),
        ),
    ),
)
