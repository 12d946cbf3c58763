"""What exact searches have to know of a curved read-out; `ReadOut.exact` names the module."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.nets.readouts.readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.deep.flip_conditions import Condition
from featavg.robustness.exact.relaxation import Relaxation
from featavg.robustness.exact.subspace import Subspace


class Curved(Protocol):
    """The functions of such a module."""

    def relaxation(
        self, head: Float[ndarray, "c M"], constant: Float[ndarray, " c"], own: Bool[ndarray, " c"]
    ) -> Relaxation:
        """For two layers: bounds of own score <= rival score over a box of pre-activations."""
        ...

    def condition(self, own: Bool[ndarray, " c"]) -> Condition:
        """For any depth: own score <= rival score as a condition on the outputs."""
        ...

    def never_flips(self, net: TwoLayer, space: Subspace, own: Bool[ndarray, " c"]) -> bool:
        """Whether own score > rival score everywhere, proven exactly."""
        ...


def curved_of(readout: ReadOut) -> Curved | None:
    """The module that the read-out names, or None."""
    return None if readout.exact is None else import_module(readout.exact)
