"""Finer labels decouple.

With cluster labels every neuron points at one feature.
"""

import featavg as fa
from featavg.figures import Figure, Heatmap

task = fa.MultiCluster(k=10, d=3072)
fine = fa.train(task, labels="fine", n=500, seed=0)
cosines = fa.cosines(fine.net, task)
names = tuple(f"μ{j + 1}" for j in range(task.k))
neurons = tuple(f"w{r + 1}" for r in range(cosines.shape[1]))
figure = Figure(
    "decoupled",
    "Cluster labels: one feature each",
    "Cosines of features and neurons.",
    (Heatmap(cosines, names, neurons, label="cosine", limit=1.0, printed=False),),
)
