"""How much of its sensitivity a class has in common: one direction for all its sub-classes, or one each.

A network that averages features has one sensitive direction per class, the average; a network that
decouples them has one per feature. The shared gradient tells the two apart in any network, at any layer
where its permutation null is near 1, without knowing what the features are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Figure, Heatmap
from featavg.progress import Progress, silent

LEAST = 2  # samples of a sub-class that an unbiased squared length needs
_ALL_PAIRS, _ALL_CLASSES = -1, -2  # beside the numbers of the classes


@dataclass(frozen=True)
class ClassGradient:
    """The same of one class: its number, A, a 95% interval and the permutation null."""

    label: int
    value: float
    low: float
    high: float
    null: float

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not defined is None."""
        return {name: v if name == "label" else _plain(v) for name, v in vars(self).items()}


@dataclass(frozen=True, eq=False)
class SharedGradient:
    """The statistic, its null, and what a finite sample leaves open.

    Attributes:
        value: A, the mean over pairs of sub-classes of one class, or over classes.
        low, high: a 95% bootstrap interval over samples.
        null, null_low, null_high: the mean of A, and its 5% and 95% quantiles, with sub-class labels
            permuted inside each class; 1 where A is well defined.
        matrix: A of every pair of sub-classes, also across classes; NaN where it is not defined.
        counts: samples of each sub-class.
        undefined: the share of same-class pairs without a positive squared length.
        by_class: A of each class with two sub-classes or more.

    Returned by `fa.shared_gradient`, which has an example.
    """

    value: float
    low: float
    high: float
    null: float
    null_low: float
    null_high: float
    matrix: Float[ndarray, "k k"]
    counts: Int[ndarray, " k"]
    undefined: float
    by_class: tuple[ClassGradient, ...] = ()

    def figure(self) -> Figure:
        """A of every pair of sub-classes."""
        names = tuple(str(j) for j in range(len(self.matrix)))
        heat = Heatmap(self.matrix, names, names, label="shared gradient", row_label="sub-class")
        low, high = f"{self.low:.2f}", f"{self.high:.2f}"
        caption = f"Mean over pairs of one class {self.value:.2f} [{low}, {high}], null {self.null:.2f}."
        return Figure("shared-gradient", "Shared gradients", caption, (heat,))

    def to_json(self) -> dict[str, Any]:
        """Plain values; what is not defined is None."""
        names = ("value", "low", "high", "null", "null_low", "null_high", "undefined")
        plain: dict[str, Any] = {name: _plain(getattr(self, name)) for name in names}
        plain["matrix"] = [[_plain(entry) for entry in row] for row in self.matrix.tolist()]
        by_class = [each.to_json() for each in self.by_class]
        return plain | {"counts": self.counts.tolist(), "by_class": by_class}


@public
def shared_gradient(
    gradients: Float[ndarray, "n D"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    permutations: Count = 60,
    resamples: Count = 200,
    seed: Seed = 0,
    progress: Progress = silent,
    weigh: str = "pairs",
) -> SharedGradient:
    r"""The share of mean sensitivity that the sub-classes of a class have in common.

        A = mean over i < j of one class of <g_i, g_j> / sqrt(U_i U_j),

    g_j the mean of the n_j gradients of sub-class j, and U_j = (n_j |g_j|^2 - mean |g|^2) / (n_j - 1)
    the unbiased estimate of |E g_j|^2: |g_j|^2 itself counts the noise of single gradients, which would
    pull A to zero. 1 is one direction for the whole class, 0 are directions that have nothing in common.

    Args:
        gradients: of the margin of the decision, one row per sample that is decided rightly.
        fine: the sub-class of each row.
        groups: the class of each sub-class.
        permutations: for the null, sub-class labels are permuted inside each class so often.
        resamples: of the bootstrap.
        progress: called with the share done and a note.
        seed: of permutations and resamples.
        weigh: "pairs" gives each pair of sub-classes the same weight, so that a class of six weighs 15
            times one of two; "classes" gives each class the same.

    >>> import numpy as np
    >>> import featavg as fa
    >>> rng = np.random.default_rng(0)
    >>> fine = np.arange(200) % 4
    >>> noise = rng.standard_normal((200, 30))
    >>> averaged = fa.shared_gradient(5.0 + noise, fine, np.array([0, 0, 1, 1]))
    >>> decoupled = fa.shared_gradient(20.0 * np.eye(30)[fine] + noise, fine, np.array([0, 0, 1, 1]))
    >>> round(averaged.value, 2), abs(round(decoupled.value, 1))
    (1.0, 0.0)
    """
    counts = np.bincount(fine, minlength=len(groups))
    pairs = same_class_pairs(groups, counts)
    if len(pairs) == 0:
        problem = f"leaves no class with two sub-classes of {LEAST} rightly decided samples"
        raise InputError("fine", problem, "give finer labels, or more images")
    one_of("weigh", weigh, ("pairs", "classes"))
    gram = np.asarray(gradients @ gradients.T, dtype=float)
    classes = groups[fine]
    parts = {int(c): [p for p in pairs if groups[p[0]] == c] for c in groups[[i for i, _ in pairs]]}
    plain = _one_hot(fine, len(groups))
    matrix = _matrix(gram, plain)
    rng = stream(seed, "shared gradient")
    drawn, permuted = [], []
    rounds = resamples + permutations
    for i in range(resamples):
        progress(i / rounds, "bootstrap")
        weights = np.zeros(len(fine))
        for j in np.flatnonzero(counts):
            members = np.flatnonzero(fine == j)
            chosen = rng.integers(0, len(members), len(members))
            weights[members] = np.bincount(chosen, minlength=len(members))
        drawn.append(_means(_matrix(gram, plain * weights), pairs, parts))
    for i in range(permutations):
        progress((resamples + i) / rounds, "permuted labels")
        labels = fine.copy()
        for c in np.unique(classes):
            members = np.flatnonzero(classes == c)
            labels[members] = fine[rng.permutation(members)]
        permuted.append(_means(_matrix(gram, _one_hot(labels, len(groups))), pairs, parts))
    means = _means(matrix, pairs, parts)

    def of(which: int) -> tuple[float, float, float, float]:
        """A, its interval and its null."""
        low, high = _quantiles([each[which] for each in drawn], 0.025, 0.975)
        # A permutation without a single defined pair says that A is not defined here: it counts as 0.
        chance = np.nan_to_num([each[which] for each in permuted])
        return means[which], low, high, float(chance.mean()) if len(chance) else float("nan")

    whole = _ALL_PAIRS if weigh == "pairs" else _ALL_CLASSES
    defined = np.array([matrix[i, j] for i, j in pairs])
    return SharedGradient(
        *of(whole),
        *_quantiles([each[whole] for each in permuted], 0.05, 0.95),
        matrix=matrix,
        counts=counts,
        undefined=float(np.mean(np.isnan(defined))),
        by_class=tuple(ClassGradient(c, *of(c)) for c in sorted(parts)),
    )


def gradient_noise(gradients: Float[ndarray, "n D"], fine: Int[ndarray, " n"], k: int) -> float:
    r"""The share of the gradients' energy that is not the mean of their sub-class.

        1 - mean over j of U_j / (mean |g|^2 over sub-class j),

    with U_j of `shared_gradient`: 0 if all gradients of a sub-class are the same, 1 if they have nothing
    in common.

    >>> same, fine = np.ones((6, 3)), np.array([0, 0, 0, 1, 1, 1])
    >>> gradient_noise(same, fine, 2)
    0.0
    >>> gradient_noise(np.eye(6), fine, 2)
    1.0
    """
    shares = []
    for j in range(k):
        rows = gradients[fine == j].astype(float)
        energy = float((rows**2).sum(axis=1).mean()) if len(rows) else 0.0
        if len(rows) < LEAST or energy == 0.0:
            continue
        squared = float((rows.mean(axis=0) ** 2).sum())
        shares.append((len(rows) * squared - energy) / (len(rows) - 1) / energy)
    return 1.0 - float(np.mean(shares)) if shares else float("nan")


def same_class_pairs(groups: Int[ndarray, " k"], counts: Int[ndarray, " k"]) -> list[tuple[int, int]]:
    """Pairs i < j of sub-classes of one class, both with enough samples."""
    enough = np.flatnonzero(counts >= LEAST)
    return [(int(i), int(j)) for i in enough for j in enough if i < j and groups[i] == groups[j]]


def _one_hot(fine: Int[ndarray, " n"], k: int) -> Float[ndarray, "k n"]:
    return (np.arange(k)[:, None] == fine[None, :]).astype(float)


def _matrix(gram: Float[ndarray, "n n"], weights: Float[ndarray, "k n"]) -> Float[ndarray, "k k"]:
    """<g_i, g_j> / sqrt(U_i U_j) from inner products alone, samples counted `weights` times.

    With weights 0 or 1 the squared length below is U of the definition. In a bootstrap a sample that
    was drawn twice must not be paired with itself, or noise would count as signal.
    """
    total = weights.sum(axis=1)
    inner = weights @ gram @ weights.T
    own = np.diag(inner) - (weights**2) @ np.diag(gram)
    free = total**2 - (weights**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        squared = np.where(free > 0, own / free, np.nan)
        squared = np.where(squared > 0, squared, np.nan)
        means = inner / np.outer(total, total)
        matrix = means / np.sqrt(np.outer(squared, squared))
    np.fill_diagonal(matrix, np.where(np.isnan(squared), np.nan, 1.0))
    return np.asarray(matrix)


def _mean(matrix: Float[ndarray, "k k"], pairs: list[tuple[int, int]]) -> float:
    values = np.array([matrix[i, j] for i, j in pairs])
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def _means(
    matrix: Float[ndarray, "k k"], pairs: list[tuple[int, int]], parts: dict[int, list[tuple[int, int]]]
) -> dict[int, float]:
    """A of each class, over all pairs, and with the same weight for each class."""
    means = {c: _mean(matrix, part) for c, part in parts.items()}
    defined = [value for value in means.values() if not np.isnan(value)]
    means[_ALL_CLASSES] = float(np.mean(defined)) if defined else float("nan")
    means[_ALL_PAIRS] = _mean(matrix, pairs)
    return means


def _quantiles(values: list[float], low: float, high: float) -> tuple[float, float]:
    finite = [value for value in values if not np.isnan(value)]
    if not finite:
        return float("nan"), float("nan")
    return float(np.quantile(finite, low)), float(np.quantile(finite, high))


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
