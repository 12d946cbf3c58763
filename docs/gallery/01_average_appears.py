"""An average appears.

With class labels every neuron points at all features of its class.
"""

import featavg as fa
from featavg.figures import Figure, Heatmap

task = fa.MultiCluster(k=10, d=3072)
coarse = fa.train(task, labels="coarse", n=500, seed=0)
cosines = fa.cosines(coarse.net, task)
names = tuple(f"μ{j + 1}" for j in range(task.k))
neurons = tuple(f"w{r + 1}" for r in range(cosines.shape[1]))
figure = Figure(
    "averages",
    "Class labels: every neuron is an average",
    "Cosines of features and neurons.",
    (Heatmap(cosines, names, neurons, label="cosine", limit=1.0, printed=False),),
)
