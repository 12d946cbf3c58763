r"""Does a network flip anywhere at all? Branching over signs, without any ball.

Far from the point, bounds over a ball say nothing. But without bounds, too, an open neuron satisfies
h >= z and h >= leak z, and one of known sign is linear: together with the condition these are linear
inequalities in the input and the open activations, which every flipped point satisfies. If some
combination of them reads 0 + positive <= 0 (Farkas), nothing flips in this part, whatever its size;
float64 suggests the combination and fractions check it. Otherwise the solution is a flipped point, or
the neuron whose activation is furthest from it is split. With all signs known nothing is relaxed.

The answer is the same for every point. Where the first layer has fewer neurons than inputs, their
pre-activations are taken to be free, which leaves nothing out: all of them then are, or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.optimize import nnls

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.farkas import empty
from featavg.robustness.exact.flip_conditions import Condition, LinearCondition
from featavg.robustness.exact.layered_network import Layered

MOST = 500  # parts: what takes more is left open
WORK = 5e6  # cubes of sizes of systems that fractions solve: the same
CUBE = 2e-6  # seconds for one of them
INPUTS = 64  # up to which pre-activations that depend on one another are not taken to be free
BEYOND = (1e-12, 1e-9, 1e-6)  # of the largest constant
EMPTY = 1e-9  # of a residual: below it fractions are asked


@dataclass(frozen=True, eq=False)
class Somewhere:
    """What is known of the whole space.

    Attributes:
        never: whether it is proven that nothing flips.
        flip: pre-activations of the first layer at a flipped point, or None.
    """

    never: bool
    flip: Float[ndarray, " m"] | None


class Everywhere:
    """The answers for the labels of one network: asked once each, and not charged to any point."""

    def __init__(self, net: Layered) -> None:
        self.net = net
        self.known: dict[int, Somewhere] = {}

    def at(self, label: int, conditions: Sequence[Condition], clock: Clock) -> Somewhere:
        """Whether a point with this label can be flipped, which is when a condition is reached."""
        if label not in self.known:
            found = anywhere(self.net, conditions, replace(clock, nodes=MOST))
            settled = found.never or found.flip is not None
            if not settled and clock.left < CUBE * WORK:  # another point may have the time
                return found
            self.known[label] = found
        return self.known[label]

    def never(self, label: int) -> bool:
        """Whether it is known that no such point can be flipped."""
        return label in self.known and self.known[label].never


def anywhere(net: Layered, conditions: Sequence[Condition], clock: Clock) -> Somewhere:
    """Whether one of the conditions is reached at any input.

    >>> from featavg.robustness.exact.layered_network import layered
    >>> plain = layered([np.eye(2), np.ones((1, 2))], [None, np.ones(1)])
    >>> positive = LinearCondition(np.eye(1), np.zeros(1))
    >>> anywhere(plain, [positive], Clock(100, float("inf"))).never
    True
    """
    linear = [one for one in conditions if isinstance(one, LinearCondition)]
    if len(linear) < len(conditions) or sum(len(w.T) for w in net.weights) ** 3 > WORK:
        return Somewhere(False, None)
    plain, exact = _plain(net), None
    nodes, work = 0, 0
    for condition in linear:
        parts = [[np.zeros(len(bias), dtype=int) for bias in (plain.offset, *plain.biases[:-1])]]
        while parts:
            if clock.spent(nodes) or work > WORK:
                return Somewhere(False, None)
            signs = parts.pop()
            nodes += 1
            rows, constants = _inequalities(plain, signs, condition)
            v, support = _solution(rows, constants)
            if v is None:
                exact = exact or _in_fractions(plain)
                work += len(support) ** 3
                if CUBE * len(support) ** 3 > clock.left:
                    return Somewhere(False, None)
                if _proven_empty(exact, signs, condition, support):
                    continue
            elif (z := _flip(plain, condition, v)) is not None:
                return Somewhere(False, z)
            halves = _halves(plain, signs, v)
            if halves is None:
                # On the boundary rounding decides: a flipped point is a little beyond it.
                size = float(np.abs(constants).max())
                clear = (condition.clear(margin * size) for margin in BEYOND)
                beyond = (_solution(*_inequalities(plain, signs, one))[0] for one in clear)
                found = (_flip(plain, condition, v) for v in beyond if v is not None)
                return Somewhere(False, next((z for z in found if z is not None), None))
            parts += halves
    return Somewhere(True, None)


def _flip(net: Layered, condition: LinearCondition, v: Float[ndarray, " v"]) -> Float[ndarray, " m"] | None:
    """The first pre-activations at this input, if the network itself is flipped there."""
    z = net.first @ v[: net.first.shape[1]] + net.offset
    return z if condition.excess(net.forward(z)[-1]) <= 0 else None


def _proven_empty(net: _Exact, signs: list[ndarray], condition: LinearCondition, support: ndarray) -> bool:
    rows, constants = map(_fractions, _inequalities(net, signs, condition, support))
    return empty([(list(row), c) for row, c in zip(rows, constants, strict=True)])


def _plain(net: Layered) -> Layered:
    """The network of its inputs, or of the first pre-activations where these are fewer and free."""
    m, n = net.first.shape
    if n <= m or (n <= INPUTS and np.linalg.matrix_rank(net.rows) < m):
        return net
    return replace(net, first=np.eye(m), offset=np.zeros(m))


class _Exact(NamedTuple):
    """The arrays of a network in fractions."""

    first: ndarray
    offset: ndarray
    weights: tuple[ndarray, ...]
    biases: tuple[ndarray, ...]
    skips: tuple[bool, ...]
    leak: Fraction


_fractions = np.vectorize(Fraction, otypes=[object])


def _in_fractions(net: Layered) -> _Exact:
    return _Exact(
        _fractions(net.first),
        _fractions(net.offset),
        tuple(_fractions(weight) for weight in net.weights),
        tuple(_fractions(bias) for bias in net.biases),
        net.skips,
        Fraction(net.leak),
    )


def _inequalities(
    net: Layered | _Exact, signs: list[ndarray], condition: LinearCondition, which: ndarray | slice = slice(None)
) -> tuple[ndarray, ndarray]:
    """rows v + constants <= 0 for every flipped point of a part; some of them, in floats or fractions.

    v is the input, followed by the activations of the open neurons. A sign is 1 (on), -1 (off) or 0.
    """
    kind, free = net.first.dtype, net.first.shape[1]
    size = free + sum(int(np.sum(some == 0)) for some in signs)
    z = np.zeros((len(net.offset), size + 1), dtype=kind)  # the last column is the constant
    z[:, :free], z[:, size] = net.first, net.offset
    below, found = z, []
    for number, some in enumerate(signs):
        h = np.where((some > 0)[:, None], z, net.leak * z)
        opened = np.flatnonzero(some == 0)
        h[opened] = 0
        h[opened, free + np.arange(len(opened))] = 1
        free += len(opened)
        found += [-z[some > 0], z[some < 0], z[opened] - h[opened], net.leak * z[opened] - h[opened]]
        below = h + below if net.skips[number] else h
        z = net.weights[number] @ below
        z[:, size] = z[:, size] + net.biases[number]
    number_of = _fractions if isinstance(net, _Exact) else np.asarray
    reached = number_of(condition.rows) @ z
    reached[:, size] = reached[:, size] + number_of(condition.shifts)
    rows = np.concatenate([*found, reached])[which]
    return rows[:, :size], rows[:, size]


def _solution(
    rows: Float[ndarray, "q v"], constants: Float[ndarray, " q"]
) -> tuple[Float[ndarray, " v"] | None, ndarray]:
    """A point of the polyhedron, or None and the inequalities that seem to exclude one another.

    The non-negative least-squares problem of Lawson and Hanson: the columns that it uses are
    independent, so that the combination of the inequalities they name is unique.
    """
    lengths = np.sqrt(np.einsum("qv,qv->q", rows, rows))
    broken = np.flatnonzero((lengths == 0) & (constants > 0))
    if len(broken):
        return None, broken[:1]
    kept = np.flatnonzero(lengths > 0)
    a, b = rows[kept] / lengths[kept, None], -constants[kept] / lengths[kept]
    scale = float(np.abs(b).max(initial=0.0)) or 1.0
    target = np.zeros(rows.shape[1] + 1)
    target[-1] = 1.0
    stacked = -np.vstack([a.T, b[None] / scale])
    try:
        weights, _ = nnls(stacked, target)
    except RuntimeError:  # it did not converge: zero is no worse a point to split at than others
        return np.zeros(rows.shape[1]), kept[:0]
    residual = stacked @ weights - target
    if residual[-1] > -EMPTY:
        return None, kept[weights > 0]
    return -residual[:-1] / residual[-1] * scale, kept[:0]


def _halves(net: Layered, signs: list[ndarray], v: Float[ndarray, " v"] | None) -> list[list[ndarray]] | None:
    """The part on both sides of the open neuron whose activation in v is furthest from its own.

    Of the first open one where there is no v; None if no sign is open.
    """
    opened = [(layer, int(i)) for layer, some in enumerate(signs) for i in np.flatnonzero(some == 0)]
    if not opened:
        return None
    layer, neuron = opened[0 if v is None else int(np.argmax(_gaps(net, signs, v)))]
    halves = []
    for sign in (1, -1):
        half = list(signs)
        half[layer] = half[layer].copy()
        half[layer][neuron] = sign
        halves.append(half)
    return halves


def _gaps(net: Layered, signs: list[ndarray], v: Float[ndarray, " v"]) -> list[float]:
    """By how much the open activations in v are above those of the network."""
    free, gaps = net.first.shape[1], []
    z, below = net.first @ v[:free] + net.offset, np.zeros(0)
    for number, some in enumerate(signs):
        here = np.flatnonzero(some == 0)
        h = np.where(some > 0, z, net.leak * z)
        h[here] = v[free : free + len(here)]
        free += len(here)
        gaps += (h - net.phi(z))[here].tolist()
        below = h + below if net.skips[number] else h
        z = net.weights[number] @ below + net.biases[number]
    return gaps
