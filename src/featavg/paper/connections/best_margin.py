r"""The best normalised margin that any shallow network of any width has, for points in the plane.

f = sum_j v_j phi(<w_j, x>) with phi of degree one is an integral of phi(<u, x>) over directions u,
and |theta|^2 is at least twice the total weight of that integral. So

    max_theta min_i y_i f(x_i) / |theta|^2 = 1/2 max_{|nu| <= 1} min_i y_i int phi(<u, x_i>) dnu(u),

a linear program over measures on the circle. On a finite set of directions it is a small linear
program and bounds the maximum from below; its multipliers bound it from above, exactly, because
between two perpendiculars of data points the integrand is linear in u.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.optimize import linprog

from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU
from featavg.paper.connections.power_relu import Shallow


@dataclass(frozen=True, eq=False)
class BestMargin:
    """The best normalised margin, between `lower` (attained by `net`) and `upper` (certified)."""

    lower: float
    upper: float
    net: Shallow


def normalized_margin(net: Shallow, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> float:
    """min_i y_i f(x_i) / |theta|^2."""
    size = float(np.sum(net.weights**2) + np.sum(net.head**2))
    return float((y * net(x)).min() / size)


def best_margin(
    x: Float[ndarray, "n d"],
    y: Int[ndarray, " n"],
    activation: LeakyReLU,
    directions: Float[ndarray, "q 2"] | None = None,
    rounds: int = 20,
) -> BestMargin:
    """The maximum over all networks, or over those whose neurons point in given `directions`.

    At most `rounds` times the direction that is missing most is added.

    >>> x, y = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1, -1])
    >>> found = best_margin(x, y, LeakyReLU(0.5))
    >>> round(found.lower, 6), round(found.upper, 6)
    (0.375, 0.375)
    """
    if x.ndim != 2 or x.shape[1] != 2:
        raise InputError("x", f"has shape {x.shape}", "give points of the plane")
    if directions is not None:
        value, net, _ = _program(x, y, activation, directions)
        return BestMargin(value, value, net)
    angles = np.linspace(0, 2 * np.pi, 360, endpoint=False)
    known = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    upper = np.inf
    for _ in range(rounds):
        value, net, shares = _program(x, y, activation, known)
        bound, best = _dual(x, y, activation, shares)
        upper = min(upper, bound)
        if upper - value <= 1e-12:
            break
        # The direction that violates the multipliers most is the one the program lacks.
        known = np.concatenate([known, best])
    return BestMargin(value, upper, net)


def _program(
    x: Float[ndarray, "n 2"],
    y: Int[ndarray, " n"],
    activation: LeakyReLU,
    directions: Float[ndarray, "q 2"],
) -> tuple[float, Shallow, Float[ndarray, " n"]]:
    """Primal value, the network that attains it, and the multipliers of the points."""
    q = len(directions)
    margins = y[:, None] * activation.value(x @ directions.T, np.ones((1, q)))
    table = np.concatenate([margins, -margins], axis=1)
    goal = np.append(np.zeros(2 * q), -1.0)
    solution = linprog(
        goal,
        np.column_stack([-table, np.ones(len(x))]),
        np.zeros(len(x)),
        A_eq=np.append(np.ones(2 * q), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0, None)] * (2 * q) + [(None, None)],
        method="highs",
    )
    weight = solution.x[:q] - solution.x[q : 2 * q]
    used = np.flatnonzero(np.abs(weight) > 1e-12)
    root = np.sqrt(np.abs(weight[used]))
    net = Shallow(root[:, None] * directions[used], np.sign(weight[used]) * root, activation)
    shares = np.maximum(-np.asarray(solution.ineqlin.marginals), 0.0)
    return float(-solution.fun) / 2, net, shares / shares.sum()


def _dual(
    x: Float[ndarray, "n 2"],
    y: Int[ndarray, " n"],
    activation: LeakyReLU,
    shares: Float[ndarray, " n"],
) -> tuple[float, Float[ndarray, "q 2"]]:
    """1/2 max_u |sum_i shares_i y_i phi(<u, x_i>)|, exactly, and the directions that attain it."""
    turns = np.angle(x[:, 0] + 1j * x[:, 1])[:, None] + np.array([-np.pi / 2, np.pi / 2])
    edges = np.unique(np.mod(turns.ravel(), 2 * np.pi))
    middles = (edges + np.roll(edges, -1) + np.where(np.roll(edges, -1) <= edges, 2 * np.pi, 0)) / 2
    inside = np.stack([np.cos(middles), np.sin(middles)], axis=1)
    slopes = activation.slope(inside @ x.T, np.ones((1, len(x))))
    # On the arc around a middle the sum is <u, c>, largest at c / |c| if that lies on the arc.
    c = (slopes * (shares * y)) @ x
    length = np.linalg.norm(c, axis=1, keepdims=True)
    peaks = c / np.where(length > 0, length, 1.0)
    ends = np.stack([np.cos(edges), np.sin(edges)], axis=1)
    candidates = np.concatenate([ends, peaks, -peaks])
    heights = np.abs(activation.value(candidates @ x.T, np.ones((1, len(x)))) @ (shares * y))
    top = float(heights.max())
    return top / 2, candidates[heights >= top * (1 - 1e-9)]
