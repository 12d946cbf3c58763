"""A phase diagram.

Where finer labels pay, over noise and angle. In the corner, features are so close that the one neuron
of a cluster may never see it.
"""

import tempfile

import numpy as np

import featavg as fa
from featavg.figures import Figure, Heatmap

sigmas, cosines = [0.25, 0.5, 1.0, 1.5, 2.0], [0.0, 0.2, 0.4, 0.6, 0.8]
table = fa.sweep(
    {"sigma": sigmas, "cosine": cosines},
    tempfile.mkdtemp(),
    measures="gain",
    seeds=1,
    engine="serial",
    k=4,
    d=1000,
    n=100,
)
gain = np.reshape(table.cells("gain"), (5, 5))
figure = Figure(
    "map",
    "Where finer labels pay",
    "Median exact radius with cluster labels over that with class labels.",
    (
        Heatmap(
            gain[::-1],
            tuple(map(str, sigmas[::-1])),
            tuple(map(str, cosines)),
            label="gain in radius",
            row_label="noise σ",
            column_label="cosine between features",
        ),
    ),
)
