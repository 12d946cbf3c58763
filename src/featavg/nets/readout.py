"""From the outputs of a network to a coarse decision: the sign of one number."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray
from scipy.special import logsumexp

from featavg.errors import InputError, one_of

READOUTS = ("probability", "max", "sum")


def score(
    outputs: Float[ndarray, "*s n c"], positive: Bool[ndarray, " k"] | None, readout: str
) -> Float[ndarray, "*s n"]:
    """The number whose sign is the coarse decision.

    A network with one output is its own score. For k outputs f_j and J+ given as a mask:

    - `probability` (the definition): sum of softmax over J+ minus over J-, here in the equivalent
      form log sum_{J+} exp f_j - log sum_{J-} exp f_j, which has the same sign and does not saturate;
    - `max`: the best of J+ minus the best of J-;
    - `sum`: the sum over J+ minus the sum over J-.

    >>> f = np.array([[2.0, 0.0, 1.5, 1.4]])
    >>> mask = np.array([True, True, False, False])
    >>> [round(float(score(f, mask, r)[0]), 2) for r in READOUTS]
    [-0.02, 0.5, -0.9]
    """
    if outputs.shape[-1] == 1:
        return outputs[..., 0]
    one_of("readout", readout, READOUTS)
    if positive is None or positive.shape != (outputs.shape[-1],):
        raise InputError(
            "positive", "does not match the outputs", f"give {outputs.shape[-1]} truth values"
        )
    up, down = outputs[..., positive], outputs[..., ~positive]
    if up.shape[-1] == 0 or down.shape[-1] == 0:
        raise InputError("positive", "leaves a class empty", "both classes need an output")
    if readout == "max":
        return up.max(axis=-1) - down.max(axis=-1)
    if readout == "sum":
        return up.sum(axis=-1) - down.sum(axis=-1)
    return np.asarray(logsumexp(up, axis=-1) - logsumexp(down, axis=-1))
