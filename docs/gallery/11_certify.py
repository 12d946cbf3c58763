"""A decision at a radius.

Certified, flipped, or open: easier than the radius itself.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Series

rng = np.random.default_rng(0)
net = fa.Deep((rng.standard_normal((30, 8)), rng.standard_normal((3, 30))))
x = rng.standard_normal((30, 8))
y = net(x).argmax(axis=1)
radii = [0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8]
errors = np.array(
    [
        fa.certify(net, x, y, radius=r, budget=fa.Budget(nodes=200)).robust_error
        for r in radii
    ]
)
figure = Figure(
    "certify",
    "Robust error between two ends",
    "A wide layer: decided at each radius.",
    (
        Lines(
            Axis("radius", "l2"),
            Axis("robust error", range=(0, 1)),
            (
                Series("attacked", radii, errors[:, 0], "averaged", "line+markers"),
                Series("not verified", radii, errors[:, 1], "decoupled", "dashed"),
            ),
        ),
    ),
)
