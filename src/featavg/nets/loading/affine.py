"""Piecewise linear networks of any wiring, as the plain layers of a `Deep`.

A tensor of the network is an affine function of the inputs and of the neurons found so far. Convolutions
and poolings are sparse matrices; every activation opens new neurons one level above those it reads. What a
later level needs of an earlier one, as in a residual addition, passes the levels between through neurons
of its own: relu(h) = h for h >= 0, and x = relu(x) - relu(-x) otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from scipy.sparse import csr_array, diags_array, eye_array, kron, vstack

from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU, ReLU
from featavg.nets.deep import Deep

# Numbers in the matrices of one network (a gigabyte), entries of one unrolled convolution, and neurons.
MOST_NUMBERS, MOST_ENTRIES, MOST_NEURONS = 1 << 27, 20_000_000, 100_000
SMALLER = "attack_suite takes the torch module as it is"


@dataclass(frozen=True, eq=False)
class Affine:
    """A tensor: sum over levels k of parts[k] @ h_k, plus the offset, in this shape.

    Attributes:
        shape: with a batch axis of one.
        parts: a row for each number of the tensor, a column for each input (level 0) or neuron.
        offset: what is added.
    """

    shape: tuple[int, ...]
    parts: Mapping[int, csr_array]
    offset: ndarray

    @property
    def places(self) -> Int[ndarray, "..."]:
        """The number of each entry."""
        return np.arange(len(self.offset)).reshape(self.shape)

    def times(self, matrix: csr_array, shape: tuple[int, ...]) -> Affine:
        """The matrix times the flat tensor."""
        matrix = csr_array(matrix)
        parts = {level: csr_array(matrix @ part) for level, part in self.parts.items()}
        return Affine(shape, parts, matrix @ self.offset)

    def taken(self, places: Int[ndarray, "..."]) -> Affine:
        """The tensor of these entries; zero where a place is -1."""
        check_size(places.shape)
        flat = places.ravel()
        rows = np.flatnonzero(flat >= 0)
        ones = np.ones(len(rows))
        pick = csr_array((ones, (rows, flat[rows])), shape=(len(flat), len(self.offset)))
        return self.times(pick, places.shape)

    def scaled(self, factor: ndarray | float) -> Affine:
        """Each entry times a constant, broadcast."""
        wide = self._broadcast(np.shape(factor))
        return wide.times(diags_array(np.broadcast_to(factor, wide.shape).ravel()), wide.shape)

    def plus(self, other: Affine | ndarray | float) -> Affine:
        """The sum with a tensor or a constant, broadcast."""
        if not isinstance(other, Affine):
            other = constant(np.asarray(other, dtype=float))
        one, two = self._broadcast(other.shape), other._broadcast(self.shape)
        parts = dict(one.parts)
        for level, part in two.parts.items():
            here = parts.get(level, part[:, :0])
            width = max(here.shape[1], part.shape[1])
            parts[level] = csr_array(_wider(here, width) + _wider(part, width))
        return Affine(one.shape, parts, one.offset + two.offset)

    def _broadcast(self, other: tuple[int, ...]) -> Affine:
        try:
            shape = np.broadcast_shapes(self.shape, other)
        except ValueError:
            problem = f"combines tensors of shapes {self.shape} and {tuple(other)}"
            raise InputError("source", problem, "check that its weights fit") from None
        return self if shape == self.shape else self.taken(np.broadcast_to(self.places, shape))


def check_size(shape: Sequence[int]) -> None:
    """Refuse a tensor that is too large to go on with, before it is made."""
    if math.prod(map(int, shape)) > MOST_ENTRIES:
        problem = f"has a tensor of shape {tuple(shape)}"
        raise InputError("source", problem, f"give a smaller network; {SMALLER}")


def constant(value: ndarray) -> Affine:
    """A tensor that depends on nothing."""
    return Affine(value.shape, {}, value.astype(float).ravel())


def joined(tensors: Sequence[Affine]) -> Affine:
    """All entries of several tensors, one after the other, in one flat one."""
    total = sum(len(one.offset) for one in tensors)
    flat, start = constant(np.zeros(total)), 0
    for one in tensors:
        places = np.full(total, -1)
        places[start : start + len(one.offset)] = one.places.ravel()
        flat, start = flat.plus(one.taken(places)), start + len(one.offset)
    return flat


def matrix_product(left: Affine | ndarray, right: Affine | ndarray) -> Affine:
    """left @ right, one of them constant, for tensors without a batch but the first axis of one."""
    value, weights = (left, right) if isinstance(left, Affine) else (right, left)
    assert isinstance(value, Affine)
    try:
        shape = np.matmul(*(np.broadcast_to(0.0, side.shape) for side in (left, right))).shape
        if len(weights.shape) != 2:
            raise ValueError
    except ValueError:
        problem = f"multiplies tensors of shapes {left.shape} and {right.shape}"
        raise InputError("source", problem, "check that its weights fit") from None
    w = np.asarray(weights, dtype=float)
    if value is left:  # rows of the value, each times the matrix
        repeats = max(1, len(value.offset) // w.shape[0])
        return value.times(kron(eye_array(repeats), w.T, "csr"), shape)
    columns = value.shape[-1] if len(value.shape) > 1 else 1
    each = kron(w, eye_array(columns), "csr")
    repeats = max(1, len(value.offset) // each.shape[1])
    return value.times(kron(eye_array(repeats), each, "csr"), shape)


class Levels:
    """The neurons of a network, level by level.

    Args:
        shape: of the input, with a batch axis of one.
        leak: of the activation that the network is built of; other slopes take two ReLUs a neuron.
        most: neurons beyond which the network is refused.
    """

    def __init__(self, shape: tuple[int, ...], leak: float = 0.0, most: int = MOST_NEURONS) -> None:
        check_size(shape)
        size = math.prod(shape)
        self.leak, self.most = leak, most
        self.levels: list[list[Affine]] = [[]]
        self.widths = [size]
        self.input = Affine(shape, {0: csr_array(eye_array(size))}, np.zeros(size))

    def rectified(self, value: Affine, leak: float = 0.0) -> Affine:
        """A (leaky) ReLU of each entry."""
        if leak != self.leak:  # then self.leak is 0
            below = self.rectified(value.scaled(-1.0))
            return self.rectified(value).plus(below.scaled(-leak))
        level = 1 + max((k for k, part in value.parts.items() if part.nnz), default=0)
        if level == len(self.levels):
            self.levels.append([])
            self.widths.append(0)
        start, count = self.widths[level], len(value.offset)
        self.levels[level].append(value)
        self.widths[level] += count
        self._check(sum(self.widths[1:]), 0)
        own = csr_array(eye_array(count, start + count, k=start))
        return Affine(value.shape, {level: own}, np.zeros(count))

    def largest(self, value: Affine, places: Int[ndarray, "n k"], shape: tuple[int, ...]) -> Affine:
        """The largest of each row of places, two at a time: max(a, b) = a + relu(b - a)."""
        found = [value.taken(column) for column in places.T]
        while len(found) > 1:
            pairs = zip(found[::2], found[1::2], strict=False)
            better = [a.plus(self.rectified(b.plus(a.scaled(-1.0)))) for a, b in pairs]
            found = better + found[len(found) - len(found) % 2 :]
        return Affine(shape, found[0].parts, found[0].offset)

    def network(self, output: Affine) -> Deep:
        """The layers from the input to this tensor."""
        last = len(self.levels) - 1
        carried = self._carried(output)
        # What each level is, in terms of what the layer just built gives.
        told: dict[int, csr_array] = {0: csr_array(eye_array(self.widths[0]))}
        layers: list[tuple[csr_array, ndarray]] = []
        for level in range(1, last + 1):
            own = [_in_terms_of(told, one, self.widths) for one in self.levels[level]]
            rows = [vstack([row for row, _ in own])]
            biases = [np.concatenate([offset for _, offset in own])]
            selects: dict[int, list[tuple[csr_array, int, float]]] = {}
            height = self.widths[level]
            for k in range(level):
                used = carried[level].get(k)
                if used is None:
                    continue
                signs = (1.0,) if k and not self.leak else (1.0, -1.0)
                for sign in signs:
                    rows.append(sign * told[k][used])
                    biases.append(np.zeros(len(used)))
                    # phi(x) - phi(-x) = (1 + leak) x
                    share = sign if len(signs) == 1 else sign / (1.0 + self.leak)
                    selects.setdefault(k, []).append((used, height, share))
                    height += len(used)
            layers.append((csr_array(vstack(rows)), np.concatenate(biases)))
            count = self.widths[level]
            told = {k: _selection(some, self.widths[k], height) for k, some in selects.items()}
            told[level] = csr_array(eye_array(count, height))
        layers.append(_in_terms_of(told, output, self.widths))
        neurons = sum(row.shape[0] for row, _ in layers[:-1])
        self._check(neurons, sum(math.prod(row.shape) for row, _ in layers))
        phi = LeakyReLU(self.leak) if self.leak else ReLU()
        weights = tuple(row.toarray() for row, _ in layers)
        return Deep(weights, tuple(bias for _, bias in layers), phi)

    def _carried(self, output: Affine) -> list[dict[int, ndarray]]:
        """For each level, the inputs and neurons below it that levels above it read."""
        above: dict[int, ndarray] = {}
        carried: list[dict[int, ndarray]] = [{} for _ in self.levels]
        for level in range(len(self.levels) - 1, 0, -1):
            for tensor in [output] if level == len(self.levels) - 1 else self.levels[level + 1]:
                for k, part in tensor.parts.items():
                    seen = np.zeros(self.widths[k], dtype=bool)
                    seen[np.unique(part.indices[part.data != 0.0])] = True
                    above[k] = above.get(k, False) | seen
            carried[level] = {k: np.flatnonzero(mask) for k, mask in above.items() if k < level and mask.any()}
        return carried

    def _check(self, neurons: int, numbers: int) -> None:
        if neurons > self.most or numbers > MOST_NUMBERS:
            matrices = f" and {numbers:.1e} weights" if numbers else ""
            problem = f"would be {neurons} neurons{matrices} with its convolutions unrolled"
            raise InputError("source", problem, f"give a smaller network; {SMALLER}")


def _in_terms_of(told: Mapping[int, csr_array], tensor: Affine, widths: Sequence[int]) -> tuple[csr_array, ndarray]:
    """The tensor as rows on what the last layer gives, and its offset."""
    width = next(iter(told.values())).shape[1]
    rows = csr_array((len(tensor.offset), width))
    for k, part in tensor.parts.items():
        if part.nnz:
            rows = rows + _wider(part, widths[k]) @ told[k]
    return csr_array(rows), tensor.offset


def _selection(some: Sequence[tuple[ndarray, int, float]], width: int, height: int) -> csr_array:
    """Rows that read a level back from where a layer carries it."""
    rows = np.concatenate([used for used, _, _ in some])
    columns = np.concatenate([start + np.arange(len(used)) for used, start, _ in some])
    shares = np.concatenate([np.full(len(used), share) for used, _, share in some])
    return csr_array((shares, (rows, columns)), shape=(width, height))


def _wider(part: csr_array, width: int) -> csr_array:
    """The matrix with columns of zeros added: the level has grown since."""
    return csr_array((part.data, part.indices, part.indptr), shape=(part.shape[0], width))
