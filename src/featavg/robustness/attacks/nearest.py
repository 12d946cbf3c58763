"""The shortest perturbation that satisfies a few linear inequalities."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import linprog, minimize

from featavg.robustness.exact import qp
from featavg.robustness.models.norms import Bounds


def nearest(
    rows: Float[ndarray, "K D"],
    limits: Float[ndarray, " K"],
    norm: str = "l2",
    x: Float[ndarray, " D"] | None = None,
    bounds: Bounds = None,
) -> Float[ndarray, " D"] | None:
    """argmin { |delta| : rows @ delta <= limits, x + delta in the box }, or None if there is none.

    In l2 a dual active-set method; with a box, where D may be in the thousands, its dual in K
    variables. In l_inf a linear program of D bounded variables and K rows; a box is not for it.

    >>> nearest(np.array([[1.0, 1.0]]), np.array([-2.0])).round(6)
    array([-1., -1.])
    >>> nearest(np.array([[1.0, 1.0]]), np.array([-3.0]), "linf").round(6)
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
        found = _linear_program(rows, scaled)
    elif bounds is None:
        none = np.zeros(len(scaled))
        found = qp.nearest(rows, scaled, none, none).u
    else:
        assert x is not None
        low, high = (bounds[0] - x) / reach, (bounds[1] - x) / reach
        found = _boxed(rows, scaled, low, high)
    return None if found is None else found * reach


def _boxed(
    rows: Float[ndarray, "K D"],
    limits: Float[ndarray, " K"],
    low: Float[ndarray, " D"],
    high: Float[ndarray, " D"],
) -> Float[ndarray, " D"] | None:
    """The minimiser of the Lagrangian is clip(-rows^T u, low, high): maximise what is left in u."""

    def dual(u: ndarray) -> tuple[float, ndarray]:
        delta = np.clip(-u @ rows, low, high)
        slack = rows @ delta - limits
        return float(-(0.5 * delta @ delta + u @ slack)), -slack

    found = minimize(
        dual, np.zeros(len(limits)), jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(limits),
        options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    delta = np.clip(-found.x @ rows, low, high)
    return delta if np.all(rows @ delta - limits <= 1e-4) else None


def _linear_program(
    rows: Float[ndarray, "K D"], limits: Float[ndarray, " K"]
) -> Float[ndarray, " D"] | None:
    """With delta = s/t and |s| <= 1 the bounds are constants and K rows are left: maximise t."""
    objective = np.zeros(rows.shape[1] + 1)
    objective[-1] = -1.0
    box = np.tile([-1.0, 1.0], (rows.shape[1] + 1, 1))
    box[-1] = 0.0, np.inf
    found = linprog(
        objective, np.column_stack([rows, -limits]), np.zeros(len(limits)), bounds=box,
        method="highs",
    )  # fmt: skip
    if found.status != 0 or not found.x[-1] > 0:
        return None
    return np.asarray(found.x[:-1] / found.x[-1])
