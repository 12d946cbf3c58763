"""A task that a line solves and that no small network solves robustly (after Li et al. 2022).

Every vertex v of the cube {0, 1}^m carries an arbitrary label y_v; the point itself is
x = (v, y_v * gap) in R^(m+1). The last coordinate alone gives the label, but it is only `gap` wide:
an adversary who may move further must be met with the other m coordinates, and those say nothing
but which of the 2^m vertices this is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError


@dataclass(frozen=True, eq=False)
class Lattice:
    """All 2^m points of the task.

    Args:
        m: dimension of the cube; the points live in R^(m+1).
        gap: |last coordinate|.
        seed: of the labels, half of them +1.

    >>> import featavg as fa
    >>> task = fa.Lattice(m=3, gap=0.05)
    >>> task.x.shape, int(task.y.sum()), task.balls_meet_the_cube(0.05)
    ((8, 4), 0, True)
    """

    m: int
    gap: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.m <= 16:
            raise InputError("m", f"is {self.m}", "give a cube of 1 to 16 dimensions")
        if not 0 < self.gap < 0.5:
            raise InputError("gap", f"is {self.gap}", "give a number between 0 and 0.5")

    @cached_property
    def vertices(self) -> Float[ndarray, "V m"]:
        """The vertices, in the order of their binary numbers."""
        numbers = np.arange(2**self.m)
        return ((numbers[:, None] >> np.arange(self.m)) & 1).astype(float)

    @cached_property
    def y(self) -> Int[ndarray, " V"]:
        """A label for each vertex, as many +1 as -1."""
        return stream(self.seed, "lattice-labels").permutation(np.resize([1, -1], 2**self.m))

    @property
    def x(self) -> Float[ndarray, "V d"]:
        """The points."""
        return np.column_stack([self.vertices, self.gap * self.y])

    def balls_meet_the_cube(self, eps: float) -> bool:
        """Whether the ball of radius `eps` around every point contains its vertex (v, 0).

        Where it does, a classifier that is robust at `eps` reproduces all labels on the 2^m
        vertices. Labels are arbitrary, so a family that can always be robust shatters them: its VC
        dimension is at least 2^m, and so is, up to a power, the size of its networks.
        """
        return bool(np.all(np.abs(self.x[:, -1]) <= eps))

    def nearest_vertex_radii(self) -> Float[ndarray, " V"]:
        """The exact l2 radius of the classifier "the label of the nearest vertex", at every point.

        From v, the nearest point of the cell of another vertex w lies half-way in each of the
        h = |v - w|_1 coordinates in which they differ, sqrt(h)/2 away: the radius is that of the
        nearest vertex with another label, found by a search in rings around all vertices at once.
        """
        labels = self.y > 0
        near = np.full(len(labels), np.inf)
        # reach[v, s]: is there a vertex of label s within the rings searched so far?
        reach = np.stack([~labels, labels], axis=1)
        index = np.arange(len(labels))
        flips = [index ^ (1 << bit) for bit in range(self.m)]
        for ring in range(1, self.m + 1):
            reach = np.logical_or.reduce([reach, *(reach[flip] for flip in flips)])
            met = reach[index, 1 - labels.astype(int)]
            near = np.where(met & np.isinf(near), np.sqrt(ring) / 2, near)
        return near

    def robust_share_from_samples(self, n: int, seed: int) -> float:
        """Robust accuracy of "the label of the nearest vertex seen, else a coin", from n samples.

        It is robust (to less than 1/2) and right on the vertices it saw; on the others the last
        coordinate is beyond trust, and a coin is right half of the time.
        """
        seen = np.unique(stream(seed, "lattice-samples").integers(2**self.m, size=n))
        return (1.0 + len(seen) / 2.0**self.m) / 2
