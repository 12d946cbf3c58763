"""Whether the sub-classes of a class exist: a probe for them against its chance level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import probe_answers


@dataclass(frozen=True)
class SubclassProbe:
    """How well a linear probe names the sub-class of an image whose class is given.

    Attributes:
        label: the class.
        subclasses: how many it has.
        accuracy: of the probe, on images that it was not fitted to.
        chance: of always naming the largest sub-class.
        where: what the probe reads, the input or the features.
    """

    label: int
    subclasses: int
    accuracy: Accuracy
    chance: float
    where: str

    @property
    def above_chance(self) -> bool:
        """Whether the whole interval lies above chance."""
        return self.accuracy.low > self.chance

    @property
    def decoupled(self) -> float:
        r"""The A that a decoupled network can show with sub-classes that are known no better than this.

        If a share r of the labels is right and the others are drawn at random, a sub-class's mean
        gradient is a times its own direction and b times each of the k - 1 others, a = r + (1 - r)/k,
        b = (1 - r)/k, and A = (2ab + (k - 2) b^2) / (a^2 + (k - 1) b^2): 0 at r = 1, 1 at r = 0.
        """
        k, r = self.subclasses, (self.accuracy.low - self.chance) / max(1.0 - self.chance, 1e-9)
        b = (1.0 - max(0.0, r)) / k
        a = max(0.0, r) + b
        return (2 * a * b + (k - 2) * b**2) / (a**2 + (k - 1) * b**2)

    def __str__(self) -> str:
        return f"a probe names {self.accuracy.value:.0%} rightly, {self.chance:.0%} by chance"


def subclass_probes(
    spaces: Mapping[str, Float[ndarray, "n _"]],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    seed: int = 0,
) -> dict[int, SubclassProbe]:
    """The better probe of several spaces for each class that has two sub-classes or more."""
    answers = {where: probe_answers(x, fine, groups, seed) for where, x in spaces.items()}
    found = {}
    for c in np.flatnonzero(np.bincount(groups) > 1).tolist():
        counts = np.bincount(fine[groups[fine] == c])
        inside = {where: right[groups[fine[rows]] == c] for where, (rows, right) in answers.items()}
        where = max(inside, key=lambda name: inside[name].sum())
        found[c] = SubclassProbe(
            label=c,
            subclasses=int(np.sum(groups == c)),
            accuracy=wilson(int(inside[where].sum()), max(1, len(inside[where]))),
            chance=float(counts.max() / counts.sum()),
            where=where,
        )
    return found
