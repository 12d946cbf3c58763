"""How the loss falls.

Both networks fit; what they have learnt differs.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Series

task = fa.MultiCluster(k=4, d=1000)
series = []
for labels, role in (("coarse", "averaged"), ("fine", "decoupled")):
    run = fa.train(task, fa.Recipe(steps=200), labels=labels, n=100, seed=0)
    series.append(
        Series(
            f"{labels} labels",
            range(len(run.log_loss)),
            np.asarray(run.log_loss) / np.log(10),
            role,
        )
    )
figure = Figure(
    "loss",
    "Training, two kinds of labels",
    "The same sample, plain gradient descent.",
    (Lines(Axis("step"), Axis("log₁₀ loss"), tuple(series)),),
)
