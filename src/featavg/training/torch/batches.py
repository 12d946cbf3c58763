"""Mini-batches of images: shuffled, cropped and mirrored on the fly, the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from featavg.data.streams import stream


@dataclass(frozen=True, eq=False)
class Batches:
    """An endless supply of epochs, each a function of the seed and its number.

    No generator has to be saved: batch b of epoch e draws from its own stream, so a run that was
    killed in the middle of an epoch continues with the very batch that it would have had.

    Args:
        pixels: channel first, bytes or floats in [0, 1].
        targets: class numbers.
        size: images a batch; a last partial batch is left out, as batch norm dislikes tiny ones.
        crop: how far an image may be shifted, zeros coming in.
        flips: whether half of the images are mirrored.
    """

    pixels: ndarray
    targets: ndarray
    size: int
    seed: int
    crop: int = 0
    flips: bool = False

    def __post_init__(self) -> None:
        c = self.crop
        # Channel last: a gather over rows and columns then ends in torch's channels_last layout.
        padded = np.pad(self.pixels.transpose(0, 2, 3, 1), ((0, 0), (c, c), (c, c), (0, 0)))
        object.__setattr__(self, "_padded", torch.from_numpy(np.ascontiguousarray(padded)))
        object.__setattr__(self, "_labels", torch.from_numpy(self.targets.astype(np.int64)))

    def __len__(self) -> int:
        """Batches an epoch."""
        return max(1, len(self.targets) // self.size)

    def epoch(self, number: int, first: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of one epoch, from batch `first` on."""
        order = stream(self.seed, f"order {number}").permutation(len(self.targets))
        for b in range(first, len(self)):
            rows = torch.from_numpy(order[b * self.size : (b + 1) * self.size])
            yield self._augmented(rows, stream(self.seed, f"augment {number} {b}"))

    def _augmented(self, rows: Tensor, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
        padded: Tensor = self._padded  # type: ignore[attr-defined]
        labels: Tensor = self._labels  # type: ignore[attr-defined]
        n, (height, width) = len(rows), self.pixels.shape[2:]
        down = rng.integers(0, 2 * self.crop + 1, size=(n, 1)) + np.arange(height)
        across = rng.integers(0, 2 * self.crop + 1, size=(n, 1)) + np.arange(width)
        if self.flips:
            mirrored = rng.random(n) < 0.5
            across[mirrored] = across[mirrored, ::-1]
        taken = padded[rows[:, None, None], torch.from_numpy(down)[:, :, None], torch.from_numpy(across)[:, None, :]]
        x = taken.permute(0, 3, 1, 2)
        x = x.float() / 255.0 if x.dtype == torch.uint8 else x.float()
        return x, labels[rows]
