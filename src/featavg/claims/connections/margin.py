"""Lyu et al. (2021): a two-layer network from a small start settles for a line and half the margin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Contour, Figure, Plane, Points
from featavg.figures.marks import Role
from featavg.measures.best_margin import BestMargin, best_margin, normalized_margin
from featavg.nets.activations.leaky_relu import LeakyReLU
from featavg.nets.power_relu import Shallow
from featavg.training.prelu_objective import ShallowObjective, train_shallow

AXIS = np.array([[1.0, 0.0], [-1.0, 0.0]])


@dataclass(frozen=True, eq=False)
class Hinted:
    """Two positive points at steep angles, a negative one behind, and a far hint that says "right".

    The line x_1 = 0 separates them, by cos(angle) only. A network could bend around the positive
    points and keep twice the margin; the hint lies where both agree and binds no margin at all.
    """

    angle: float = 80.0
    hint: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.angle < 90:
            raise InputError("angle", f"is {self.angle}", "give degrees between 0 and 90")
        if self.hint < 0:
            raise InputError("hint", f"is {self.hint}", "give a distance, 0 for none")

    @property
    def x(self) -> Float[ndarray, "n 2"]:
        """The points; without a hint if it is 0."""
        t = np.radians(self.angle)
        points = [(np.cos(t), np.sin(t)), (np.cos(t), -np.sin(t)), (-1.0, 0.0)]
        return np.array([*points, (self.hint, 0.0)] if self.hint else points)

    @property
    def y(self) -> Int[ndarray, " n"]:
        """Their labels."""
        return np.array([1, 1, -1, 1] if self.hint else [1, 1, -1])


def fit(task: Hinted, leak: float, seed: int, width: int = 40, time: float = 1e12) -> Shallow:
    """Gradient flow on the exponential loss from weights of size 1e-6."""
    objective = ShallowObjective(task.x, task.y, LeakyReLU(leak))
    start = stream(seed, "hinted").standard_normal((width, 2))
    return train_shallow(objective, start, scale=1e-6, time=time)[0]


def off_axis(net: Shallow) -> float:
    """The largest angle to the x_1-axis, in degrees, of the neurons that make up 99% of f."""
    strong = net.directions[net.strongest()]
    return float(np.degrees(np.arcsin(np.clip(np.abs(strong[:, 1]), 0.0, 1.0))).max())


def margins(
    settings: ClaimSettings, angle: float = 80.0, hint: float = 10.0, leak: float = 0.1
) -> Evidence:
    """Margins of the trained networks against the best line and the best network."""
    task, plain = Hinted(angle, hint), Hinted(angle, 0.0)
    activation = LeakyReLU(leak)
    best = best_margin(task.x, task.y, activation)
    line = best_margin(task.x, task.y, activation, AXIS)
    hinted, free = [], []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        hinted.append(fit(task, leak, seed))
        free.append(fit(plain, leak, seed))
    found = [normalized_margin(net, task.x, task.y) for net in hinted]
    without = [normalized_margin(net, plain.x, plain.y) for net in free]
    tilt = max(off_axis(net) for net in hinted)
    checks = (
        Check("angle of the dominant neurons to the axis, degrees, worst seed", tilt, "<=", 5.0,
              note="0 is a linear boundary"),
        Check("margin of the trained network over the best network's, largest seed",
              max(found) / best.lower, "<=", 0.6),
        Check("margin of the trained network over the best line's, smallest seed",
              min(found) / line.upper, ">=", 0.9),
        Check("without the hint: margin over the best network's, smallest seed",
              min(without) / best.upper, ">=", 0.9, essential=False),
        Check("relative gap of the bounds on the best margin", best.upper / best.lower - 1, "<=", 1e-6,
              essential=False),
    )  # fmt: skip
    finding = (
        f"From a small start the network becomes a line (neurons within {tilt:.1f}° of the axis) with "
        f"normalised margin {np.median(found):.4f}, {np.median(found) / best.lower:.0%} of the "
        f"{best.lower:.4f} that a network can have on these four points; without the far hint, which "
        f"binds no margin, it reaches {np.median(without) / best.lower:.0%}."
    )
    numbers = {
        "trained": found,
        "trained_without_hint": without,
        "best_line": line.lower,
        "best_network": [best.lower, best.upper],
        "off_axis_degrees": [off_axis(net) for net in hinted],
    }
    figure = _figure(task, (hinted[0], free[0]), found, without, line, best)
    return Evidence(checks, (figure,), numbers, finding)


def _figure(
    task: Hinted,
    nets: tuple[Shallow, Shallow],
    found: list[float],
    without: list[float],
    line: BestMargin,
    best: BestMargin,
) -> Figure:
    panels = [
        _plane(Hinted(task.angle, 0.0), net, title, role)
        for net, title, role in (
            (nets[0], "Trained with a far hint: a line", "averaged"),
            (nets[1], "Trained without it: bent", "decoupled"),
        )
    ]
    values = (np.median(found), line.lower, np.median(without), best.lower)
    low = (min(found), line.lower, min(without), best.lower)
    high = (max(found), line.upper, max(without), best.upper)
    groups = ("hint", "best line", "no hint", "best net")
    bars = Bars(
        groups,
        (Bar("normalised margin", values, "neutral", low, high),),
        Axis("normalised margin"),
        title="Margins",
    )
    return Figure(
        "margin",
        "A line, where a better margin exists",
        "The same three points with and without a far hint on the right (outside the picture). With "
        "it the network from a small start is a line and has half of the best margin; without it the "
        "boundary bends around the positive points.",
        (*panels, bars),
    )


def _plane(points: Hinted, net: Shallow, title: str, role: str) -> Plane:
    at = np.linspace(-1.5, 1.5, 61)
    gx, gy = np.meshgrid(at, at)
    z = net(np.stack([gx.ravel(), gy.ravel()], axis=1)).reshape(gx.shape)
    up = points.y > 0
    chosen: Role = "averaged" if role == "averaged" else "decoupled"
    return Plane(
        Axis("x<sub>1</sub>"),
        Axis("x<sub>2</sub>"),
        points=(
            Points("class +", points.x[up, 0], points.x[up, 1], "decoupled", size=8),
            Points("class −", points.x[~up, 0], points.x[~up, 1], "averaged", "s", 8),
        ),
        contours=(
            Contour("boundary", at, at, np.round(z / np.abs(z).max(), 4), chosen, fill=True),
        ),
        title=title,
    )


CLAIMS = (
    Claim(
        id="connections-simplicity-margin",
        title="A small start finds a line where a better margin exists",
        theme="Connections",
        statement="Gradient descent on a two-layer network with small initialisation can converge to "
        "a linear classifier, whose margin is a local maximum only: a network with a larger "
        "normalised margin exists.",
        source="Talk, 'Connection to simplicity bias'; Lyu, Li, Wang and Arora 2021, section on "
        "non-symmetric data",
        measured="the angle of the neurons to the axis and the normalised margin after gradient flow "
        "to time 10<sup>12</sup>, against the best margin of a line and of any network (a linear "
        "program with its dual bound); leaky ReLU with leak 0.1, four points in the plane",
        run=margins,
        minutes=0.02,
    ),
)
