"""Is our attack as strong as foolbox's? Asked at the same budget, on the same decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import one_of
from featavg.robustness.attacks.foolbox_bridge import foolbox_attack
from featavg.robustness.attacks.result import AttackResult
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import NORMS, length
from featavg.robustness.models.torch_model import TorchModel

# (class, settings, whether it runs at fixed radii); steps are filled in from the budget.
OPPONENTS = {
    "l2": (("DDNAttack", False), ("L2PGD", True)),
    "linf": (("LInfFMNAttack", False), ("LinfPGD", True)),
}


@dataclass(frozen=True, eq=False)
class Opinion:
    """One opponent's radii beside ours, on points that are decided rightly.

    Attributes:
        name: the opponent.
        ours, theirs: radii; infinite where nothing flipped.
        gradients: (ours, theirs), a point.
    """

    name: str
    ours: Float[ndarray, " n"]
    theirs: Float[ndarray, " n"]
    gradients: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Mean radius, ours over theirs, where theirs is finite."""
        both = np.isfinite(self.theirs)
        return float(np.mean(self.ours[both]) / np.mean(self.theirs[both]))

    @property
    def weaker(self) -> float:
        """The share of points where ours is longer by more than half a percent."""
        return float(np.mean(self.ours > self.theirs * 1.005))

    def above(self, radii: Sequence[float] | Float[ndarray, " q"] | None = None) -> float:
        """The most that our robust accuracy is above theirs at any radius; 0 or less is as asked."""
        ends = np.concatenate([self.ours, self.theirs])
        at = np.sort(ends[np.isfinite(ends)]) if radii is None else np.asarray(radii, dtype=float)
        robust = [np.mean(r[None, :] > at[:, None], axis=1) for r in (self.ours, self.theirs)]
        return float(np.max(robust[0] - robust[1], initial=-1.0))


def outside_opinion(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    norm: str = "l2",
    budget: int = 120,
    radii: int = 20,
) -> list[Opinion]:
    """Run foolbox's minimal-norm attack with `budget` steps and its PGD-40 at `radii` radii.

    foolbox's points are taken as they are: not shortened, only checked that they flip.
    """
    one_of("norm", norm, NORMS)
    ours = attack_suite(model, x, y, norm, budget=budget)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    rows = np.flatnonzero(ours.radii > 0)
    points, label = model.rows(x)[rows], model.decision.labels(y)[rows]
    found = []
    for name, fixed in OPPONENTS[norm]:
        before = model.cost.gradients
        settings: dict[str, Any] = {"steps": 40 if fixed else budget}
        at = np.linspace(0.0, _largest(ours), radii + 1)[1:] if fixed else None
        theirs = foolbox_attack(model, points, label, name, at, **settings)
        moved = np.where(theirs.flipped, length(theirs.point - points, norm), np.inf)
        asked = (model.cost.gradients - before) / len(points)
        found.append(Opinion(name, ours.radii[rows], moved, (ours.gradients, asked)))
    return found


def _largest(ours: AttackResult) -> float:
    """A radius that most points are flipped at."""
    return float(np.quantile(ours.radii[np.isfinite(ours.radii)], 0.95)) or 1.0
