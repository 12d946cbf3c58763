"""Lyu et al. (2021): a two-layer network from a small start settles for a line and half the margin.

Two positive points lie at steep angles, a negative one behind, and a far hint says "right". The line
x_1 = 0 separates them, by cos(angle) only. A network could bend around the positive points and keep
twice the margin; the hint lies where both agree and binds no margin at all.

The best margin of networks of any width is known for points in the plane. f = sum_j v_j phi(<w_j, x>) with
phi of degree one is an integral of phi(<u, x>) over directions u, and |theta|^2 is at least twice the
total weight of that integral. So

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

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Contour, Figure, Plane, Points
from featavg.figures.marks import Role
from featavg.nets.activations._activation import LeakyReLU
from featavg.paper.connections.power_relu import Shallow, ShallowObjective, train_shallow
from featavg.paper.engine.claim import Check, Context, Evidence, claim


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
    x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], activation: LeakyReLU, directions: Float[ndarray, "q 2"]
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
    x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], activation: LeakyReLU, shares: Float[ndarray, " n"]
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


AXIS = np.array([[1.0, 0.0], [-1.0, 0.0]])


def hinted_points(angle: float, hint: float) -> tuple[Float[ndarray, "n 2"], Int[ndarray, " n"]]:
    """The points and their labels; without a hint if `hint` is 0."""
    if not 0 < angle < 90:
        raise InputError("angle", f"is {angle}", "give degrees between 0 and 90")
    if hint < 0:
        raise InputError("hint", f"is {hint}", "give a distance, 0 for none")
    t = np.radians(angle)
    points = [(np.cos(t), np.sin(t)), (np.cos(t), -np.sin(t)), (-1.0, 0.0)]
    if not hint:
        return np.array(points), np.array([1, 1, -1])
    return np.array([*points, (hint, 0.0)]), np.array([1, 1, -1, 1])


def _fit(x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], activation: LeakyReLU, seed: int) -> Shallow:
    """Gradient flow on the exponential loss from 40 weights of size 1e-6."""
    start = stream(seed, "hinted").standard_normal((40, 2))
    net: Shallow = train_shallow(ShallowObjective(x, y, activation), start, scale=1e-6, time=1e12).net
    return net


def _off_axis(net: Shallow) -> float:
    """The largest angle to the x_1-axis, in degrees, of the neurons that make up 99% of f."""
    strong = net.directions[net.strongest()]
    return float(np.degrees(np.arcsin(np.clip(np.abs(strong[:, 1]), 0.0, 1.0))).max())


@claim(
    "connections-simplicity-margin",
    "A small start finds a line where a better margin exists",
    theme="Connections",
    source="Talks, 'Connection to simplicity bias'; Lyu, Li, Wang and Arora 2021, section on non-symmetric data",
    measured="the angle of the neurons to the axis and the normalised margin after gradient flow "
    "to time 10<sup>12</sup>, against the best margin of a line and of any network (a linear "
    "program with its dual bound); leaky ReLU with leak 0.1, four points in the plane",
    minutes=0.01,
    statements=("itcs-local-margin", "csml-local-margin"),
)
def hinted_margin(run: Context, angle: float = 80.0, hint: float = 10.0, leak: float = 0.1) -> Evidence:
    """Gradient descent on a two-layer network with small initialisation can converge to a linear
    classifier, whose margin is a local maximum only: a network with a larger normalised margin
    exists.
    """
    (x, y), (plain, labels) = hinted_points(angle, hint), hinted_points(angle, 0.0)
    activation = LeakyReLU(leak)
    nets = [(_fit(x, y, activation, s), _fit(plain, labels, activation, s)) for s in run.seeds]
    best, line = best_margin(x, y, activation), best_margin(x, y, activation, AXIS)
    hinted = [normalized_margin(net, x, y) for net, _ in nets]
    free = [normalized_margin(net, plain, labels) for _, net in nets]
    tilt = [_off_axis(net) for net, _ in nets]
    panels = (
        _plane(plain, labels, nets[0][0], "Trained with a far hint: a line", "averaged"),
        _plane(plain, labels, nets[0][1], "Trained without it: bent", "decoupled"),
        _bars(hinted, free, line, best),
    )
    figure = Figure(
        "margin",
        "A line, where a better margin exists",
        "The same three points with and without a far hint on the right (outside the picture). "
        "With it the network from a small start is a line and has half of the best margin; "
        "without it the boundary bends around the positive points.",
        panels,
    )
    middle = float(np.median(hinted))
    return Evidence(
        Check("angle of the dominant neurons to the axis, degrees, worst seed", max(tilt), "<=", 5.0,
              note="0 is a linear boundary"),
        Check("margin of the trained network over the best network's, largest seed",
              max(hinted) / best.lower, "<=", 0.6),
        Check("margin of the trained network over the best line's, smallest seed",
              min(hinted) / line.upper, ">=", 0.9),
        Check("without the hint: margin over the best network's, smallest seed",
              min(free) / best.upper, ">=", 0.9, role="note"),
        Check("relative gap of the bounds on the best margin", best.upper / best.lower - 1, "<=", 1e-6,
              role="note"),
        finding=f"From a small start the network becomes a line (neurons within {max(tilt):.1f}° of the "
        f"axis) with normalised margin {middle:.4f}, {middle / best.lower:.0%} of the {best.lower:.4f} "
        "that a network can have on these points; without the far hint, which binds no margin, it "
        f"reaches {float(np.median(free)) / best.lower:.0%}.",
        numbers={"trained": hinted, "trained_without_hint": free, "off_axis_degrees": tilt,
                 "best_line": line.lower, "best_network": [best.lower, best.upper]},
        figure=figure,
    )  # fmt: skip


def _bars(hinted: list[float], free: list[float], line: BestMargin, best: BestMargin) -> Bars:
    rows = hinted, [line.lower, line.upper], free, [best.lower, best.upper]
    middle = (np.median(hinted), line.lower, np.median(free), best.lower)
    lows, highs = ([end(row) for row in rows] for end in (min, max))
    bar = Bar("normalised margin", middle, "neutral", lows, highs)
    groups = ("hint", "best line", "no hint", "best net")
    return Bars(groups, (bar,), Axis("normalised margin"), title="Margins")


def _plane(x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], net: Shallow, title: str, role: Role) -> Plane:
    ticks = np.linspace(-1.5, 1.5, 61)
    gx, gy = np.meshgrid(ticks, ticks)
    z = net(np.stack([gx.ravel(), gy.ravel()], axis=1)).reshape(gx.shape)
    z = np.round(z / np.abs(z).max(), 4)
    up = y > 0
    return Plane(
        Axis("x<sub>1</sub>"),
        Axis("x<sub>2</sub>"),
        points=(
            Points("class +", x[up, 0], x[up, 1], "decoupled", size=8),
            Points("class −", x[~up, 0], x[~up, 1], "averaged", "s", 8),
        ),
        contours=(Contour("boundary", ticks, ticks, z, role, fill=True),),
        title=title,
    )
