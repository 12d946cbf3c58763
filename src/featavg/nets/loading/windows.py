"""Convolutions and poolings over windows of an image, as matrices."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.sparse import csr_array

from featavg.errors import InputError
from featavg.nets.loading.affine import MOST_ENTRIES, SMALLER, Affine, Levels, check_size


@dataclass(frozen=True)
class Windows:
    """Which pixels each window holds; `pads` are those at the top, left, bottom and right."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)

    def places(self, shape: tuple[int, ...]) -> Int[ndarray, "oh ow kh kw"]:
        """The number of each pixel within its channel, -1 for padding."""
        if len(shape) != 4:
            problem = f"has a layer of images that is given a tensor of shape {shape}"
            raise InputError("source", problem, "give shape=(channels, height, width)")
        top, left, bottom, right = self.pads
        check_size((shape[2] + top + bottom, shape[3] + left + right))
        index = np.arange(math.prod(shape[2:])).reshape(shape[2:])
        index = np.pad(index, ((top, bottom), (left, right)), constant_values=-1)
        rows, columns = (
            stride * np.arange((size - 1 - dilation * (kernel - 1)) // stride + 1)[:, None]
            + dilation * np.arange(kernel)
            for size, kernel, stride, dilation in zip(
                index.shape, self.kernel, self.strides, self.dilations, strict=True
            )
        )
        if not rows.size or not columns.size:
            problem = f"has windows of {self.kernel} in images of {shape[2:]}"
            raise InputError("source", problem, "check the shape of its input")
        check_size((*rows.shape, *columns.shape))
        return index[rows[:, None, :, None], columns[None, :, None, :]]

    def convolved(
        self,
        value: Affine,
        weights: Float[ndarray, "o i kh kw"],
        bias: Float[ndarray, " o"] | float = 0.0,
        groups: int = 1,
    ) -> Affine:
        """A convolution; channels fall into groups of their own."""
        places = self.places(value.shape)
        out, inside = weights.shape[:2]
        if value.shape[1] != inside * groups or out % groups:
            problem = f"has a convolution of {inside * groups} channels on {value.shape[1]}"
            raise InputError("source", problem, "check the shape of its input")
        count = weights[..., 0, 0].size * places.size
        if count > MOST_ENTRIES:
            problem = f"has a convolution of {out * places[..., 0, 0].size} neurons, {count:.0e} weights"
            raise InputError("source", f"{problem} unrolled", f"give a smaller network; {SMALLER}")
        pixels = math.prod(value.shape[2:])
        first = np.arange(out) // (out // groups) * inside  # the first channel that an output reads
        channel = first[:, None] + np.arange(inside)
        columns = channel[:, :, None, None, None, None] * pixels + places
        windows = math.prod(places.shape[:2])
        rows = np.arange(out * windows).reshape(out, 1, *places.shape[:2], 1, 1)
        data = np.broadcast_to(weights[:, :, None, None], columns.shape)
        kept = np.broadcast_to(places >= 0, columns.shape) & (data != 0.0)
        entries = data[kept], (np.broadcast_to(rows, columns.shape)[kept], columns[kept])
        matrix = csr_array(entries, shape=(out * windows, len(value.offset)))
        shape = (1, out, *places.shape[:2])
        return value.times(matrix, shape).plus(np.broadcast_to(bias, out)[:, None, None])

    def averaged(self, value: Affine, padding_counts: bool = True) -> Affine:
        """The mean of each window, of its pixels alone or with the zeros around them."""
        places = self.places(value.shape)
        channels = value.shape[1]
        mean = np.full((channels, 1, *self.kernel), 1.0 / math.prod(self.kernel))
        pooled = self.convolved(value, mean, groups=channels)
        share = np.mean(places >= 0, axis=(2, 3))
        return pooled if padding_counts else pooled.scaled(1.0 / share)

    def largest(self, levels: Levels, value: Affine) -> Affine:
        """The largest of each window, without padding."""
        places = self.places(value.shape)
        if np.any(places < 0):
            raise InputError("source", "has a max-pooling with padding", "pad before it, or not")
        channels, pixels = value.shape[1], math.prod(value.shape[2:])
        windows = places.reshape(-1, math.prod(self.kernel))
        rows = (np.arange(channels)[:, None, None] * pixels + windows).reshape(-1, windows.shape[1])
        return levels.largest(value, rows, (1, channels, *places.shape[:2]))
