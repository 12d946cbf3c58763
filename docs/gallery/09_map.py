"""A phase diagram.

Where finer labels pay, over noise and angle.
"""

import tempfile

import featavg as fa

table = fa.sweep(
    {"sigma": [0.5, 1.0, 2.0], "cosine": [0.0, 0.3, 0.6]},
    tempfile.mkdtemp(),
    measures="gain",
    seeds=2,
    engine="serial",
    k=4,
    d=1000,
    n=100,
)
figure = table.figure("gain")
