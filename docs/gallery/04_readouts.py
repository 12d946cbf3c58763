"""The read-out matters.

The same outputs, read by `max` and by `sum`: the sum gives a third of the radius away.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Bar, Bars, Figure

task = fa.MultiCluster(k=10, d=3072)
test = task.sample(40, seed=1)
net = fa.train(task, labels="fine", n=500, seed=0).net
measured = [fa.radii(net, test, readout=name).median[0] for name in ("max", "sum")]
theory = [np.sqrt(task.d / 2), np.sqrt(task.d / (1 + task.k / 2))]
figure = Figure(
    "readouts",
    "One network, two read-outs",
    "Median exact radius, beside √(d/2) and √(d/(1+k/2)).",
    (
        Bars(
            ("max: best output", "sum of outputs"),
            (
                Bar("exact radius", measured, "decoupled"),
                Bar("theory", theory, "reference"),
            ),
            Axis("median radius", "l2"),
        ),
    ),
)
