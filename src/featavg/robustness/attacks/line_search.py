"""Along a line: where does the decision flip? Every attack ends here, with plain evaluations."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.attacks.attack import AttackEnd, AttackProblem
from featavg.robustness.models.norms import to_box

# A line search stops where its interval is this share of the way.
TOLERANCE = 1e-7


def shorten(problem: AttackProblem, end: AttackEnd, steps: int = 8, insist: bool = False) -> AttackEnd:
    """The points on the ways from x to the flipped ends where the decision flips.

    Keeps a flipped end and an unflipped end. The secant through both is tried first and moved a
    little beyond, since the margin is close to linear near the boundary; when that stops halving
    the interval, its middle is. The returned point was evaluated as it is and found to flip.

    Args:
        steps: evaluations after the first.
        insist: where a point does not flip any more, look a hair beyond it. In another batch the same
            point has other last digits.
    """
    model, x, label = problem.model, problem.x, problem.label
    claimed = end.flipped
    point = end.point.copy()
    margin = model.margins(point, label)
    for hair in (1e-9, 1e-6, 1e-4) if insist else ():
        rows = np.flatnonzero((margin > 0) & np.any(point != x, axis=1))
        if len(rows) == 0:
            break
        longer = to_box(x[rows], (1 + hair) * (point[rows] - x[rows]), model.bounds)
        trial = (x[rows] + longer).astype(x.dtype)
        margins = model.margins(trial, label[rows])
        hit = margins <= 0
        point[rows[hit]], margin[rows[hit]] = trial[hit], margins[hit]
    flipped = margin <= 0
    low, high = np.zeros(len(x)), np.ones(len(x))
    at_low, at_high = problem.margin.astype(float), margin.astype(float)
    far = point.copy()
    for step in range(steps):
        open_ = np.flatnonzero(flipped & (high - low > TOLERANCE * high))
        if len(open_) == 0:
            break
        lo, hi = low[open_], high[open_]
        rise = at_low[open_] - at_high[open_]
        secant = lo + (hi - lo) * at_low[open_] / np.where(rise > 0, rise, 1.0)
        # Land just beyond the root: the far end is the answer, so that is the end to pull in.
        secant += (0.02 if step < 3 else 0.2) * np.minimum(hi - secant, secant - lo)
        halve = (step % 3 == 2) | ~(rise > 0)
        trial = np.where(halve, (lo + hi) / 2, np.clip(secant, lo, hi))
        share = trial[:, None].astype(x.dtype)
        between = (1 - share) * x[open_] + share * far[open_]
        if model.bounds is not None:
            between = np.clip(between, *model.bounds)  # rounding may leave the box
        found = model.margins(between, label[open_])
        hit = found <= 0
        point[open_[hit]] = between[hit]
        high[open_[hit]], at_high[open_[hit]] = trial[hit], found[hit]
        low[open_[~hit]], at_low[open_[~hit]] = trial[~hit], found[~hit]
    return AttackEnd(point, flipped & claimed)


def reach(
    problem: AttackProblem, direction: Float[ndarray, "n D"], scale: Float[ndarray, " n"], doublings: int = 12
) -> AttackEnd:
    """x plus the shortest of the multiples scale * 2^i that flips it, i = -doublings..doublings.

    Clipped to the bounds: a long enough multiple is a corner of the box.
    """
    model, x, label = problem.model, problem.x, problem.label
    best = x.copy()
    left = np.flatnonzero(np.isfinite(scale) & (scale > 0))
    for i in range(-doublings, doublings + 1):
        if len(left) == 0:
            break
        step = (scale[left] * 2.0**i)[:, None] * direction[left]
        delta = to_box(x[left], step.astype(x.dtype), model.bounds)
        point = x[left] + delta
        hit = model.margins(point, label[left]) <= 0
        best[left[hit]] = point[hit]
        left = left[~hit]
    return AttackEnd(best, np.any(best != x, axis=1))


def confirmed(problem: AttackProblem, end: AttackEnd) -> AttackEnd:
    """Points that flip the model itself, a hair beyond the boundary; those that do not are dropped.

    On the boundary the sign of a rounded score is a toss, and in another batch another one: the
    hair is far above rounding, far below what anybody reads off a radius, and longer if need be.
    """
    model, x, label = problem.model, problem.x, problem.label
    point, open_ = end.point.copy(), end.flipped.copy()
    hairs = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
    for hair in hairs if x.dtype == np.float64 else hairs[4:]:
        rows = np.flatnonzero(open_)
        if len(rows) == 0:
            break
        longer = (1 + hair) * (end.point[rows] - x[rows])
        trial = (x[rows] + to_box(x[rows], longer, model.bounds)).astype(x.dtype)
        hit = model.margins(trial, label[rows]) <= 0
        point[rows[hit]], open_[rows[hit]] = trial[hit], False
    rows = np.flatnonzero(open_)
    if len(rows):
        # At a corner of the box nothing is longer: the point itself has to do.
        hit = model.margins(end.point[rows], label[rows]) <= 0
        open_[rows[hit]] = False
    return AttackEnd(point, end.flipped & ~open_)
