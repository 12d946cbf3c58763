"""The angle between features.

Both radii fall about like √(1−c) with the cosine c between features: finer labels go on helping.
"""

import tempfile

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Series

k, d, cosines = 6, 2000, [0.0, 0.15, 0.3, 0.45, 0.6]
varied, folder = {"cosine": cosines}, tempfile.mkdtemp()
table = fa.sweep(
    varied, folder, measures="radii", seeds=2, engine="serial", k=k, d=d, n=150
)
fine_grid = np.linspace(0, 0.6, 60)
series = []
for column, role, share in (
    ("radius_coarse", "averaged", k),
    ("radius_fine_max", "decoupled", 2),
):
    name = "coarse labels" if role == "averaged" else "fine labels"
    series.append(
        Series.over_seeds(
            name, cosines, table.cells(column).T, role, style="line+markers"
        )
    )
    theory = np.sqrt(d * (1 - fine_grid) / share)
    series.append(
        Series(f"√(d(1−c)/{share})", fine_grid, theory, role, "dashed", shade=0.6)
    )
figure = Figure(
    "angle",
    "The angle costs both networks alike",
    "Median exact radius; bands over seeds.",
    (
        Lines(
            Axis("cosine between features"), Axis("median radius", "l2"), tuple(series)
        ),
    ),
)
