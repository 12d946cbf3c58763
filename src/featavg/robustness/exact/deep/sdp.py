"""Lower bounds over a ball by the dual of a semidefinite relaxation: what one layer and several share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.deep.box import Box
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.layered_network import Layered

MEMORY = 12
LONGEST = 2.0  # of any coordinate in a step: parameters are logarithms and logits
SHORTEST = 1e-5  # of a step, as a share of the first try
ENOUGH = 1e-4  # of the rise that the slope promises


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball around a point, and what holds in it.

    Attributes:
        net: the network.
        gram: W W^T of its first layer.
        z: pre-activations of the first layer in the centre.
        radius: of the ball.
        lo, hi: bounds of the pre-activations of every layer in the ball.
        errors: for every layer, the rounding errors of a bound of each pre-activation.
        box: that cuts the ball; None if none does.
    """

    net: Layered
    gram: Float[ndarray, "m m"]
    z: Float[ndarray, " m"]
    radius: float
    lo: list[Float[ndarray, " _"]]
    hi: list[Float[ndarray, " _"]]
    errors: list[Float[ndarray, " _"]]
    box: Box | None = None


def imposed(
    ball: Ball, layer: int, splits: Sequence[Split]
) -> tuple[list[Float[ndarray, " _"]], list[Float[ndarray, " _"]]]:
    """The bounds of the layers below `layer` on the part of the ball where the signs are these."""
    lo, hi = list(ball.lo[:layer]), list(ball.hi[:layer])
    for split in splits:
        ends = hi if split.side > 0 else lo
        ends[split.layer] = ends[split.layer].copy()
        ends[split.layer][split.neuron] = 0.0
    return lo, hi


class OnPart:
    """Inequalities rows . outputs + shifts <= 0 on a part of a ball.

    If all of them held somewhere, so would every mixture: a positive bound of one excludes it.

    Args:
        ball: the ball.
        rows, shifts: the inequalities.
        splits: imposed signs of neurons.
    """

    def __init__(
        self,
        ball: Ball,
        rows: Float[ndarray, "p c"],
        shifts: Float[ndarray, " p"],
        splits: Sequence[Split] = (),
    ) -> None:
        self.ball, self.rows, self.shifts, self.splits = ball, rows, shifts, tuple(splits)
        self._prepare()

    def _prepare(self) -> None:
        """What follows from the arguments."""


@dataclass(frozen=True, eq=False)
class SdpValue:
    """A lower bound at some parameters.

    Attributes:
        bound: the least value of L, up to rounding.
        height: what an ascent raises: the bound, or one behind a barrier.
        gradient: of the height in the parameters.
        gaps: for every hidden layer, what the relaxation of each neuron loses there.
    """

    bound: float
    height: float
    gradient: Float[ndarray, " n"]
    gaps: list[Float[ndarray, " _"]]


Value = TypeVar("Value", bound=SdpValue)


class SdpBound(OnPart, ABC):
    """A lower bound of a mixture of the inequalities on a part of a ball, for any parameters theta."""

    @abstractmethod
    def start(self) -> Float[ndarray, " n"]:
        """Parameters at which there is a bound."""

    @abstractmethod
    def levels(self) -> Sequence[Callable[[Float[ndarray, " n"]], SdpValue | None]]:
        """What an ascent raises, one after the other; the last is nearest to the bound itself.

        Each gives the bound and its gradient at some parameters; None where there is none.
        """

    @abstractmethod
    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged."""

    @abstractmethod
    def step(self, value: Any, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
        """The step at which L is least, in the coordinates of the ball."""

    @abstractmethod
    def child(
        self, theta: Float[ndarray, " n"], value: Any, split: Split
    ) -> tuple[SdpBound, Float[ndarray, " n"]]:
        """The part with one more sign imposed, and parameters to start from."""


def ascend(
    function: Callable[[Float[ndarray, " n"]], Value | None],
    theta: Float[ndarray, " n"],
    steps: int,
    target: float,
    clock: Clock,
) -> tuple[Float[ndarray, " n"], Value | None]:
    """Parameters with a larger bound, and that bound; None if there was none at the start.

    Args:
        function: the bound; None outside of its domain.
        theta: where to start.
        steps: at most so many.
        target: a bound above it is good enough.
        clock: a step in a wide network is long: when the time is over, the bound of the last one.
    """
    value = function(theta)
    pairs: list[tuple[ndarray, ndarray]] = []
    for number in range(steps):
        if value is None or value.bound > target:
            break
        direction = _direction(value.gradient, pairs)
        rise = float(direction @ value.gradient)
        if not rise > 0.0:
            pairs, direction = [], _first(value.gradient)
            rise = float(direction @ value.gradient)
        share, better = 1.0, None
        while share > SHORTEST and not clock.late:
            better = function(theta + share * direction)
            if better is not None and better.height >= value.height + ENOUGH * share * rise:
                break
            share, better = 0.4 * share, None
        if better is None:
            if not pairs:
                break
            pairs = []
            continue
        moved, bent = share * direction, value.gradient - better.gradient
        if moved @ bent > 1e-12 * np.sqrt((moved @ moved) * (bent @ bent)):
            pairs = [*pairs[-MEMORY + 1 :], (moved, bent)]
        stalled = better.height - value.height < 1e-6 * abs(better.bound)
        theta, value = theta + moved, better
        if stalled and number > MEMORY:
            break
    return theta, value


def _first(gradient: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Before anything is known of the curvature: a tenth in the steepest coordinate."""
    return np.asarray(gradient * (0.1 / max(float(np.abs(gradient).max()), 1e-300)))


def _direction(
    gradient: Float[ndarray, " n"], pairs: list[tuple[ndarray, ndarray]]
) -> Float[ndarray, " n"]:
    """The two loops of L-BFGS (Nocedal and Wright, Algorithm 7.4)."""
    if not pairs:
        return _first(gradient)
    direction = gradient.copy()
    shares = []
    for moved, bent in reversed(pairs):
        share = float(moved @ direction) / float(moved @ bent)
        direction -= share * bent
        shares.append(share)
    moved, bent = pairs[-1]
    direction *= float(moved @ bent) / float(bent @ bent)
    for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
        direction += (share - float(bent @ direction) / float(moved @ bent)) * moved
    return np.asarray(direction * min(1.0, LONGEST / max(float(np.abs(direction).max()), 1e-300)))
