"""The class of the largest output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.readouts.readout import Minorant, ReadOut
from featavg.shapes import PerSeed


@dataclass(frozen=True)
class Max(ReadOut):
    """max f_j over the outputs of a class.

    >>> Max().derivative(np.array([2.0, 5.0]))
    array([0., 1.])
    """

    name: ClassVar[str] = "max"

    def class_score(self, outputs: Float[ndarray, "*s c"]) -> PerSeed:
        """The largest output."""
        return outputs.max(axis=-1)

    def derivative(self, outputs: Float[ndarray, "*s c"]) -> Float[ndarray, "*s c"]:
        """One at the largest output; at the first of them on a tie."""
        return np.eye(outputs.shape[-1])[outputs.argmax(axis=-1)]

    def minorants(self, count: int) -> list[Minorant]:
        """Each output alone."""
        return [Minorant(row, 0.0) for row in np.eye(count)]

    def pieces(self, own: Bool[ndarray, " c"]) -> list[Float[ndarray, "I c"]]:
        """One piece for each rival j: f_i <= f_j for every own output i."""
        outputs = np.eye(len(own))
        return [outputs[own] - outputs[j] for j in np.flatnonzero(~own)]


READOUT = Max()
