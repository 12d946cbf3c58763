r"""Neurons that start off on their whole cluster, and what becomes of them.

A neuron of the grouped network with Gaussian weights is off on all n_j samples of its cluster if
<w, mu> + <w, xi_i> < 0 for all i. Since |mu| is what |xi_i| tends to, these are n_j + 1 independent
normals of one size, g_i < -g_0 for all i, and -g_0 is the largest of them with probability

    1 / (n_j + 1).

A neuron that is off on its cluster gets no pull towards its feature.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.alignment import cosines
from featavg.paper.theorems.theorem_runs import scaled_recipe
from featavg.progress import Progress, silent
from featavg.training.train import initial_net, train

K, D = 10, 10**5
SIZES, DRAWS, TRAINED = (20, 50, 100), 100, 10


@dataclass(frozen=True, eq=False, repr=False)
class DeadNeurons(Result):
    """How many neurons start off on their whole cluster, and how they end.

    Attributes:
        sizes: n of each row.
        dead: neurons that start off on their cluster, of `neurons` drawn.
        expected: sum of 1/(n_j + 1) over the same draws.
        spread: standard deviation of `dead` if that is the law.
        final_cosines: with the own feature after training, of those that started off, n = sizes[0].
        live_cosines: of the other neurons of the same networks whose cluster was drawn at all.

    Returned by `fa.dead_neurons_study`, which has an example.
    """

    sizes: tuple[int, ...]
    neurons: int
    dead: Int[ndarray, " v"]
    expected: Float[ndarray, " v"]
    spread: Float[ndarray, " v"]
    final_cosines: Float[ndarray, " q"]
    live_cosines: Float[ndarray, " p"]

    @property
    def distance(self) -> float:
        """Largest distance of counted and expected, in standard deviations."""
        return float((np.abs(self.dead - self.expected) / self.spread).max())

    def figure(self) -> Figure:
        """Share of dead neurons against n/k."""
        sizes = [n / K for n in self.sizes]
        seen = np.where(self.dead > 0, self.dead / self.neurons, np.nan)
        lines = (
            Series("counted", sizes, seen, "decoupled", "markers"),
            Series(
                "mean of 1/(n<sub>j</sub> + 1)", sizes, self.expected / self.neurons, "reference"
            ),
        )
        return Figure(
            "dead",
            "Some neurons never see their cluster",
            "Share of neurons that start off on every sample of their cluster, against the samples "
            "for each cluster, with the law 1/(n<sub>j</sub> + 1).",
            (Lines(Axis("samples for each cluster", log=True), Axis("share", log=True), lines),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        names = ("dead", "expected", "spread", "final_cosines", "live_cosines")
        plain: dict[str, Any] = {"sizes": list(self.sizes), "neurons": self.neurons}
        return plain | {name: getattr(self, name).tolist() for name in names}

    def summary(self) -> str:
        """Counted and expected for each n."""
        rows = zip(self.sizes, self.dead, self.expected, strict=True)
        lines = [f"  n = {n:>4}: {dead} of {self.neurons}, expected {e:.1f}" for n, dead, e in rows]
        return "\n".join(["Neurons that start off on their whole cluster", *lines])


def dead_neurons_study(first_seed: int = 0, progress: Progress = silent) -> DeadNeurons:
    """Count dead neurons over `DRAWS` draws for each n, and train some of the smallest ones.

    Args:
        first_seed: another one gives `DRAWS` other draws.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.dead_neurons_study()
    Neurons that start off on their whole cluster
    ...
    """
    task, recipe = MultiCluster(k=K, d=D), scaled_recipe("fine", D, tolerance=1e-3)
    seeds = range(first_seed * DRAWS, (first_seed + 1) * DRAWS)
    dead, expected, variance = [], [], []
    unlucky: list[tuple[int, ndarray, ndarray]] = []
    for i, n in enumerate(SIZES):
        progress(i / (len(SIZES) + 1), f"n = {n}")
        count, mean, spread = 0, 0.0, 0.0
        for seed in seeds:
            data = draw(task, n, recipe.neurons(K), seed)
            active = np.asarray(initial_net(data, recipe).preactivations(data.x)) >= 0
            own = data.clusters[:, None] == np.arange(K)
            sizes = own.sum(axis=0)
            off = ~np.any(active & own, axis=0) & (sizes > 0)
            law = np.where(sizes > 0, 1.0 / (sizes + 1), 0.0)
            count, mean = count + int(off.sum()), mean + float(law.sum())
            spread += float((law * (1 - law)).sum())
            if n == SIZES[0] and off.any() and len(unlucky) < TRAINED:
                unlucky.append((seed, off, ~off & (sizes > 0)))
        dead.append(count)
        expected.append(mean)
        variance.append(spread)
    progress(0.9, "training")
    final, live = [], []
    for seed, off, seen in unlucky:
        matrix = cosines(train(task, recipe, n=SIZES[0], seed=seed).net, task)
        final += np.diag(matrix)[off].tolist()
        live += np.diag(matrix)[seen].tolist()
    return DeadNeurons(
        SIZES,
        DRAWS * K,
        np.array(dead),
        np.array(expected),
        np.array([math.sqrt(value) for value in variance]),
        np.array(final),
        np.array(live),
    )
