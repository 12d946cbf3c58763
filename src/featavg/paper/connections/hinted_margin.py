"""Lyu et al. (2021): a two-layer network from a small start settles for a line and half the margin.

Two positive points lie at steep angles, a negative one behind, and a far hint says "right". The line
x_1 = 0 separates them, by cos(angle) only. A network could bend around the positive points and keep
twice the margin; the hint lies where both agree and binds no margin at all.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Contour, Figure, Plane, Points
from featavg.figures.marks import Role
from featavg.nets.activations._activation import LeakyReLU
from featavg.paper.connections.best_margin import BestMargin, best_margin, normalized_margin
from featavg.paper.connections.power_relu import Shallow, ShallowObjective, train_shallow
from featavg.paper.engine.claim import Check, Context, Evidence, claim

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


def _fit(
    x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], activation: LeakyReLU, seed: int
) -> Shallow:
    """Gradient flow on the exponential loss from 40 weights of size 1e-6."""
    start = stream(seed, "hinted").standard_normal((40, 2))
    net: Shallow = train_shallow(
        ShallowObjective(x, y, activation), start, scale=1e-6, time=1e12
    ).net
    return net


def _off_axis(net: Shallow) -> float:
    """The largest angle to the x_1-axis, in degrees, of the neurons that make up 99% of f."""
    strong = net.directions[net.strongest()]
    return float(np.degrees(np.arcsin(np.clip(np.abs(strong[:, 1]), 0.0, 1.0))).max())


@claim(
    "connections-simplicity-margin", "A small start finds a line where a better margin exists",
    theme="Connections",
    source="Talks, 'Connection to simplicity bias'; Lyu, Li, Wang and Arora 2021, section on "
    "non-symmetric data",
    measured="the angle of the neurons to the axis and the normalised margin after gradient flow "
    "to time 10<sup>12</sup>, against the best margin of a line and of any network (a linear "
    "program with its dual bound); leaky ReLU with leak 0.1, four points in the plane",
    minutes=0.02, statements=("itcs-local-margin", "csml-local-margin"),
)  # fmt: skip
def hinted_margin(
    run: Context, angle: float = 80.0, hint: float = 10.0, leak: float = 0.1
) -> Evidence:
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


def _plane(
    x: Float[ndarray, "n 2"], y: Int[ndarray, " n"], net: Shallow, title: str, role: Role
) -> Plane:
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
