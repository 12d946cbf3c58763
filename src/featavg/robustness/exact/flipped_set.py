"""When is the decision flipped? As a union of families of convex-against-convex inequalities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.errors import InputError, one_of
from featavg.nets.readout import READOUTS
from featavg.robustness.exact.subspace import Subspace


@dataclass(frozen=True, eq=False)
class Family:
    r"""The points with up_i . relu(z) + shift_i <= down_i . relu(z) for every i at once.

    Both sides are convex in z. A decision y is flipped where y * score <= 0 (a score of zero counts
    as flipped), and that is the union of one or more families:

    - one output, or `sum`: one family of one inequality, y * score <= 0 itself;
    - `max`: one family for each rival output j, with the inequalities f_i <= f_j for every output i
      of the own class.
    """

    up: Float[ndarray, "I M"]
    down: Float[ndarray, "I M"]
    shift: Float[ndarray, " I"]

    @property
    def concave(self) -> Bool[ndarray, " M"]:
        """The neurons on the large side of some inequality: what makes the set not convex."""
        return np.asarray((self.down > 0).any(axis=0))


def check_readout(outputs: int, readout: str, positive: ndarray | None) -> Bool[ndarray, " c"]:
    """The mask of J+, after saying what is wrong with it."""
    one_of("readout", readout, READOUTS)
    if outputs == 1:
        return np.ones(1, dtype=bool)
    if positive is None:
        raise InputError("positive", "is missing", f"give {outputs} truth values, one an output")
    mask = np.asarray(positive)
    if mask.shape != (outputs,) or mask.dtype != bool:
        raise InputError("positive", "does not match the outputs", f"give {outputs} truth values")
    if mask.all() or not mask.any():
        raise InputError("positive", "leaves a class empty", "both classes need an output")
    return mask


def flipped(
    space: Subspace,
    y: int,
    readout: str,
    positive: Bool[ndarray, " c"],
    slack: float = 0.0,
) -> list[Family]:
    """The families whose union is {y * score <= slack}, for every read-out but `probability`.

    >>> from featavg.nets.two_layer import binary
    >>> from featavg.robustness.exact.subspace import reduce
    >>> [family] = flipped(reduce(binary(np.eye(2))), -1, "sum", np.array([True]))
    >>> family.up, family.down
    (array([[0., 1.]]), array([[1., 0.]]))
    """
    if len(space.head) == 1:
        return _family(y * space.head, y * space.constant - slack)
    own, rival = (positive, ~positive) if y > 0 else (~positive, positive)
    if readout == "sum":
        shift = _difference(space.constant, own, rival) - slack
        return _family(_difference(space.head, own, rival), shift)
    found: list[Family] = []
    for j in np.flatnonzero(rival):
        found += _family(
            space.head[own] - space.head[j], space.constant[own] - space.constant[j] - slack
        )
    return found


def _difference(values: ndarray, own: ndarray, rival: ndarray) -> ndarray:
    return np.asarray(
        values[own].sum(axis=0, keepdims=True) - values[rival].sum(axis=0, keepdims=True)
    )


def _family(difference: Float[ndarray, "I M"], shift: Float[ndarray, " I"]) -> list[Family]:
    """difference_i . relu(z) + shift_i <= 0: no family if one of these can never hold."""
    # Each inequality may be divided by a positive number; then no number here is large or small.
    scale = np.abs(difference).max(axis=1, initial=0.0)
    if np.any(shift[scale == 0] > 0):
        return []
    scale[scale == 0] = 1.0
    difference, shift = difference / scale[:, None], shift / scale
    return [Family(np.maximum(difference, 0.0), np.maximum(-difference, 0.0), shift)]
