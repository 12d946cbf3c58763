"""From a step in the coordinates of a search to a point that flips the network itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Candidate, Search
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.subspace import Subspace

# A candidate lies on the boundary, where the sign of a rounded score is a toss. It is pushed
# outwards by 1e-9 of its length, far above rounding (1e-13) and far below what anybody reads off a
# radius; where the boundary is nearly tangent to the step, by more.
NUDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def checked_witness(
    x: Float[ndarray, " N"], found: Search, shown: Callable[[Candidate], ndarray | None]
) -> tuple[float, Float[ndarray, " N"]]:
    """The shortest candidate that flips the network in plain float64 evaluation, and its distance.

    Infinity and NaN if none does: then the search found nothing that can be shown.

    Args:
        x: the point.
        found: what the search found.
        shown: a flipped point at the candidate, or None.
    """
    best, where = np.inf, np.full_like(x, np.nan)
    for candidate in sorted(found.candidates, key=lambda one: one.length):
        if candidate.length >= best:
            break
        point = shown(candidate)
        if point is not None:
            distance = float(np.linalg.norm(point - x))
            if distance < best:
                best, where = distance, point
    return best, where


def nudged_flip(
    decision: Decision, space: Subspace, x: Float[ndarray, " N"], label: int, candidate: Candidate
) -> Float[ndarray, " N"] | None:
    """The candidate, nudged until it is flipped however the sums in the network are rounded."""
    weak = None
    for half, full in _nudged(candidate, float(np.linalg.norm(x))):
        points = x + np.stack([full, half]) @ space.basis.T
        alone = decision.margins(points[:1], label)[0] <= 0
        # Flipped half-way through the nudge as well, and in other company: rounding does not decide.
        if alone and np.all(decision.margins(points, label) <= 0):
            return np.asarray(points[0])
        if alone and weak is None:
            weak = np.asarray(points[0])
    if weak is not None:
        return weak
    # A network may reach zero at a corner and turn back: try the corner itself, as at x = 0.
    point = x + space.basis @ candidate.u
    point[np.abs(point) <= 1e-12 * np.abs(x).max()] = 0.0
    return np.asarray(point) if decision.margins(point[None], label)[0] <= 0 else None


def _nudged(candidate: Candidate, reach: float) -> Iterator[tuple[ndarray, ndarray]]:
    """Ever larger nudges: along the step, and away from all constraints that hold it."""
    # Steps as short as rounding errors need a nudge that is not.
    scale = max(candidate.length, 1e-4 * reach)
    ways = [candidate.u * (scale / candidate.length)] if candidate.length > 0 else []
    if len(candidate.rows) > 1 or not ways:
        ways.append(scale * candidate.inwards())
    off = candidate.off()
    if off is not None:
        ways.append(scale * off)
    for nudge in NUDGES:
        for way in ways:
            yield candidate.u + (0.5 * nudge) * way, candidate.u + nudge * way
