"""The same at d = 10¹².

Exact compression makes a trillion dimensions as cheap as a thousand.
"""

import numpy as np

import featavg as fa
from featavg.figures import Axis, Figure, Lines, Rule, Series

dimensions = [10**3, 10**6, 10**9, 10**12]
values = []
for d in dimensions:
    task = fa.MultiCluster(k=4, d=d)
    recipe = fa.Recipe(lr=3 / d, sigma_w=0.03 / d, sigma_b=0.03 / d)
    net = fa.train(task, recipe, labels="coarse", n=200, seed=0).net
    values.append(
        fa.radii(net, task.sample(20, seed=1)).median[0] / np.sqrt(d / task.k)
    )
figure = Figure(
    "dimension",
    "The law does not care about d",
    "Exact compression: n + k + M coordinates whatever d is.",
    (
        Lines(
            Axis("dimension d", log=True),
            Axis("median radius / √(d/k)", range=(0, 1.25)),
            (Series("averaged", dimensions, values, "averaged", "line+markers"),),
            rules=(Rule(1.0),),
        ),
    ),
)
