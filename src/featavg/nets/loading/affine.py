"""Affine tensors, and the layers of a piecewise linear network of any wiring as they are found.

A tensor is an affine function of what the newest layer gives. An activation opens a new layer, and every
tensor that is still needed passes it: relu(h) = h for h >= 0, and x = relu(x) - relu(-x) otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray
from scipy.sparse import block_array, csr_array, diags_array, eye_array, hstack, vstack

from featavg.errors import InputError
from featavg.nets.activations._activation import LeakyReLU, ReLU
from featavg.nets.deep import Deep

# Numbers in the matrices of one network (a gigabyte), entries of one tensor or convolution, and neurons.
MOST_NUMBERS, MOST_ENTRIES, MOST_NEURONS = 1 << 27, 20_000_000, 100_000
SMALLER = "give a smaller network; attack_suite takes the torch module as it is"


def refused(problem: str, remedy: str = "check that its weights fit") -> InputError:
    """The error of a network that cannot be loaded."""
    return InputError("source", problem, remedy)


@dataclass(frozen=True, eq=False)
class Affine:
    """A tensor of this shape, with a batch axis of one: matrix @ (what the newest layer gives) + offset."""

    shape: tuple[int, ...]
    matrix: csr_array
    offset: ndarray

    @property
    def places(self) -> Int[ndarray, "..."]:
        """The number of each entry."""
        return np.arange(len(self.offset)).reshape(self.shape)

    def times(self, matrix: Any, shape: tuple[int, ...]) -> Affine:
        """The matrix times the flat tensor."""
        return Affine(shape, csr_array(matrix @ self.matrix), matrix @ self.offset)

    def taken(self, places: Int[ndarray, "..."]) -> Affine:
        """The tensor of these entries; zero where a place is -1."""
        check_size(places.shape)
        flat = places.ravel()
        rows = np.flatnonzero(flat >= 0)
        pick = csr_array((np.ones(len(rows)), (rows, flat[rows])), shape=(len(flat), len(self.offset)))
        return self.times(pick, places.shape)

    def scaled(self, factor: ndarray | float) -> Affine:
        """Each entry times a constant, broadcast."""
        wide = self._broadcast(np.shape(factor))
        return wide.times(diags_array(np.broadcast_to(factor, wide.shape).ravel()), wide.shape)

    def plus(self, other: Affine | ndarray | float) -> Affine:
        """The sum with a tensor or a constant, broadcast."""
        if not isinstance(other, Affine):
            other = self.constant(other)
        one, two = self._broadcast(other.shape), other._broadcast(self.shape)
        return Affine(one.shape, csr_array(one.matrix + two.matrix), one.offset + two.offset)

    def constant(self, value: Any) -> Affine:
        """A tensor that depends on nothing, beside this one."""
        flat = np.asarray(value, dtype=float).ravel()
        return Affine(np.shape(value), csr_array((len(flat), self.matrix.shape[1])), flat)

    def _broadcast(self, other: tuple[int, ...]) -> Affine:
        try:
            shape = np.broadcast_shapes(self.shape, other)
        except ValueError:
            raise refused(f"combines tensors of shapes {self.shape} and {tuple(other)}") from None
        return self if shape == self.shape else self.taken(np.broadcast_to(self.places, shape))


def check_size(shape: Sequence[int]) -> None:
    """Refuse a tensor that is too large before it is made."""
    if math.prod(map(int, shape)) > MOST_ENTRIES:
        raise refused(f"has a tensor of shape {tuple(shape)}", SMALLER)


def joined(tensors: Sequence[Affine]) -> Affine:
    """All entries of several tensors, one after the other, in one flat one."""
    offset = np.concatenate([one.offset for one in tensors])
    return Affine(offset.shape, csr_array(vstack([one.matrix for one in tensors])), offset)


class Layers:
    """The layers found so far, and the tensors that are still needed.

    Args:
        shape: of the input, with a batch axis of one.
        slopes: of all activations on the negative side. The network is built of neurons with this slope
            if it is the same everywhere, and of ReLUs otherwise, two for a leaky one.
        most: neurons beyond which the network is refused.
    """

    def __init__(self, shape: tuple[int, ...], slopes: Iterable[float], most: int = MOST_NEURONS) -> None:
        check_size(shape)
        size, different = math.prod(shape), set(slopes)
        for slope in different:
            if not 0.0 <= slope < 1.0:
                raise refused(f"has a leaky ReLU of slope {slope:g}", "use one in [0, 1)")
        self.leak, self.most = different.pop() if len(different) == 1 else 0.0, most
        self.input = Affine(shape, csr_array(eye_array(size)), np.zeros(size))
        self.known: dict[str, Any] = {}
        self.layers: list[tuple[csr_array, ndarray]] = []
        # What tensors are written in, from the activations of the newest layer; and whether it is >= 0.
        self.given, self.positive = csr_array(eye_array(size)), np.zeros(size, dtype=bool)

    def rectified(self, value: Affine, slope: float = 0.0, others: Sequence[Affine] = ()) -> list[Affine]:
        """The activation of each entry, in a new layer; what is known and these others pass it."""
        if slope != self.leak:  # then self.leak is 0
            both, *others = self.rectified(joined([value, value.scaled(-1.0)]), self.leak, others)
            above, below = both.places.reshape(2, *value.shape)
            return [both.taken(above).plus(both.taken(below).scaled(-slope)), *others]
        tensors = [one for one in self.known.values() if isinstance(one, Affine)] + list(others)
        read = [one.matrix.indices[one.matrix.data != 0.0] for one in tensors]
        carried = np.unique(np.concatenate([np.zeros(0, int), *read]))
        mixed = np.flatnonzero(~self.positive[carried])
        keep = csr_array(eye_array(len(self.positive)))[carried]
        rows = csr_array(vstack([value.matrix, keep, -keep[mixed]]) @ self.given)
        count, total = len(value.offset), rows.shape[0]
        self.layers.append((rows, np.concatenate([value.offset, np.zeros(total - count)])))
        self._check(sum(len(bias) for _, bias in self.layers))
        # phi(x) - phi(-x) = (1 + leak) x
        share = np.where(self.positive[carried], 1.0, 1.0 / (1.0 + self.leak))
        back = csr_array(eye_array(len(carried)))[:, mixed] * (-1.0 / (1.0 + self.leak))
        parts = [[eye_array(count), None, None], [None, diags_array(share), back]]
        self.given = csr_array(block_array(parts)) if len(carried) else csr_array(eye_array(count))
        self.positive = np.concatenate([np.full(count, self.leak == 0.0), self.positive[carried]])

        def passed(one: Affine) -> Affine:
            left = csr_array((len(one.offset), count))
            return Affine(one.shape, csr_array(hstack([left, one.matrix[:, carried]])), one.offset)

        self.known = {name: passed(one) if isinstance(one, Affine) else one for name, one in self.known.items()}
        own = csr_array(eye_array(count, count + len(carried)))
        return [Affine(value.shape, own, np.zeros(count)), *map(passed, others)]

    def network(self, output: Affine) -> Deep:
        """The layers from the input to this tensor."""
        layers = [*self.layers, (output.matrix @ self.given, output.offset)]
        self._check(sum(len(bias) for _, bias in self.layers), sum(math.prod(rows.shape) for rows, _ in layers))
        phi = LeakyReLU(self.leak) if self.leak else ReLU()
        return Deep(tuple(rows.toarray() for rows, _ in layers), tuple(bias for _, bias in layers), phi)

    def _check(self, neurons: int, numbers: int = 0) -> None:
        if neurons > self.most or numbers > MOST_NUMBERS:
            matrices = f" and {numbers:.1e} weights" if numbers else ""
            raise refused(f"would be {neurons} neurons{matrices} with its convolutions unrolled", SMALLER)
