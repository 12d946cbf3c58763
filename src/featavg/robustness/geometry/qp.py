"""The nearest point of a polyhedron, with a lower bound that does not trust the solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import daqp
import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import linprog, minimize, nnls

from featavg.robustness.models.norms import Bounds

# Rows have length one and the answer is near one, so this is a relative accuracy. daqp's own 1e-6
# would show in the radius.
FEASIBLE = 1e-12
TRUSTED = 1e-9
FAR = 1e3


@dataclass(frozen=True, eq=False)
class Nearest:
    """What is known of min |u| subject to rows @ u <= limits.

    Attributes:
        u: the solver's point, or None if it found none.
        bound: certified: no point of the polyhedron is nearer to zero.
        multipliers: the lambda >= 0 that proves it.
    """

    u: Float[ndarray, " r"] | None
    bound: float
    multipliers: Float[ndarray, " q"]


def nearest(
    rows: Float[ndarray, "q r"],
    limits: Float[ndarray, " q"],
    row_errors: Float[ndarray, " q"],
    limit_errors: Float[ndarray, " q"],
) -> Nearest:
    r"""min |u| subject to rows @ u <= limits.

    The bound is checked apart from the solver: for any lambda >= 0 the polyhedron lies inside the
    half-space (lambda @ rows) u <= lambda @ limits, whose distance from zero is
    -lambda @ limits / |lambda @ rows|. Rounding errors of the rows (`row_errors` bounds their
    norms) and of the limits are charged against it. So a solver that stops early, or that calls a
    feasible problem infeasible, costs tightness and never soundness; where daqp's multipliers do
    not confirm its answer, Lawson and Hanson's least-distance programming is asked as well.

    >>> found = nearest(np.array([[-1.0, 0.0]]), np.array([-2.0]), np.zeros(1), np.zeros(1))
    >>> found.u, found.bound
    (array([2., 0.]), 2.0)
    """
    lengths = np.sqrt(np.einsum("qr,qr->q", rows, rows))
    if not lengths.all():
        return _without_empty_rows(rows, limits, row_errors, limit_errors, lengths)
    a, b = rows / lengths[:, None], limits / lengths
    scale = _scale(b)
    q, r = a.shape
    identity, zero, below, kind = _constants(q, r)
    u, _, flag, info = daqp.solve(identity, zero, a, b / scale, below, kind, primal_tol=FEASIBLE)
    multipliers = np.maximum(info["lam"], 0.0) / lengths
    # Rows were divided by their lengths, so multipliers of the given rows are, too; negative ones are
    # rounding, and zero proves as much without them.
    found = Nearest(
        u * scale if flag == 1 else None, half_space(rows, limits, row_errors, limit_errors, multipliers), multipliers
    )
    if found.u is not None and found.bound >= (1.0 - TRUSTED) * math.sqrt(found.u @ found.u):
        return found
    if found.u is None and found.bound > 1e6 * scale:
        return found
    return _second_opinion(a, b / scale, lengths, scale, rows, limits, row_errors, limit_errors, found)


def _scale(b: Float[ndarray, " q"]) -> float:
    """What limits are divided by: the largest, but no more than FAR times the largest violation.

    A row that is nothing but rounding has, divided by its length, a limit of any size; in units of it
    all violations would be below the solver's tolerance, and zero its answer.
    """
    largest, violated = float(np.abs(b).max()), -float(b.min())
    return (min(largest, FAR * violated) if violated > 0.0 else largest) or 1.0


def _without_empty_rows(
    rows: ndarray, limits: ndarray, row_errors: ndarray, limit_errors: ndarray, lengths: ndarray
) -> Nearest:
    """A row of length zero has no direction: it holds everywhere or nowhere."""
    empty = (lengths == 0.0) & (limits < 0.0)
    if empty.any():
        multipliers = empty.astype(float)
        bound = half_space(rows, limits, row_errors, limit_errors, multipliers)
        return Nearest(None, bound, multipliers)
    kept = lengths > 0.0
    multipliers = np.zeros(len(limits))
    if not kept.any():
        return Nearest(np.zeros(rows.shape[1]), 0.0, multipliers)
    found = nearest(rows[kept], limits[kept], row_errors[kept], limit_errors[kept])
    multipliers[kept] = found.multipliers
    return Nearest(found.u, found.bound, multipliers)


def half_space(
    rows: Float[ndarray, "q r"],
    limits: Float[ndarray, " q"],
    row_errors: Float[ndarray, " q"],
    limit_errors: Float[ndarray, " q"],
    multipliers: Float[ndarray, " q"],
) -> float:
    """The distance of the half-space that these multipliers prove, rounded down.

    The true rows are within row_errors, the true limits within limit_errors, of the given ones. So
    the true combination is <= lambda @ (limits + limit_errors), and its normal is no longer than
    |lambda @ rows| + lambda @ row_errors: both ends of the quotient err on the safe side.
    """
    depth = -float(multipliers @ (limits + limit_errors))
    if not depth > 0.0:
        return 0.0
    normal = multipliers @ rows
    length = math.sqrt(normal @ normal) + float(multipliers @ row_errors)
    return depth / length if length > 0.0 else math.inf


@lru_cache(maxsize=4096)
def _constants(q: int, r: int) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    return np.eye(r), np.zeros(r), np.full(q, -1e30), np.zeros(q, dtype=np.int32)


def _second_opinion(
    a: ndarray,
    b: ndarray,
    lengths: ndarray,
    scale: float,
    rows: ndarray,
    limits: ndarray,
    row_errors: ndarray,
    limit_errors: ndarray,
    first: Nearest,
) -> Nearest:
    """Least-distance programming as one non-negative least-squares problem (Lawson, Hanson)."""
    r = a.shape[1]
    target = np.zeros(r + 1)
    target[r] = 1.0
    stacked = -np.vstack([a.T, b[None, :]])
    try:
        weights, _ = nnls(stacked, target)
    except RuntimeError:  # it did not converge; the first answer's own bound still stands
        return first
    residual = stacked @ weights - target
    multipliers = weights / lengths
    bound = half_space(rows, limits, row_errors, limit_errors, multipliers)
    u = None if residual[r] > -FEASIBLE else -residual[:r] / residual[r] * scale
    if u is not None and np.any(a @ u > scale * (b + 1e-9)):
        u = None
    return Nearest(
        first.u if u is None else u, max(bound, first.bound), multipliers if bound > first.bound else first.multipliers
    )


def shortest_step(
    rows: Float[ndarray, "K D"],
    limits: Float[ndarray, " K"],
    norm: str = "l2",
    x: Float[ndarray, " D"] | None = None,
    bounds: Bounds = None,
) -> Float[ndarray, " D"] | None:
    """argmin { |delta| : rows @ delta <= limits, x + delta in the box }, or None if there is none.

    In l2 a dual active-set method; with a box, where D may be in the thousands, its dual in K
    variables. In l_inf a linear program of D bounded variables and K rows; a box is not for it.

    >>> shortest_step(np.array([[1.0, 1.0]]), np.array([-2.0])).round(6)
    array([-1., -1.])
    >>> shortest_step(np.array([[1.0, 1.0]]), np.array([-3.0]), "linf").round(6)
    array([-1.5, -1.5])
    """
    sizes = np.sqrt(np.einsum("kd,kd->k", rows, rows))
    if np.any((sizes == 0) & (limits < 0)):
        return None
    # Unit rows: unscaled ones come back infeasible when weights are small.
    sizes = np.where(sizes > 0, sizes, 1.0)
    rows, limits = rows / sizes[:, None], limits / sizes
    reach = float(np.abs(limits).max(initial=0.0))
    if reach == 0 or np.all(limits >= 0):
        return np.zeros(rows.shape[1])
    scaled = limits / reach
    if norm == "linf":
        delta = _linear_program(rows, scaled)
    elif bounds is None:
        none = np.zeros(len(scaled))
        delta = nearest(rows, scaled, none, none).u
    else:
        assert x is not None
        low, high = (bounds[0] - x) / reach, (bounds[1] - x) / reach
        delta = _boxed(rows, scaled, low, high)
    return None if delta is None else delta * reach


def _boxed(
    rows: Float[ndarray, "K D"], limits: Float[ndarray, " K"], low: Float[ndarray, " D"], high: Float[ndarray, " D"]
) -> Float[ndarray, " D"] | None:
    """The minimiser of the Lagrangian is clip(-rows^T u, low, high): maximise what is left in u."""

    def dual(u: ndarray) -> tuple[float, ndarray]:
        delta = np.clip(-u @ rows, low, high)
        slack = rows @ delta - limits
        return float(-(0.5 * delta @ delta + u @ slack)), -slack

    solution = minimize(
        dual, np.zeros(len(limits)), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(limits),
        options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    delta = np.clip(-solution.x @ rows, low, high)
    return delta if np.all(rows @ delta - limits <= 1e-4) else None


def _linear_program(rows: Float[ndarray, "K D"], limits: Float[ndarray, " K"]) -> Float[ndarray, " D"] | None:
    """With delta = s/t and |s| <= 1 the bounds are constants and K rows are left: maximise t."""
    objective = np.zeros(rows.shape[1] + 1)
    objective[-1] = -1.0
    box = np.tile([-1.0, 1.0], (rows.shape[1] + 1, 1))
    box[-1] = 0.0, np.inf
    solution = linprog(objective, np.column_stack([rows, -limits]), np.zeros(len(limits)), bounds=box, method="highs")
    if solution.status != 0 or not solution.x[-1] > 0:
        return None
    return np.asarray(solution.x[:-1] / solution.x[-1])
