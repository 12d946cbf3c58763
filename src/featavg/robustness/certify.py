"""The decision at a radius: flipped with a witness, certified, or open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import finite
from featavg.nets.deep import Deep
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.deep_radii import ARGMAX, DeepSolver, deep_case
from featavg.robustness.exact.budget import Budget


class Certificate(Enum):
    """What is known of one point at one radius.

    >>> import featavg as fa
    >>> [one.name for one in Certificate]
    ['CERTIFIED', 'FLIPPED', 'OPEN', 'MISCLASSIFIED']
    """

    CERTIFIED = "certified"
    FLIPPED = "flipped"
    OPEN = "open"
    MISCLASSIFIED = "misclassified"


@dataclass(frozen=True, eq=False)
class Certificates:
    """For every point, whether anything within `radius` (l2) is decided otherwise.

    Attributes:
        radius: the radius, in the units of x.
        status: one of `Certificate` for each point.
        witness: a flipped point within the radius, re-checked; NaN where there is none.
        seconds: time spent on each point.

    Returned by `fa.certify`, which has an example.
    """

    radius: float
    status: tuple[Certificate, ...]
    witness: Float[ndarray, "n N"]
    seconds: Float[ndarray, " n"]

    def __len__(self) -> int:
        return len(self.status)

    def mask(self, status: Certificate) -> Bool[ndarray, " n"]:
        """The points with this status."""
        return np.array([one is status for one in self.status], dtype=bool)

    @property
    def robust_error(self) -> tuple[float, float]:
        """The share of points with a flip within the radius: between attacked and not verified."""
        wrong = self.mask(Certificate.FLIPPED) | self.mask(Certificate.MISCLASSIFIED)
        return float(wrong.mean()), float((wrong | self.mask(Certificate.OPEN)).mean())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "radius": self.radius,
            "norm": "l2",
            "points": len(self),
            "status": [status.value for status in self.status],
            "robust_error": list(self.robust_error),
            "seconds": [float(value) for value in self.seconds],
        }

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{int(self.mask(status).sum())} {status.value}"
            for status in Certificate
            if self.mask(status).any()
        )
        low, high = self.robust_error
        return (
            f"Certificates at l2 radius {self.radius:g}, {len(self)} points: {counts}; "
            f"robust error {100 * low:.1f}% to {100 * high:.1f}%"
        )


def certify(
    net: Deep | TwoLayer,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    radius: float,
    readout: str | ReadOut = ARGMAX,
    positive: ndarray | None = None,
    budget: Budget | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Certificates:
    """Is any point within `radius` of x decided otherwise than x's label?

    Easier than the radius itself, and therefore possible for wide networks: most neurons keep their
    sign in a small ball, and the others cannot all be at their worst at once (see
    `exact/deep/ball_bound`, and `exact/deep/chain_form` for several layers). An answer "certified" is a
    proof, "flipped" has a witness that was evaluated; "open" means that the budget was spent.

    Args:
        net: one hidden layer of any width, or a deep network.
        x: the points.
        y: class numbers for `argmax`, or -1 and +1 for a coarse decision.
        radius: l2, in the units of x.
        readout: `argmax`, or how k outputs become a coarse decision.
        positive: for a coarse decision of several outputs, a mask of those of class +1.
        budget: what one point may cost.
        progress: told the share of points that are done.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Deep((np.eye(2), np.eye(2)))
    >>> fa.certify(net, np.array([[3.0, 1.0], [2.0, 1.0]]), np.array([0, 0]), radius=1.0)
    Certificates at l2 radius 1, 2 points: 1 certified, 1 flipped; robust error 50.0% to 50.0%
    """
    finite("radius", radius, above=0)
    decision, x, y = deep_case(net, x, y, readout, positive)
    solver = DeepSolver(decision, gap=1e-3)
    allowance = budget or Budget()
    status, witnesses = [], np.full_like(x, np.nan, dtype=float)
    seconds = np.zeros(len(x))
    for i in range(len(x)):
        start = perf_counter()
        one, witness = _at(solver, x[i], int(y[i]), radius, allowance)
        status.append(one)
        if witness is not None:
            witnesses[i] = witness
        seconds[i] = perf_counter() - start
        if progress is not None:
            progress((i + 1) / len(x), f"{i + 1} of {len(x)} points")
    return Certificates(float(radius), tuple(status), witnesses, seconds)


def _at(
    solver: DeepSolver, x: ndarray, label: int, radius: float, budget: Budget
) -> tuple[Certificate, ndarray | None]:
    decision = solver.decision
    if decision.excess(x[None], decision.goals(label))[0] <= 0:
        return Certificate.MISCLASSIFIED, x
    found, attack, witness = solver.within(x, label, budget, radius)
    if attack <= radius:
        return Certificate.FLIPPED, witness
    if found.finished and found.certified >= radius:
        return Certificate.CERTIFIED, None
    return Certificate.OPEN, None
