"""How a bound is raised: steps of L-BFGS, and of Newton."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Clock

MEMORY = 12  # steps of L-BFGS that are remembered
DAMPINGS = (1e-9, 1e-3, 1e-1, 1e1, 1e3)  # of the second derivatives: more where a step failed
STALLED = 1e-5  # of the height: an ascent ends where a step promises less
LONGEST = 2.0  # of any coordinate in a step, or of log lambda in Newton's
SHORTEST = 1e-3  # of a step, as a share of the first try
ENOUGH = 1e-4  # of the rise that the slope promises


@dataclass(frozen=True, eq=False)
class SdpValue:
    """A lower bound at some parameters.

    Attributes:
        bound: the least value of L, with maxima rounded off, up to rounding.
        height: what an ascent raises: the bound, or the bound behind a barrier.
        gradient: of the height in the parameters.
        gaps: for every hidden layer, what the relaxation of each neuron loses there.
        u: where L is least.
        newton: the step to where the height would be largest, were it quadratic; shorter if damped.
    """

    bound: float
    height: float
    gradient: Float[ndarray, " n"]
    gaps: list[Float[ndarray, " _"]]
    u: Float[ndarray, " r"]
    newton: Callable[[float], Float[ndarray, " n"]]


def ascend(
    function: Callable[[Float[ndarray, " n"]], SdpValue | None],
    theta: Float[ndarray, " n"],
    steps: int,
    target: float,
    clock: Clock,
) -> tuple[Float[ndarray, " n"], SdpValue | None]:
    """Parameters with a larger bound, and that bound; None if there was none at the start.

    Args:
        function: the bound; None outside of its domain.
        theta: where to start.
        steps: the most steps.
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
        share, better = _shortened(function, theta, value, direction, rise, 1.0, clock)
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


def _shortened(
    function: Callable[[Float[ndarray, " n"]], SdpValue | None],
    theta: Float[ndarray, " n"],
    value: SdpValue,
    direction: Float[ndarray, " n"],
    rise: float,
    share: float,
    clock: Clock,
) -> tuple[float, SdpValue | None]:
    """The share of a step at which the height rises by enough of what it promises; None if none is."""
    while share > SHORTEST and not clock.late:
        better = function(theta + share * direction)
        if better is not None and better.height >= value.height + ENOUGH * share * rise:
            return share, better
        share = 0.4 * share
    return share, None


def newton_ascend(
    function: Callable[[Float[ndarray, " n"]], SdpValue | None],
    theta: Float[ndarray, " n"],
    steps: int,
    target: float,
    clock: Clock,
) -> tuple[Float[ndarray, " n"], SdpValue | None]:
    """Parameters with a larger bound, and that bound; None if there was none at the start.

    As `ascend`, by Newton's steps: few and long, where those of L-BFGS creep.
    """
    value, number = function(theta), 0
    for _ in range(steps):
        if value is None or value.bound > target or clock.late:
            break
        direction = value.newton(DAMPINGS[number])
        rise = float(direction @ value.gradient)
        if not rise > STALLED * abs(value.height):
            break
        # lambda is the exponential of its parameter.
        share = min(1.0, LONGEST / max(abs(float(direction[0])), 1e-300))
        share, better = _shortened(function, theta, value, direction, rise, share, clock)
        if better is not None:
            theta, value = theta + share * direction, better
            number = max(number - 1, 0)
        elif number + 1 < len(DAMPINGS):
            number += 1
        else:
            break
    return theta, value


def _first(gradient: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Before anything is known of the curvature: a tenth in the steepest coordinate."""
    return np.asarray(gradient * (0.1 / max(float(np.abs(gradient).max()), 1e-300)))


def _direction(gradient: Float[ndarray, " n"], pairs: list[tuple[ndarray, ndarray]]) -> Float[ndarray, " n"]:
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
