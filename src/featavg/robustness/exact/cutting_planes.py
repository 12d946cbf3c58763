r"""Cutting planes: a convex problem as a few tiny quadratic programs.

The problem is min |u| subject to left_i(z + rows u) <= side_i(z + rows u), left convex and side
affine (or the logarithm of an affine function, which is concave). A convex function is above every
tangent, so each tangent of left - side is a linear inequality that the feasible points satisfy: the
polyhedron of finitely many of them contains the feasible set, and its distance is a lower bound,
whenever one stops. New tangents are taken at the last solution, where the old ones are violated.

Each row is known up to rounding: `errors` bounds that of its slope in u, and its value at u = 0 is
a sum of terms of size |slope| reach and of the constant's own terms. `qp.nearest` charges both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.bound_tightening import Problem
from featavg.robustness.exact.qp import Nearest, nearest
from featavg.robustness.exact.relaxation import Affine, Box, Price, Relaxation


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
