"""The angle between features.

Both radii fall like √(1−c) with the cosine c between features.
"""

import tempfile

import featavg as fa

table = fa.sweep(
    {"cosine": [0.0, 0.3, 0.6, 0.9]},
    tempfile.mkdtemp(),
    measures="radii",
    seeds=2,
    engine="serial",
    k=6,
    d=2000,
    n=150,
)
figure = table.figure("radius_coarse")
