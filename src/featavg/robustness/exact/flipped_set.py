r"""When is the decision flipped? As a union of families of convex-against-convex inequalities.

Branch and bound on ReLU inequalities: one output, `sum` and `max`.

The family is {up_i . relu(z) + shift_i <= down_i . relu(z)}. Over a box, relu is below its chord, so
down_i . chord(z) is above the right side: the chord relaxation contains the family. A neuron that
the box decides (its interval does not cross zero) has an exact chord, so splits at zero make the
relaxation exact after as many splits as there are concave neurons.

The separable bound needs the least value of D s^2 - 2 kappa s + 2 a relu(z + s) for each neuron, a
the price of the inequalities times (up - down). On either side of zero that is a parabola (a line
where D = 0), so its least value over an interval is at an end, at zero or at a vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.exact.relaxation import Affine, Box, Price, Terms, chord
from featavg.robustness.geometry.subspace import Subspace

# A pre-activation below this share of the current distances is at its kink.
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
    >>> from featavg.robustness.geometry.subspace import reduce
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


class ReluRelaxation:
    """A family up_i . relu(z) + shift_i <= down_i . relu(z) for all i. Splits are at zero."""

    def __init__(self, family: Family) -> None:
        self.family, self.concave = family, family.concave
        self.net = family.up - family.down
        self.inequalities = len(family.shift)
        self.shares = np.eye(self.inequalities)

    def outer(self, box: Box) -> Affine:
        """Chords over the box."""
        slope, offset = chord(box.lo, box.hi)
        return Affine(self.family.down * slope, self.family.down @ offset, self.shares)

    def touching(self, box: Box | None, z: Float[ndarray, " M"]) -> Affine:
        """The neurons that are active at z, without their ReLUs."""
        # relu(z) >= s z for s in {0, 1}: what is put on the right side is below it, so whatever
        # satisfies this inequality is flipped. It is for candidates, not for bounds.
        return Affine(self.family.down * (z > 0), np.zeros(self.inequalities), self.shares)

    def starts(self, z: Float[ndarray, " M"]) -> list[Affine]:
        """All rivals on; only those on at z."""
        return [self.touching(None, np.ones_like(z)), self.touching(None, z)]

    def cuts(self, side: Affine, z: Float[ndarray, " M"]) -> Affine:
        """The left sides without ReLUs, with the pattern of z."""
        # relu(z) >= s z again, now on the left, where the weights `up` are not negative: the cut is
        # below the true left side and removes no flipped point. It is exact at z itself.
        return Affine(
            self.family.up * (z > 0) - side.coefficients,
            self.family.shift - side.constants,
            self.shares,
            None,
            np.abs(self.family.shift) + np.abs(side.constants),
        )

    def excess(self, z: Float[ndarray, " M"]) -> float:
        """The largest left side minus right side."""
        return float(np.max(self.net @ np.maximum(z, 0.0) + self.family.shift))

    def kinks(self, rows: Float[ndarray, "M r"], z: Float[ndarray, " M"], scale: float) -> Float[ndarray, "p r"]:
        """See `flipped_set.kinks`."""
        return kinks(rows, self.family.up, self.family.down * (z > 0), z, scale)

    def terms(self, box: Box, price: Price, z: Float[ndarray, " M"], stiffness: Float[ndarray, " M"]) -> Terms:
        """Each term is two parabolas, or two lines, that meet at z = 0: five points suffice."""
        a, kappa = price.weights @ self.net, price.kappa
        soft = np.where(stiffness > 0, stiffness, 1.0)
        places = np.stack(
            [
                box.lo,
                box.hi,
                np.zeros_like(z),
                np.where(stiffness > 0, np.maximum(z + (kappa - a) / soft, 0.0), 0.0),
                np.where(stiffness > 0, np.minimum(z + kappa / soft, 0.0), 0.0),
            ]
        )
        # A vertex outside its own half-line, or outside the box, is clipped to an end that is listed
        # anyway: no value below the least one is invented, and none is missed.
        places = np.clip(places, box.lo, box.hi)
        s = places - z
        values = (stiffness * s - 2.0 * kappa) * s + 2.0 * a * np.maximum(places, 0.0)
        best = values.argmin(axis=0)
        column = np.arange(len(z))
        shift = 2.0 * float(price.weights @ self.family.shift)
        return Terms(
            least=values[best, column],
            here=2.0 * a * np.maximum(z, 0.0),
            where=places[best, column],
            constant=shift,
            size=abs(shift) + float(np.abs(values).max(axis=0).sum()),
        )

    def cut_at(self, box: Box, terms: Terms | None, z: Float[ndarray, " M"]) -> tuple[int, float] | None:
        """At zero, the undecided neuron whose term falls furthest below its value at z.

        Without terms, or if none falls, the neuron whose chord is furthest above its ReLU.
        """
        undecided = self.concave & (box.lo < 0) & (box.hi > 0)
        if not undecided.any():
            return None
        if terms is not None:
            lost = np.where(undecided, terms.here - terms.least, 0.0)
            if lost.max() > 1e-12 * terms.size:
                return int(lost.argmax()), 0.0
        slope, offset = chord(box.lo, box.hi)
        loose = self.family.down.sum(axis=0) * (slope * z + offset - np.maximum(z, 0.0))
        return int(np.where(undecided, loose, -np.inf).argmax()), 0.0
