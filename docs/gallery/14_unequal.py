"""Unequal clusters.

Two clusters share a class, one four times as large: the average leans towards it.
"""

import featavg as fa
from featavg.figures import Axis, Bar, Bars, Figure

shares = (0.4, 0.1, 0.25, 0.25)
task = fa.MultiCluster(k=4, d=2000, probabilities=shares)
net = fa.train(task, labels="coarse", n=400, seed=0).net
cosines = fa.cosines(net, task)[:, 0]
figure = Figure(
    "unequal",
    "What is the average weighted with?",
    "Cosines of a neuron of the first class with each feature.",
    (
        Bars(
            tuple(f"μ{j + 1} ({share:.0%})" for j, share in enumerate(shares)),
            (Bar("cosine", cosines, "averaged"),),
            Axis("cosine"),
            x_label="feature (share of the points)",
        ),
    ),
)
