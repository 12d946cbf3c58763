"""The read-outs by name, and the coarse score that they define."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import positive_mask
from featavg.errors import InputError, one_of
from featavg.nets.readouts import NAMES
from featavg.nets.readouts.readout import ReadOut
from featavg.registry import POOLINGS

READOUTS: dict[str, ReadOut] = {
    name: import_module(f"featavg.nets.readouts.{name}").READOUT for name in NAMES
}


def readout_of(readout: str | ReadOut) -> ReadOut:
    """The read-out or pooling of this name, perhaps with options; an object is its own.

    >>> readout_of("max"), readout_of("top:q=3")
    (Max(), Top(q=3))
    """
    if isinstance(readout, ReadOut):
        return readout
    if readout not in READOUTS and readout.partition(":")[0] in POOLINGS:
        return POOLINGS.build(readout)
    return READOUTS[one_of("readout", readout, dict.fromkeys((*READOUTS, *POOLINGS)))]


@public
def score(
    outputs: Float[ndarray, "*s n c"],
    positive: Sequence[int] | Sequence[bool] | ndarray | None,
    readout: str | ReadOut = "probability",
) -> Float[ndarray, "*s n"]:
    """The number whose sign is the coarse decision: class score of J+ minus class score of J-.

    A network with one output is its own score.

    Args:
        outputs: f_1 .. f_c at n points, of any number of networks.
        positive: J+, as c truth values or as the indices of its outputs.
        readout: a name from READOUTS, or a read-out of your own.

    >>> import numpy as np
    >>> import featavg as fa
    >>> f = np.array([[2.0, 0.0, 1.5, 1.4]])
    >>> readouts = ("probability", "max", "sum")
    >>> [round(float(fa.score(f, [True, True, False, False], r)[0]), 2) for r in readouts]
    [-0.02, 0.5, -0.9]
    """
    return coarse_score(outputs, positive, readout)


def coarse_score(
    outputs: Float[ndarray, "*s n c"],
    positive: Sequence[int] | Sequence[bool] | ndarray | None,
    readout: str | ReadOut,
) -> Float[ndarray, "*s n"]:
    """`score` for the library itself: those of a network that diverged are NaN."""
    rule = readout_of(readout)
    if outputs.shape[-1] == 1:
        return outputs[..., 0]
    if positive is None:
        raise InputError(
            "positive", "is missing", f"say which of the {outputs.shape[-1]} outputs are positive"
        )
    mask = positive_mask(positive, outputs.shape[-1], "outputs")
    return np.asarray(rule.class_score(outputs[..., mask]) - rule.class_score(outputs[..., ~mask]))
