"""The max-margin direction of separable data, exactly: the SVM without a bias, with its proof."""

from __future__ import annotations

from dataclasses import dataclass

import daqp
import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.shapes import PerSeed

# Margins are scaled to one, so this is a relative accuracy of the constraints.
_FEASIBLE = 1e-12
# A relative duality gap above this means that the solver has not solved it.
_GAP = 1e-9


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """The solution of  min |w|^2 / 2  subject to  y_i <w, x_i> >= 1.

    Attributes:
        w: the solution.
        margin: 1 / |w|, the distance of the nearest point to the separating plane.
        multipliers: alpha >= 0 with w = sum_i alpha_i y_i x_i.
        gap: (primal - dual) / primal, a bound on what is missing to the optimum.
    """

    w: Float[ndarray, " N"]
    margin: float
    multipliers: Float[ndarray, " n"]
    gap: float

    @property
    def direction(self) -> Float[ndarray, " N"]:
        """The direction w / |w|."""
        return self.w * self.margin

    @property
    def support(self) -> Int[ndarray, " s"]:
        """The points with a positive multiplier."""
        return np.flatnonzero(self.multipliers > 1e-9 * self.multipliers.max())


def check_labelled(x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> None:
    """Refuse labels other than +-1, values that are no numbers, and a point with both labels."""
    if y.shape != x.shape[:1]:
        raise InputError("y", f"has shape {y.shape}", "give one label per point")
    if not np.isin(y, (-1, 1)).all():
        raise InputError("y", "holds a label other than -1 and +1", "use these two")
    if not np.all(np.isfinite(x)):
        raise InputError("x", "holds NaN or infinite values", "clean the data first")
    _, place = np.unique(x, axis=0, return_inverse=True)
    place = place.reshape(-1)
    lowest, highest = np.full(place.max() + 1, 2), np.full(place.max() + 1, -2)
    np.minimum.at(lowest, place, y)
    np.maximum.at(highest, place, y)
    both = np.flatnonzero((lowest != highest)[place])
    if both.size:
        twins = both[place[both] == place[both[0]]]
        named = " and ".join(str(i) for i in twins[:2])
        raise InputError("data", f"has one point with both labels ({named})", "keep one of them")


@public
def max_margin(x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> MaxMargin:
    """Solve the SVM by a QP and check it by its duality gap.

    Args:
        x: points, separable by a plane through the origin.
        y: their labels, -1 or +1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> found = fa.max_margin(np.array([[2.0, 0.0], [0.0, 2.0], [-3.0, 0.0]]), np.array([1, 1, -1]))
    >>> found.w.round(12), round(found.margin, 6), found.support
    (array([0.5, 0.5]), 1.414214, array([0, 1]))
    """
    check_labelled(x, y)
    rows = y[:, None] * x
    scale = float(np.sqrt(np.mean(np.sum(rows * rows, axis=1))))
    if not scale > 0.0:
        raise InputError("data", "is all zero", "give points that differ from zero")
    w, alpha = _solve(rows / scale)
    w, alpha = w / scale, alpha / scale**2
    primal = 0.5 * float(w @ w)
    built = alpha @ rows
    dual = float(alpha.sum()) - 0.5 * float(built @ built)
    # A point that misses its margin by a hair would make the primal value too good: scale it up.
    primal /= min(1.0, float((rows @ w).min())) ** 2
    return MaxMargin(w, float(1.0 / np.linalg.norm(w)), alpha, (primal - dual) / primal)


def _solve(rows: Float[ndarray, "n N"]) -> tuple[ndarray, ndarray]:
    """The QP, then its equations solved once more on the support alone, to the last bits."""
    n, dimension = rows.shape
    found, _, flag, info = daqp.solve(
        np.eye(dimension),
        np.zeros(dimension),
        np.ascontiguousarray(-rows),
        np.full(n, -1.0),
        np.full(n, -1e30),
        np.zeros(n, dtype=np.int32),
        primal_tol=_FEASIBLE,
    )
    if flag != 1 or float((rows @ found).min()) < 0.5:
        remedy = "give separable data, or add a constant coordinate for a plane that is not"
        raise InputError("data", "is not separable by a plane through the origin", remedy)
    alpha = np.maximum(info["lam"], 0.0)
    support = np.flatnonzero(alpha > 1e-12 * alpha.max())
    part = rows[support]
    exact, *_ = np.linalg.lstsq(part @ part.T, np.ones(len(support)), rcond=None)
    w = exact @ part
    if exact.min() >= 0.0 and (rows @ w).min() >= 1.0 - 1e-10:
        alpha = np.zeros(n)
        alpha[support] = exact
        return w, alpha
    return found, alpha


def checked_max_margin(x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> MaxMargin:
    """`max_margin`, refusing a solution whose duality gap is not round-off."""
    solution = max_margin(x, y)
    if not abs(solution.gap) <= _GAP:
        raise ArithmeticError(f"the QP was left with a relative duality gap of {solution.gap:.1e}")
    return solution


def angle(a: Float[ndarray, "*s N"], b: Float[ndarray, "*s N"]) -> PerSeed:
    """The angle between two directions, accurate for tiny ones (where arccos of a cosine is not).

    >>> float(angle(np.array([1.0, 1e-9]), np.array([1.0, 0.0])))
    1e-09
    """
    u = a / np.linalg.norm(a, axis=-1, keepdims=True)
    v = b / np.linalg.norm(b, axis=-1, keepdims=True)
    return np.asarray(2.0 * np.arctan2(np.linalg.norm(u - v, axis=-1), np.linalg.norm(u + v, axis=-1)))
