"""Gradient ascent for bounds that hold at every step: L-BFGS with backtracking."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.deep.ball import Relaxed

Some = TypeVar("Some", bound=Relaxed)

MEMORY = 12
LONGEST = 2.0  # of any coordinate in a step: parameters are logarithms and logits
SHORTEST = 1e-5  # of a step, as a share of the first try
ENOUGH = 1e-4  # of the rise that the slope promises


def ascend(
    function: Callable[[Float[ndarray, " n"]], Some | None],
    theta: Float[ndarray, " n"],
    steps: int,
    target: float,
    clock: Clock,
) -> tuple[Float[ndarray, " n"], Some | None]:
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
