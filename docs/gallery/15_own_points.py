"""Points of your own.

An npz file with points and clusters goes through the same simulator.
"""

import tempfile
from pathlib import Path

import numpy as np

import featavg as fa
from featavg.figures.figure import Axis, Bar, Bars, Figure

rng = np.random.default_rng(0)
centres = 4 * rng.standard_normal((6, 30))
clusters = rng.integers(0, 6, 300)
folder = Path(tempfile.mkdtemp())
np.savez(
    folder / "points.npz", x=centres[clusters] + rng.standard_normal((300, 30)), clusters=clusters
)
both = fa.simulate(data=str(folder / "points.npz"), positive=3, lr=0.01, steps=200)
figure = Figure(
    "own",
    "Your points, both kinds of labels",
    "Averaging index of each network.",
    (
        Bars(
            ("coarse", "fine"),
            (Bar("index", [one.averaging_index for one in both.numbers], "averaged"),),
            Axis("averaging index"),
        ),
    ),
)
