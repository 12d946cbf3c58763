r"""What branch and bound asks of a flipped set: convex approximations, a separable bound, cutting planes.

Which approximations are proofs? `outer` and `cuts` are outer ones: bounds rest on them. `terms`
is a lower bound, whatever the price. `touching` and `starts` are inner approximations, and good for
candidates and prices only; a candidate counts after `excess` has confirmed it, and as a witness
after the network itself has been evaluated there.

Cutting planes solve a convex problem as a few tiny quadratic programs.
The problem is min |u| subject to left_i(z + rows u) <= side_i(z + rows u), left convex and side
affine (or the logarithm of an affine function, which is concave). A convex function is above every
tangent, so each tangent of left - side is a linear inequality that the feasible points satisfy: the
polyhedron of finitely many of them contains the feasible set, and its distance is a lower bound,
whenever one stops. New tangents are taken at the last solution, where the old ones are violated.

Each row is known up to rounding: `errors` bounds that of its slope in u, and its value at u = 0 is
a sum of terms of size |slope| reach and of the constant's own terms. `qp.nearest` charges both.

Where flipped points can still be is the ball of the best candidate, cut by half-spaces: a search
looks for points nearer than the best candidate, |u| < R, and a certificate is a half-space
n . u >= t, |n| = 1, that holds everything left of a node. So each pre-activation z_r + c . u stays
between its least and largest value over the cap {|u| <= R, n . u >= t}. Write u = s n + v with v
orthogonal to n; then s >= t and |v| <= sqrt(R^2 - s^2), and

    max c . u  =  max over s in [t, R] of  s (c . n) + |c - (c . n) n| sqrt(R^2 - s^2).

Without the lower end of s the maximum is R |c|, at s = R (c . n) / |c|. If that s is at least t it
is allowed; otherwise the expression, concave in s, falls from there on and its maximum is at s = t.
As t approaches R the cap shrinks to a point and boxes with it: this is what makes the search end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.geometry.qp import Nearest, nearest


@dataclass(frozen=True, eq=False)
class Box:
    """A part of the search space: lo <= z <= hi.

    `low` and `high` are the bounds that were imposed by a split, infinite elsewhere; `last` is the
    neuron that was split last. The bounds lo and hi are the tighter ones: they hold for every point
    of the part that is near enough to matter.
    """

    lo: Float[ndarray, " M"]
    hi: Float[ndarray, " M"]
    low: Float[ndarray, " M"]
    high: Float[ndarray, " M"]
    last: int | None

    @staticmethod
    def everywhere(size: int) -> Box:
        """No bound at all."""
        wide = np.full(size, np.inf)
        return Box(-wide, wide, -wide, wide, None)

    def split(self, r: int, at: float) -> tuple[Box, Box]:
        """The part with z_r <= at and the part with z_r >= at."""
        hi, high, lo, low = self.hi.copy(), self.high.copy(), self.lo.copy(), self.low.copy()
        hi[r] = high[r] = lo[r] = low[r] = at
        return (Box(self.lo, hi, self.low, high, r), Box(lo, self.hi, low, self.high, r))


@dataclass(frozen=True, eq=False)
class Affine:
    """coefficients @ z + constants, one for each of q rows.

    Attributes:
        shares: how much of each inequality of the family is in each row, so that multipliers of
            rows become multipliers of inequalities.
        log_scale: None where the rows themselves are meant; a number c where the function is
            c + log(row), as for the probability read-out.
        magnitude: the sizes of what the constants are sums of, where that is more than they are
            themselves: rounding errors are charged by it.
    """

    coefficients: Float[ndarray, "q M"]
    constants: Float[ndarray, " q"]
    shares: Float[ndarray, "q I"]
    log_scale: float | None = None
    magnitude: Float[ndarray, " q"] | None = None

    @property
    def magnitudes(self) -> Float[ndarray, " q"]:
        """The sizes by which rounding errors of the constants are charged."""
        return np.abs(self.constants) if self.magnitude is None else self.magnitude

    def at(self, z: Float[ndarray, " M"]) -> Float[ndarray, " q"]:
        """The values at z."""
        return np.asarray(self.coefficients @ z + self.constants)


@dataclass(frozen=True, eq=False)
class Price:
    """Multipliers: kappa for the pre-activations, weights for the inequalities."""

    kappa: Float[ndarray, " M"]
    weights: Float[ndarray, " I"]


@dataclass(frozen=True, eq=False)
class Terms:
    """One term for each neuron: its least value over the box, its value at s = 0, and where.

    `constant` is what belongs to no neuron and `size` the sum of magnitudes, for rounding errors.
    """

    least: Float[ndarray, " M"]
    here: Float[ndarray, " M"]
    where: Float[ndarray, " M"]
    constant: float
    size: float


@runtime_checkable
class Relaxation(Protocol):
    """One family of flipped points, as branch and bound sees it.

    The family is {left_i(z) <= right_i(z) for all i}, with both sides convex.
    """

    concave: Bool[ndarray, " M"]
    inequalities: int

    def outer(self, box: Box) -> Affine | None:
        """Affine functions above the right sides everywhere in the box, if such are of use."""

    def touching(self, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """Affine functions that touch the right sides at z; without a box, from below."""

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """Affine functions below the right sides that are worth trying first."""

    def cuts(self, side: Affine, z: Float[ndarray, " M"]) -> Affine:
        """Rows that are <= 0 wherever left <= side, and the tightest such at z."""

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """Not positive exactly where z is flipped."""

    def kinks(self, rows: Float[ndarray, "M r"], z: Float[ndarray, " M"], scale: float) -> Float[ndarray, "p r"] | None:
        """What must fall for a candidate at z to move inwards, if z is at the kinks of neurons."""

    def terms(self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"]) -> Terms:
        """stiffness s^2 - 2 kappa s + 2 weights . (left - right), neuron by neuron, s from z."""

    def cut_at(self, box: Box, terms: Terms | None, z: Float[ndarray, " M"]) -> tuple[int, float] | None:
        """The neuron to split and where, or None if nothing is left to split."""


def chord(lo: Float[ndarray, " M"], hi: Float[ndarray, " M"]) -> tuple[Float[ndarray, " M"], Float[ndarray, " M"]]:
    """Slope and offset with relu(z) <= slope * z + offset for lo <= z <= hi, tight at both ends.

    >>> [part.tolist() for part in chord(np.array([-1.0, 1.0]), np.array([3.0, 2.0]))]
    [[0.75, 1.0], [0.75, 0.0]]
    """
    mixed = (lo < 0) & (hi > 0)
    slope = (lo >= 0).astype(float)
    np.divide(hi, hi - lo, out=slope, where=mixed)
    return slope, np.where(mixed, -lo * slope, 0.0)


@dataclass(frozen=True, eq=False)
class Problem:
    """One point: pre-activations are z + rows @ u; `reach` and `error` bound rounding errors."""

    rows: Float[ndarray, "M r"]
    z: Float[ndarray, " M"]
    reach: float
    error: float

    @cached_property
    def lengths(self) -> Float[ndarray, " M"]:
        """The length of each row, which is one up to rounding."""
        return np.sqrt(np.einsum("mr,mr->m", self.rows, self.rows))


def shrink(problem: Problem, box: Box, normal: ndarray | None, depth: float, limit: float) -> Box | None:
    """The box, cut down to |u| <= limit, to normal . u >= depth, and to what the last split leaves.

    None if nothing is left of it.
    """
    spread = np.stack([problem.lengths, problem.lengths]) * limit
    if normal is not None:
        np.minimum(spread, cap(problem, normal, depth, limit), out=spread)
    r = box.last
    if r is not None and problem.lengths[r] > 0:
        # The last split is a half-space as well: +-c_r . u >= what the imposed end asks for.
        for sign, end in ((1.0, box.low[r]), (-1.0, -box.high[r])):
            away = (end - sign * problem.z[r]) / problem.lengths[r]
            if away > limit:
                return None
            if away > -limit:
                row = problem.rows[r] * (sign / problem.lengths[r])
                np.minimum(spread, cap(problem, row, away, limit), out=spread)
    # Rounding of z = normals @ x + offsets, of size reach, and of rows @ u, of size limit.
    spread += problem.error * (problem.reach + limit)
    lo = np.maximum(box.lo, problem.z - spread[1])
    hi = np.minimum(box.hi, problem.z + spread[0])
    return None if np.any(lo > hi) else replace(box, lo=lo, hi=hi)


def cap(problem: Problem, normal: Float[ndarray, " r"], depth: float, radius: float) -> Float[ndarray, "2 M"]:
    r"""The largest rows @ u and -rows @ u over |u| <= radius, normal . u >= depth.

    For one row c it is depth (c . n) + sqrt(|c|^2 - (c . n)^2) sqrt(radius^2 - depth^2), or
    radius |c| if that end of the ball is in the cap.

    >>> problem = Problem(np.eye(2), np.zeros(2), 1.0, 0.0)
    >>> cap(problem, np.array([1.0, 0.0]), 0.6, 1.0)
    array([[ 1. ,  0.8],
           [-0.6,  0.8]])
    """
    along = problem.rows @ normal
    along = np.stack([along, -along])
    across = np.sqrt(np.maximum(problem.lengths**2 - along[0] ** 2, 0.0))
    edge = depth * along + across * math.sqrt(max(radius**2 - depth**2, 0.0))
    inside = radius * along >= depth * problem.lengths
    return np.where(inside, radius * problem.lengths, edge)


@dataclass(frozen=True, eq=False)
class Planes:
    """The last quadratic program: its answer, its rows, what they mean, and how many there were."""

    answer: Nearest
    rows: Float[ndarray, "q r"]
    cuts: Affine
    solved: int


def cutting_planes(
    problem: Problem,
    relaxation: Relaxation,
    side: Affine,
    box: Box | None,
    seen: list[Float[ndarray, " M"]],
    limit: float,
    rounds: int,
    tolerance: float,
) -> Planes:
    """The nearest point where the left sides are below `side`, inside the imposed bounds.

    Args:
        seen: points whose cuts are there from the start.
        limit: a bound beyond this is enough.
        rounds: the most programs; a bound from fewer cuts is lower, and as sound.
        tolerance: violation of a cut, as a share of the distance, that is let pass.
    """
    cuts = _imposed(box, len(problem.z), relaxation.inequalities)
    for z in seen:
        cuts = _both(cuts, relaxation.cuts(side, z))
    for solved in range(1, rounds + 1):
        rows = cuts.coefficients @ problem.rows
        errors = problem.error * np.abs(cuts.coefficients).sum(axis=1)
        shift = problem.error * cuts.magnitudes
        answer = nearest(rows, -cuts.at(problem.z), errors, errors * problem.reach + shift)
        if answer.u is None or answer.bound >= limit or solved == rounds:
            break
        z = problem.z + problem.rows @ answer.u
        new = relaxation.cuts(side, z)
        steep = np.sqrt(np.square(new.coefficients @ problem.rows).sum(axis=1))
        violated = new.at(z) > tolerance * answer.bound * steep
        if not violated.any():
            break
        cuts = _both(cuts, new, violated)
    return Planes(answer, rows, cuts, solved)


def price_of(planes: Planes, limit: float) -> Price | None:
    """The multipliers of the last program, scaled so that -rows^T kappa is its solution."""
    answer = planes.answer
    step = answer.multipliers @ planes.rows
    length = math.sqrt(step @ step)
    if not length > 0.0:
        return None
    # The optimality condition of the program is u = -sum of multipliers times rows, so multipliers
    # are scaled until that has the length of u. An empty problem has a ray of multipliers instead:
    # any multiple is valid, and a long one prunes.
    target = math.sqrt(answer.u @ answer.u) if answer.u is not None else 2.0 * limit
    scaled = answer.multipliers * (target / length)
    return Price(scaled @ planes.cuts.coefficients, scaled @ planes.cuts.shares)


def _imposed(box: Box | None, size: int, inequalities: int) -> Affine:
    """The bounds imposed by splits as rows: low_r - z_r <= 0 and z_r - high_r <= 0."""
    if box is None:
        return Affine(np.zeros((0, size)), np.zeros(0), np.zeros((0, inequalities)))
    low, high = np.flatnonzero(box.low > -np.inf), np.flatnonzero(box.high < np.inf)
    coefficients = np.zeros((len(low) + len(high), size))
    coefficients[np.arange(len(low)), low] = -1.0
    coefficients[len(low) + np.arange(len(high)), high] = 1.0
    constants = np.concatenate([box.low[low], -box.high[high]])
    return Affine(coefficients, constants, np.zeros((len(constants), inequalities)))


def _both(first: Affine, second: Affine, which: ndarray | slice = slice(None)) -> Affine:
    return Affine(
        np.concatenate([first.coefficients, second.coefficients[which]]),
        np.concatenate([first.constants, second.constants[which]]),
        np.concatenate([first.shares, second.shares[which]]),
        None,
        np.concatenate([first.magnitudes, second.magnitudes[which]]),
    )
