"""What a set of attacks found: radii from above, each with its witness."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Upper bounds on the radii of n points, each with a point that shows it.

    Attributes:
        radii: |witness - x|; 0 where x itself is decided wrongly, infinite where nothing flips.
        witness: the nearest flipped point known, re-checked by plain evaluation; NaN without one.
        attack: the name of the attack that found it: "misclassified" or "none" where none did.
        stuck: nothing flipped the point and its gradient is zero: not robust, but not answered.
        unit: of the radii.
        attacks: what was run.
        gradients, evaluations: asked of the model, a point, on average.
    """

    radii: Float[ndarray, " n"]
    witness: Float[ndarray, "n D"]
    attack: list[str]
    stuck: Bool[ndarray, " n"]
    norm: str
    unit: str
    attacks: tuple[str, ...]
    gradients: float
    evaluations: float

    def __len__(self) -> int:
        return len(self.radii)

    @property
    def accuracy(self) -> float:
        """The share of points decided rightly without any attack."""
        return float(np.mean(self.radii > 0))

    @property
    def wins(self) -> dict[str, int]:
        """How many points each attack was the nearest for."""
        return {name: self.attack.count(name) for name in dict.fromkeys(self.attack)}
