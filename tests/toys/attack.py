"""An attack that walks ten units left."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem


@dataclass(frozen=True)
class Toy(Attack):
    """Ten units left, wherever that is."""

    name: ClassVar[str] = "toy"
    default: ClassVar[bool] = True

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The points, moved."""
        return AttackEnd(problem.x - 10.0, np.ones(len(problem.x), dtype=bool))
