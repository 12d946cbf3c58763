"""What a `ChainForm` proves when every rounding error is charged."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dpotrf, dpotrs

from featavg.robustness.exact.deep.chain_form import ChainForm, Terms

CONVEX = 1e-8  # of the sizes in the matrix: far above the rounding of its sums and of its factor
CHARGED = 8.0  # times the relative error of a chain of products: squares, sums and slopes


def proven(form: ChainForm, theta: Float[ndarray, " n"]) -> float:
    """The bound with all rounding errors charged; -inf where L is not safely convex.

    L plus a share CONVEX of the sizes of its second-order terms is convex, if a Cholesky factor says
    so with less of it: the matrix is off by at most (its order) x (rounding) of sizes, and so is the
    factor. What is added is charged at the largest v. L is then evaluated plainly at a point that
    need not be the least one: a convex function is nowhere lower than its tangent there.
    """
    terms = form.terms(theta)
    matrix, sizes = form.matrix(terms), _sizes(form, terms)
    added = matrix.copy()
    added[np.diag_indices_from(added)] += 3.0 * CONVEX * sizes
    factor, failed = dpotrf(added, lower=1)
    if failed:
        return -math.inf
    slope = form.linear(terms)
    v = -0.5 * dpotrs(factor, slope, lower=1)[0]
    largest = _largest(form)
    lowest = form.constant(terms) + float(slope @ v + v @ matrix @ v)
    lowest += 4.0 * CONVEX * float(sizes @ v**2)
    lowest -= sum(float(top.exact.sum()) for top in form.tops(terms))
    tangent = slope + 2.0 * (matrix @ v + 4.0 * CONVEX * sizes * v)
    r = form.chain.step
    spread = math.sqrt(tangent[:r] @ tangent[:r]) * (form.ball.radius + math.sqrt(v[:r] @ v[:r]))
    spread += float(np.abs(tangent[r:]) @ (largest[r:] + np.abs(v[r:])))
    convexity = 4.0 * CONVEX * float(sizes @ largest**2)
    return lowest - spread - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))


def _sizes(form: ChainForm, terms: Terms) -> Float[ndarray, " v"]:
    """Sums of absolute values on the diagonal: |matrix_ij| has none above sqrt(sizes_i sizes_j)."""
    inner, r = form.inner, form.chain.step
    sizes = np.abs(terms.square) @ form.all_rows**2 + 0.5 * np.abs(terms.cross) @ inner.rows**2
    sizes[:r] += terms.multiplier
    sizes[r:] += np.abs(terms.own) + 0.5 * np.abs(terms.cross)
    return np.asarray(sizes)


def _largest(form: ChainForm) -> Float[ndarray, " v"]:
    """How large every variable can be in the ball."""
    inner = form.inner
    activation = np.maximum(inner.hi, -form.ball.net.leak * inner.lo)
    return np.concatenate([np.full(form.chain.step, form.ball.radius), activation])


def _rounding(form: ChainForm, terms: Terms, reach: Float[ndarray, " v"]) -> float:
    """How far the numbers of `proven` may be off, for variables up to `reach`.

    Every pre-activation may be off by its own error, and moves L by that times the slope in it; every
    sum of products by a share of the sum of absolute values.
    """
    ball, some = form.ball, form.chain
    groups = (form.inner, form.outer, form.held)
    a = len(form.inner)
    lo, hi = (np.concatenate([getattr(group, end) for group in groups]) for end in ("lo", "hi"))
    size = np.abs(form.all_rows) @ reach + np.abs(form.offsets)
    size = np.maximum(size, np.maximum(np.abs(lo), np.abs(hi)))
    off = np.concatenate([group.error for group in groups])
    h = reach[some.step :]
    square, line = np.abs(terms.square), np.abs(terms.line)
    cross, own, tilt = np.abs(terms.cross), np.abs(terms.own), np.abs(terms.tilt)
    slopes = 2.0 * square * (size + off) + line
    slopes[:a] += cross * h
    charged = float(slopes @ off)
    sums = float((square * size + line) @ size + cross @ (size[:a] * h) + own @ h**2 + tilt @ h)
    sums += terms.multiplier * (float(reach[: some.step] @ reach[: some.step]) + ball.radius**2)
    sums += sum(float(top.exact.sum()) for top in form.tops(terms))
    sums += float(terms.mixture @ np.abs(form.shifts))
    last = np.abs(some.rows) @ reach + np.abs(some.offsets)
    sums += float(np.abs(terms.on_last) @ last)
    charged += float(terms.mixture @ (np.abs(form.rows) @ ball.errors[-1]))
    return charged + CHARGED * ball.net.error * sums
