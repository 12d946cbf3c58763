"""The mean of the outputs of a class."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from featavg.nets.readouts._readout import ReadOut


@dataclass(frozen=True)
class Toy(ReadOut):
    """1/c sum_j f_j."""

    name: ClassVar[str] = "toy"

    def class_score(self, outputs):
        """The mean."""
        return outputs.mean(axis=-1)

    def derivative(self, outputs):
        """The same for all."""
        return np.full(outputs.shape, 1.0 / outputs.shape[-1])

    def pieces(self, own):
        """One half-space."""
        return [np.where(own, 1.0 / own.sum(), -1.0 / (~own).sum())[None]]
