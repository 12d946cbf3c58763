r"""Neurons that start off on their whole cluster, and what becomes of them.

A neuron of the grouped network with Gaussian weights is off on all n_j samples of its cluster if
<w, mu> + <w, xi_i> < 0 for all i. Since |mu| is what |xi_i| tends to, these are n_j + 1 independent
normals of one size, g_i < -g_0 for all i, and -g_0 is the largest of them with probability

    1 / (n_j + 1).

A neuron that is off on its cluster gets no pull towards its feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.alignment import cosines
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.paper.theorems.runs import scaled_recipe
from featavg.training.train import initial_net, train

if TYPE_CHECKING:
    import xarray as xr

K, D = 10, 10**5
TASK, RECIPE = MultiCluster(k=K, d=D), scaled_recipe("fine", D, tolerance=1e-3)


def starts(n: int, seed: int) -> dict[str, np.ndarray]:
    """Which neurons start off on their whole cluster, and the law 1/(n_j + 1); 0 for an empty cluster."""
    data = draw(TASK, n, RECIPE.neurons(K), seed)
    active = np.asarray(initial_net(data, RECIPE).preactivations(data.x)) >= 0
    own = data.clusters[:, None] == np.arange(K)
    sizes = own.sum(axis=0)
    off = ~np.any(active & own, axis=0) & (sizes > 0)
    return {"off": off, "law": np.where(sizes > 0, 1.0 / (sizes + 1), 0.0)}


def figure(table: xr.Dataset) -> Figure:
    """Share of dead neurons against n/k."""
    each = table["n"].values / K
    shares = table.mean(("seed", "cluster"))
    counted, law = shares["off"].values, shares["law"].values
    lines = (
        Series("counted", each, np.where(counted > 0, counted, np.nan), "decoupled", "markers"),
        Series("mean of 1/(n<sub>j</sub> + 1)", each, law, "reference"),
    )
    return Figure(
        "dead",
        "Some neurons never see their cluster",
        "Share of neurons that start off on every sample of their cluster, against the samples "
        "for each cluster, with the law 1/(n<sub>j</sub> + 1).",
        (Lines(Axis("samples for each cluster", log=True), Axis("share", log=True), lines),),
    )


@claim(
    "decoupling-dead-neurons", "A neuron may never see its cluster", theme="Theorem 4: decoupling",
    source="Found while checking Theorem 4 outside its regime",
    measured="neurons that start off on their whole cluster, over many draws, and their cosines "
    "after training",
    minutes=0.1, seeds=1, runs=100, statements=("notes-theorem-4", "summary-break-3",),
)  # fmt: skip
def dead_neurons(run: Context, sizes: tuple[int, ...] = (20, 50, 100), draws: int = 100, trained: int = 10) -> Evidence:
    """With one neuron for each cluster, a neuron starts inactive on all of its cluster with
    probability 1/(n/k + 1), and then it never learns it.
    """
    first = run.seeds[0] * draws
    table = tabulate(starts, range(first, first + draws), run.progress, ("cluster",), n=sizes)
    law, sums = table["law"].values, table.sum(("seed", "cluster"))
    dead, expected = sums["off"].values, sums["law"].values
    distance = np.abs(dead - expected) / np.sqrt((law * (1 - law)).sum(axis=(1, 2)))
    off, seen = table["off"][0].values, law[0] > 0
    unlucky = np.flatnonzero(off.any(axis=1))[:trained]
    run.progress(0.9, "training")
    nets = [train(TASK, RECIPE, n=sizes[0], seed=int(first + i)).net for i in unlucky]
    own = np.array([np.diag(cosines(net, TASK)) for net in nets]).reshape(-1, K)
    cosine = {"dead": own[off[unlucky]], "live": own[(seen & ~off)[unlucky]]}
    final, live = (float(np.median(each)) if len(each) else np.nan for each in cosine.values())
    return Evidence(
        Check("counted against Σ 1/(n<sub>j</sub>+1), standard deviations", distance.max(), "<=", 4.0),
        Check("median cosine with the own feature after training, dead", final, "<=", 0.5),
        Check("the same, all others", live, ">=", 0.5),
        figure=figure(table),
        numbers={"sizes": sizes, "neurons": draws * K, "dead": dead, "expected": expected, "cosines": cosine},
        finding=f"With h = 1 a neuron starts off on its whole cluster with probability 1/(n/k + 1): "
        f"{dead[0]} of {draws * K} at n = {sizes[0]}. It never learns its feature "
        f"(cosine {final:.2f} against {live:.2f}), which is where decoupling loses clean accuracy "
        "when samples are few. In the theorem's regime this is one neuron in k⁶.",
    )
