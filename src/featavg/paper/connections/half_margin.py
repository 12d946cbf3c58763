"""Lyu et al. (2021): a two-layer network from a small start settles for a line and half the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Contour, Figure, Plane, Points
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.nets.activations.leaky_relu import LeakyReLU
from featavg.paper.connections.best_margin import BestMargin, best_margin, normalized_margin
from featavg.paper.connections.power_relu import Shallow, ShallowObjective, train_shallow
from featavg.progress import Progress, silent

AXIS = np.array([[1.0, 0.0], [-1.0, 0.0]])


@dataclass(frozen=True, eq=False)
class HintedPoints:
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


@dataclass(frozen=True, repr=False, eq=False)
class HintedMargin(Result):
    """Margins of trained networks beside the best that a line and any network can have.

    Attributes:
        points: the task, with its hint.
        hinted, free: a network for each seed, trained with and without the hint.
        line, best: the best normalised margin of a line, and of any network.

    Returned by `fa.hinted_margin`, which has an example.
    """

    points: HintedPoints
    hinted: tuple[Shallow, ...]
    free: tuple[Shallow, ...]
    line: BestMargin
    best: BestMargin

    @property
    def margins(self) -> list[float]:
        """Normalised margins of the networks that had the hint."""
        return [normalized_margin(net, self.points.x, self.points.y) for net in self.hinted]

    @property
    def margins_without_hint(self) -> list[float]:
        """Normalised margins of the networks that had none."""
        plain = HintedPoints(self.points.angle, 0.0)
        return [normalized_margin(net, plain.x, plain.y) for net in self.free]

    @property
    def tilt(self) -> list[float]:
        """The largest angle to the x_1-axis of a dominant neuron with the hint, in degrees."""
        return [off_axis(net) for net in self.hinted]

    def figure(self) -> Figure:
        """The boundaries with and without the hint, and all margins."""
        plain = HintedPoints(self.points.angle, 0.0)
        panels = (
            _plane(plain, self.hinted[0], "Trained with a far hint: a line", "averaged"),
            _plane(plain, self.free[0], "Trained without it: bent", "decoupled"),
        )
        rows = (self.margins, [self.line.lower, self.line.upper], self.margins_without_hint,
                [self.best.lower, self.best.upper])  # fmt: skip
        middle = (np.median(rows[0]), self.line.lower, np.median(rows[2]), self.best.lower)
        bar = Bar(
            "normalised margin", middle, "neutral", [min(r) for r in rows], [max(r) for r in rows]
        )
        groups = ("hint", "best line", "no hint", "best net")
        return Figure(
            "margin",
            "A line, where a better margin exists",
            "The same three points with and without a far hint on the right (outside the picture). "
            "With it the network from a small start is a line and has half of the best margin; "
            "without it the boundary bends around the positive points.",
            (*panels, Bars(groups, (bar,), Axis("normalised margin"), title="Margins")),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "trained": self.margins,
            "trained_without_hint": self.margins_without_hint,
            "best_line": self.line.lower,
            "best_network": [self.best.lower, self.best.upper],
            "off_axis_degrees": self.tilt,
        }

    def summary(self) -> str:
        """The margins in a sentence."""
        hinted, free = (float(np.median(v)) for v in (self.margins, self.margins_without_hint))
        return (
            f"From a small start the network becomes a line (neurons within {max(self.tilt):.1f}° of "
            f"the axis) with normalised margin {hinted:.4f}, {hinted / self.best.lower:.0%} of the "
            f"{self.best.lower:.4f} that a network can have on these points; without the far hint, "
            f"which binds no margin, it reaches {free / self.best.lower:.0%}."
        )


def hinted_margin(
    angle: float = 80.0,
    hint: float = 10.0,
    leak: float = 0.1,
    *,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> HintedMargin:
    """Train from a small start on four points in the plane, and solve for the best margins.

    Args:
        angle: of the positive points, degrees.
        hint: how far the hint is; 0 for none.
        leak: slope of the leaky ReLU below 0.
        seeds: of the initial weights.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> result = fa.hinted_margin()
    >>> result.line.lower < result.margins[0] * 1.1 < result.best.lower
    True
    """
    points, plain = HintedPoints(angle, hint), HintedPoints(angle, 0.0)
    activation = LeakyReLU(leak)
    hinted, free = [], []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        hinted.append(_fit(points, activation, seed))
        free.append(_fit(plain, activation, seed))
    best = best_margin(points.x, points.y, activation)
    line = best_margin(points.x, points.y, activation, AXIS)
    return HintedMargin(points, tuple(hinted), tuple(free), line, best)


def _fit(
    points: HintedPoints, activation: LeakyReLU, seed: int, width: int = 40, time: float = 1e12
) -> Shallow:
    """Gradient flow on the exponential loss from weights of size 1e-6."""
    objective = ShallowObjective(points.x, points.y, activation)
    start = stream(seed, "hinted").standard_normal((width, 2))
    return train_shallow(objective, start, scale=1e-6, time=time).net


def off_axis(net: Shallow) -> float:
    """The largest angle to the x_1-axis, in degrees, of the neurons that make up 99% of f."""
    strong = net.directions[net.strongest()]
    return float(np.degrees(np.arcsin(np.clip(np.abs(strong[:, 1]), 0.0, 1.0))).max())


def _plane(points: HintedPoints, net: Shallow, title: str, role: Role) -> Plane:
    ticks = np.linspace(-1.5, 1.5, 61)
    gx, gy = np.meshgrid(ticks, ticks)
    z = net(np.stack([gx.ravel(), gy.ravel()], axis=1)).reshape(gx.shape)
    up = points.y > 0
    return Plane(
        Axis("x<sub>1</sub>"),
        Axis("x<sub>2</sub>"),
        points=(
            Points("class +", points.x[up, 0], points.x[up, 1], "decoupled", size=8),
            Points("class −", points.x[~up, 0], points.x[~up, 1], "averaged", "s", 8),
        ),
        contours=(
            Contour("boundary", ticks, ticks, np.round(z / np.abs(z).max(), 4), role, fill=True),
        ),
        title=title,
    )
