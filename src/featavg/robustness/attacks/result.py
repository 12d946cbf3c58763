"""What one attack ended at, and what a set of attacks found: radii from above, each with a witness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.robustness.models.norms import length


@dataclass(frozen=True, eq=False)
class AttackEnd:
    """The nearest flipped point that one attack saw for each of n points, and where there is one.

    The point rather than the perturbation, because x + (point - x) need not be the same float.

    Attributes:
        point: a point that the model decides otherwise; anything where `flipped` is False.
        flipped: where the attack succeeded.

    >>> import numpy as np
    >>> import featavg as fa
    >>> end = fa.attacks.AttackEnd(np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([True, False]))
    >>> end.radii(np.zeros((2, 2)), "l2")
    array([ 5., inf])
    """

    point: Float[ndarray, "n D"]
    flipped: Bool[ndarray, " n"]

    @staticmethod
    def nothing(x: Float[ndarray, "n D"]) -> AttackEnd:
        """The end of an attack that flipped none of the points x."""
        return AttackEnd(x.copy(), np.zeros(len(x), dtype=bool))

    def radii(self, x: Float[ndarray, "n D"], norm: str) -> Float[ndarray, " n"]:
        """|point - x|, infinite where nothing flipped."""
        return np.where(self.flipped, length(self.point - x, norm), np.inf)

    def take(self, rows: Int[ndarray, " m"]) -> AttackEnd:
        """The ends of some of the points."""
        return AttackEnd(self.point[rows], self.flipped[rows])

    def put(self, rows: Int[ndarray, " m"], other: AttackEnd) -> AttackEnd:
        """The same with the ends of some of the points replaced where `other` flipped them."""
        point, flipped = self.point.copy(), self.flipped.copy()
        point[rows[other.flipped]] = other.point[other.flipped]
        flipped[rows] |= other.flipped
        return AttackEnd(point, flipped)


def nearer(x: Float[ndarray, "n D"], first: AttackEnd, second: AttackEnd, norm: str) -> AttackEnd:
    """Row by row, the nearer of two flipped points; the first where both are as near."""
    closer = second.radii(x, norm) < first.radii(x, norm)
    point = np.where(closer[:, None], second.point, first.point)
    return AttackEnd(point, first.flipped | second.flipped)


NOT_FOUND = "not found"


@dataclass(frozen=True, eq=False, repr=False)
class AttackResult:
    """Upper bounds on the radii of n points, each with a point that shows it.

    An infinite radius means that no flip was found. That is not robustness, which no attack shows.

    Attributes:
        radii: |witness - x|; 0 where x itself is decided wrongly, infinite where nothing flipped.
        witness: the nearest flipped point known, re-checked by plain evaluation; NaN without one.
        attack: the name of the attack that found it: "misclassified" or "not found" without one.
        unit: of the radii.
        attacks: what was run.
        gradients, evaluations: asked of the model, per point, on average.

    Returned by `fa.attack_suite`, which has an example.
    """

    radii: Float[ndarray, " n"]
    witness: Float[ndarray, "n D"]
    attack: list[str]
    norm: str
    unit: str
    attacks: tuple[str, ...]
    gradients: float
    evaluations: float

    def __len__(self) -> int:
        return len(self.radii)

    def __repr__(self) -> str:
        missing = int(self.stuck.sum())
        lines = [
            f"AttackResult: {len(self)} points, {self.accuracy:.1%} right without an attack",
            f"median radius {np.median(self.radii):.4g} ({self.unit})",
            f"no flip found for {missing}: not answered, which is not robust" if missing else "",
            "nearest by " + ", ".join(f"{name} {count}" for name, count in self.wins.items()),
            f"{self.gradients:.0f} gradients and {self.evaluations:.0f} evaluations per point",
        ]
        return "\n  ".join(line for line in lines if line)

    @property
    def stuck(self) -> Bool[ndarray, " n"]:
        """Where nothing flipped the point: the question is not answered."""
        return np.isinf(self.radii)

    @property
    def accuracy(self) -> float:
        """The share of points decided rightly without any attack."""
        return float(np.mean(self.radii > 0))

    @property
    def wins(self) -> dict[str, int]:
        """How many points each attack was the nearest for."""
        return {name: self.attack.count(name) for name in dict.fromkeys(self.attack)}
