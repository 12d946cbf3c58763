"""When is the decision flipped? As a union of families of convex-against-convex inequalities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.exact.subspace import Subspace

# A pre-activation below this share of the distances at hand is at its kink.
AT_ZERO = 1e-9


@dataclass(frozen=True, eq=False)
class Family:
    r"""The points with up_i . relu(z) + shift_i <= down_i . relu(z) for every i at once.

    Both sides are convex in z. A decision y is flipped where y * score <= 0 (a score of zero counts
    as flipped), and that is the union of one or more families, one for each of the read-out's
    pieces {rows @ outputs <= 0}: `sum` has one of one inequality, `max` one for each rival output.
    """

    up: Float[ndarray, "I M"]
    down: Float[ndarray, "I M"]
    shift: Float[ndarray, " I"]

    @property
    def concave(self) -> Bool[ndarray, " M"]:
        """The neurons on the large side of some inequality: what makes the set not convex."""
        return np.asarray((self.down > 0).any(axis=0))


def kinks(
    rows: Float[ndarray, "M r"],
    up: Float[ndarray, "I M"],
    down: Float[ndarray, "I M"],
    z: Float[ndarray, " M"],
    scale: float,
) -> Float[ndarray, "p r"]:
    """What must fall for a point at kinks to move into {up_i . relu(z) + shift_i <= down_i . z}.

    The rows of the neurons of `up` that are at zero, up to rounding relative to `scale`, and the
    slopes of the inequalities without them. None of either where no neuron is at zero.
    """
    flat = (np.abs(z) <= AT_ZERO * scale) & (up > 0).any(axis=0)
    if not flat.any():
        return np.zeros((0, rows.shape[1]))
    slopes = (up * ((z > 0) & ~flat) - down) @ rows
    steep = np.linalg.norm(slopes, axis=1) > AT_ZERO
    return np.concatenate([rows[flat], slopes[steep]])


def flipped(space: Subspace, pieces: list[ndarray], slack: float = 0.0) -> list[Family]:
    """The families whose union is {z : rows @ outputs <= slack for one of the pieces}.

    >>> from featavg.nets.two_layer import binary
    >>> from featavg.robustness.exact.subspace import reduce
    >>> [family] = flipped(reduce(binary(np.eye(2))), [np.array([[-1.0]])])
    >>> family.up, family.down
    (array([[0., 1.]]), array([[1., 0.]]))
    """
    families = []
    for rows in pieces:
        families += _family(rows @ space.head, rows @ space.constant - slack)
    return families


def _family(difference: Float[ndarray, "I M"], shift: Float[ndarray, " I"]) -> list[Family]:
    """difference_i . relu(z) + shift_i <= 0: no family if one of these can never hold."""
    # Each inequality may be divided by a positive number; then no number here is large or small.
    scale = np.abs(difference).max(axis=1, initial=0.0)
    if np.any(shift[scale == 0] > 0):
        return []
    scale[scale == 0] = 1.0
    difference, shift = difference / scale[:, None], shift / scale
    return [Family(np.maximum(difference, 0.0), np.maximum(-difference, 0.0), shift)]
