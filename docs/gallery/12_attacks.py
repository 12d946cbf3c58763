"""Attacks against the truth.

The attack suite beside exact radii.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Series

rng = np.random.default_rng(0)
net = fa.binary(rng.standard_normal((8, 20)))
x = rng.standard_normal((20, 20))
y = np.where(net(x)[:, 0] > 0, 1, -1)
exact = fa.radii(net, x, y).certified
attacked = fa.attack_suite(fa.network_model(net), x, y).radii
figure = Figure(
    "attacks",
    "How good is an attack?",
    "On the diagonal it is perfect; below is impossible.",
    (
        Lines(
            Axis("exact radius", "l2"),
            Axis("attacked radius", "l2"),
            (
                Series("points", exact, attacked, "averaged", "markers"),
                Series(
                    "equal",
                    [0, float(exact.max())],
                    [0, float(exact.max())],
                    "reference",
                    "dashed",
                ),
            ),
        ),
    ),
)
