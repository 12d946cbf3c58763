"""Points of your own.

A file with points and their clusters goes through the same simulator: what the weights learn of it.
"""

import tempfile
from pathlib import Path

import numpy as np

import featavg as fa

rng = np.random.default_rng(0)
centres = 4 * rng.standard_normal((6, 30))
clusters = rng.integers(0, 6, 300)
x = centres[clusters] + rng.standard_normal((300, 30))
points = Path(tempfile.mkdtemp()) / "points.npz"
np.savez(points, x=x, clusters=clusters)
both = fa.simulate(data=str(points), positive=3, lr=0.01, steps=200)
figure = both.figure()
