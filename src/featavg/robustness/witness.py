"""From a step in the coordinates of the search to a point that flips the network itself."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.readout import score
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.search import Candidate, Search
from featavg.robustness.subspace import Subspace

# A candidate lies on the boundary, where the sign of a rounded score is a toss. It is pushed
# outwards by 1e-9 of its length, far above rounding (1e-13) and far below what anybody reads off a
# radius; where the boundary is nearly tangent to the step, by more.
NUDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


def margins(
    net: TwoLayer, x: Float[ndarray, "n N"], y: ndarray, positive: ndarray | None, readout: str
) -> Float[ndarray, " n"]:
    """y * score: not positive where the decision is flipped."""
    return np.asarray(y * score(net(x), positive, readout))


def checked(
    net: TwoLayer,
    space: Subspace,
    x: Float[ndarray, " N"],
    y: int,
    positive: Bool[ndarray, " c"],
    readout: str,
    found: Search,
) -> tuple[float, Float[ndarray, " N"]]:
    """The shortest candidate that flips `net` in plain float64 evaluation, and its distance.

    Infinity and NaN if none does: then the search found nothing that can be shown.
    """
    best, where = np.inf, np.full_like(x, np.nan)
    for candidate in sorted(found.candidates, key=lambda one: one.length):
        if candidate.length >= best:
            break
        for u in _outwards(candidate):
            point = x + space.basis @ u
            if margins(net, point[None], np.array([y]), positive, readout)[0] <= 0:
                distance = float(np.linalg.norm(point - x))
                if distance < best:
                    best, where = distance, point
                break
    return best, where


def _outwards(candidate: Candidate) -> Iterator[ndarray]:
    """Ever larger nudges: along the step, and away from all constraints that hold it."""
    inwards = candidate.inwards() if len(candidate.rows) > 1 else None
    for nudge in NUDGES:
        yield candidate.u * (1.0 + nudge)
        if inwards is not None:
            yield candidate.u + (nudge * candidate.length) * inwards
