"""Exact radii of a deeper network.

Branch and bound over activation signs, for any depth and any number of classes.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Series

rng = np.random.default_rng(0)
net = fa.Deep(
    (
        rng.standard_normal((6, 5)),
        rng.standard_normal((6, 6)),
        rng.standard_normal((3, 6)),
    )
)
x = rng.standard_normal((20, 5))
ends = fa.radii(net, x, net(x).argmax(axis=1))
order = np.argsort(ends.certified)
figure = Figure(
    "deep",
    "Three layers, three classes",
    "Certified and attack ends meet at every point.",
    (
        Lines(
            Axis("points, nearest to the boundary first"),
            Axis("radius", "l2"),
            (
                Series("certified", range(20), ends.certified[order], "decoupled"),
                Series("attack", range(20), ends.attack[order], "averaged", "markers"),
            ),
        ),
    ),
)
