r"""Proofs in rational arithmetic: that inequalities exclude one another, that a read-out never flips.

A system of inequalities row . x + c <= 0 has no solution if some combination with multipliers
lambda >= 0 has lambda . rows = 0 and lambda . c > 0 (Farkas): it would read 0 + positive <= 0. The
constant must be strictly positive: with zero the system may hold at a single point, and there the
score is zero, which counts as flipped. Weights, biases and heads are floats, so fractions, and every
step here is exact; float64 only suggests which inequalities to combine.

The probability read-out decides the same way everywhere if its rivals are below mixtures.

Let every rival output be below a mixture of the own ones, f_v <= sum_o P_ov f_o for all x, with
P >= 0 and sum_o P_ov = 1. By convexity exp f_v <= sum_o P_ov exp f_o, and summed over the rivals

    sum_v exp f_v  <=  sum_o (sum_v P_ov) exp f_o  <  sum_o exp f_o

if no row of P sums to more than one and there are more own outputs than rivals: then some row sums
to less. So nothing flips.

Where do such mixtures come from? A rival neuron a_r relu(l_r), l_r affine, is below
sum_q Q_rq a_q relu(l_q), Q >= 0, as soon as a_r w_r = sum_q Q_rq a_q w_q and
a_r b_r <= sum_q Q_rq a_q b_q: the right side is not negative, and not below the sum without ReLUs.
P_ov is at least the largest sum over r in v of Q_rq, q in o; what is missing in a column may go to
any row that has room, and with more rows than columns there is room.

For one rival without biases the condition is also necessary: if w_v is no such mixture, some
direction raises f_v faster than every f_o (duality of linear programs), and far along it v wins.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from jaxtyping import Bool
from numpy import ndarray
from scipy.optimize import linprog

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.geometry.subspace import Subspace

# One linear inequality row . x + constant <= 0 with exact coefficients.
Inequality = tuple[list[Fraction], Fraction]
# A coefficient of the linear program below this is rounding.
SUPPORT = 1e-9


def dominated(net: TwoLayer, space: Subspace, own: Bool[ndarray, " c"]) -> bool:
    """Whether the rivals are below mixtures of the own outputs, proven exactly.

    A linear program in the span of the weights names the neurons of each mixture; their exact
    coefficients solve its equations in fractions, and every inequality is checked in fractions.

    >>> from featavg.nets.two_layer import grouped
    >>> from featavg.robustness.geometry.subspace import reduce
    >>> net = grouped(np.array([[1.0], [1.0], [0.5]]), 3)
    >>> dominated(net, reduce(net), np.array([True, True, False]))
    True
    >>> dominated(net, reduce(net), np.array([True, False, False]))
    False
    """
    if own.sum() <= (~own).sum() or np.any(net.head < 0):
        return False
    mixture = _mixture(space, own)
    return mixture is not None and _holds(net, own, mixture)


def _mixture(space: Subspace, own: ndarray) -> ndarray | None:
    """Q with the most room in rows and columns, in floats; None if there is none."""
    slopes = space.head.sum(axis=0)
    group = space.head.argmax(axis=0)
    left = np.flatnonzero(~own[group] & (slopes > 0))
    right = np.flatnonzero(own[group] & (slopes > 0))
    mixture = np.zeros((len(slopes), len(slopes)))
    if not len(left):
        return mixture
    size, outputs, rivals = len(left) * len(right), np.flatnonzero(own), np.flatnonzero(~own)
    # Q, then P, then the largest sum of a row or column of P, which is minimised: room lets the
    # coefficients be rounded.
    pairs, each = len(outputs) * len(rivals), np.eye(len(left))
    weighted, offsets = slopes[:, None] * space.rows, slopes * space.offsets
    equal = np.pad(np.kron(each, weighted[right].T), ((0, 0), (0, pairs + 1)))
    raised = np.pad(np.kron(each, -offsets[right]), ((0, 0), (0, pairs + 1)))
    summed = np.kron(rivals[:, None] == group[left], np.eye(len(right)))
    shares = np.vstack([np.kron(group[right][:, None] == outputs, one) for one in np.eye(len(rivals))])
    capped = np.vstack(
        [np.kron(np.eye(len(outputs)), np.ones(len(rivals))), np.tile(np.eye(len(rivals)), len(outputs))]
    )
    below = np.block([
        [raised],
        [summed, -shares, np.zeros((len(summed), 1))],
        [np.zeros((len(capped), size)), capped, -np.ones((len(capped), 1))],
    ])  # fmt: skip
    below_to = np.concatenate([-offsets[left], np.zeros(len(summed) + len(capped))])
    cost = np.eye(size + pairs + 1)[-1]
    answer = linprog(cost, below, below_to, equal, weighted[left].ravel(), method="highs")
    if answer.status != 0 or answer.x[-1] > 1.0 + SUPPORT:
        return None
    mixture[np.ix_(left, right)] = answer.x[:size].reshape(len(left), len(right))
    return mixture


def _holds(net: TwoLayer, own: ndarray, mixture: ndarray) -> bool:
    """Check the mixture on the network itself, in fractions; its support is all that is taken."""
    alive = np.flatnonzero(np.abs(net.weights).max(axis=1) > 0)
    weights = [[Fraction(v) for v in row] for row in net.weights.tolist()]
    biases = [Fraction(v) for v in net.biases.tolist()]
    slope = [Fraction(v) for v in net.head.sum(axis=0).tolist()]
    group = net.head.argmax(axis=0)
    constants = [Fraction(0)] * net.outputs
    for r in np.setdiff1d(np.arange(net.neurons), alive):
        constants[group[r]] += slope[r] * max(biases[r], Fraction(0))
    outputs, rivals = np.flatnonzero(own).tolist(), np.flatnonzero(~own).tolist()
    if max(constants[v] for v in rivals) > min(constants[o] for o in outputs):
        return False
    shares: dict[tuple[int, int], Fraction] = {}  # (own neuron, rival output) -> sum over r of Q
    for i, r in enumerate(alive.tolist()):
        if own[group[r]] or slope[r] == 0:
            continue
        used = np.flatnonzero(mixture[i] > SUPPORT)
        support = alive[used].tolist()
        columns = [[slope[q] * w for w in weights[q]] for q in support]
        guess = [Fraction(v) for v in mixture[i, used].tolist()]
        exact = solve(columns, [slope[r] * w for w in weights[r]], guess)
        if exact is None or any(v < 0 for v in exact):
            return False
        raised = sum((v * slope[q] * biases[q] for v, q in zip(exact, support, strict=True)), 0)
        if slope[r] * biases[r] > raised:
            return False
        for coefficient, q in zip(exact, support, strict=True):
            key = (q, int(group[r]))
            shares[key] = shares.get(key, Fraction(0)) + coefficient
    table = {(o, v): Fraction(0) for o in outputs for v in rivals}
    for (q, v), share in shares.items():
        table[int(group[q]), v] = max(table[int(group[q]), v], share)
    columns_fit = all(sum(table[o, v] for o in outputs) <= 1 for v in rivals)
    return columns_fit and all(sum(table[o, v] for v in rivals) <= 1 for o in outputs)


def solve(columns: list[list[Fraction]], target: list[Fraction], guess: list[Fraction]) -> list[Fraction] | None:
    """An x with sum_j x_j columns_j = target, as the guess where that is free; None if none is.

    >>> one, two = Fraction(1), Fraction(2)
    >>> solve([[one, one], [one, -one]], [two, one], [one, one])
    [Fraction(3, 2), Fraction(1, 2)]
    """
    size = len(columns)
    rows = [[column[i] for column in columns] + [target[i]] for i in range(len(target))]
    pivots: list[int] = []
    for column in range(size):
        done = len(pivots)
        pivot = next((r for r in range(done, len(rows)) if rows[r][column] != 0), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        top = [value / rows[done][column] for value in rows[done]]
        rows[done] = top
        for r, row in enumerate(rows):
            if r != done and row[column] != 0:
                factor = row[column]
                rows[r] = [a - factor * b for a, b in zip(row, top, strict=True)]
        pivots.append(column)
    if any(row[size] != 0 for row in rows[len(pivots) :]):
        return None
    solution = list(guess)
    free = [j for j in range(size) if j not in pivots]
    for row, column in zip(rows, pivots, strict=False):
        solution[column] = row[size] - sum((row[j] * guess[j] for j in free), Fraction(0))
    return solution


def empty(inequalities: list[Inequality]) -> bool:
    """Whether a non-negative combination of the rows is zero and its constant positive.

    >>> one, two = Fraction(1), Fraction(2)
    >>> empty([([one, two], one), ([-one, -two], one)])
    True
    """
    null = _null_vector([row for row, _ in inequalities])
    if null is None:
        return False
    # The null vector is known up to its sign; one with both signs proves nothing.
    if any(v < 0 for v in null):
        null = [-v for v in null]
    constant = sum(v * c for v, (_, c) in zip(null, inequalities, strict=True))
    return all(v >= 0 for v in null) and constant > 0


def _null_vector(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The combination of the rows that vanishes, if there is exactly one up to scale."""
    size = len(rows)
    # Eliminate on the rows with the identity appended, so that the combination is carried along.
    work = [(list(row), [Fraction(int(i == j)) for j in range(size)]) for i, row in enumerate(rows)]
    done = 0
    for column in range(len(rows[0])):
        pivot = next((r for r in range(done, size) if work[r][0][column] != 0), None)
        if pivot is None:
            continue
        work[done], work[pivot] = work[pivot], work[done]
        top, top_mix = work[done]
        for r in range(done + 1, size):
            row, mix = work[r]
            if row[column] != 0:
                factor = row[column] / top[column]
                work[r] = (
                    [a - factor * b for a, b in zip(row, top, strict=True)],
                    [a - factor * b for a, b in zip(mix, top_mix, strict=True)],
                )
        done += 1
        if done == size:
            return None
    return work[done][1] if done == size - 1 else None
