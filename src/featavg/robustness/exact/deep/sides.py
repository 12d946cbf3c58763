r"""The sides of a box as half-spaces: the nearest point of a polyhedron inside a box.

A perturbation orthogonal to all weights changes no output, but inside a box it may be what the nearest
flip needs: a coordinate at its side leaves the rest of the way to others. So steps are written in all
coordinates here, and a side is a half-space like any other, +-e_i . s <= side. Few of them matter: the
program is solved with those that were violated so far, until none is, and its multipliers prove the bound
as they do without a box. A solution of fewer half-spaces that happens to be in the box is that of all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.robustness.exact.deep.cuts import Cuts
from featavg.robustness.geometry.qp import Nearest
from featavg.robustness.models.norms import to_halfspace

# A step that leaves the box by less than this share of its length is rounded into it.
INSIDE = 1e-12
FARTHER = 1e-9  # relative: nothing of the box is this much beyond its corner, whatever is rounded


@dataclass(frozen=True, eq=False)
class Sides:
    """The steps s with low <= s <= high from a point of the box, so low <= 0 <= high."""

    low: Float[ndarray, " N"]
    high: Float[ndarray, " N"]

    @classmethod
    def around(cls, x: Float[ndarray, " N"], bounds: tuple[ndarray, ndarray]) -> Sides:
        """The steps from x that stay within the bounds.

        >>> sides = Sides.around(np.array([0.0, 0.5]), (np.zeros(2), np.ones(2)))
        >>> sides.low.round(9), sides.high.round(9), round(sides.corner(2), 6)
        (array([ 0. , -0.5]), array([1. , 0.5]), 1.118034)
        """
        # A difference is rounded to nearest: one step outwards, it is not inside of the true one.
        low = np.nextafter(bounds[0] - x, -np.inf, where=bounds[0] < x, out=np.zeros_like(x))
        high = np.nextafter(bounds[1] - x, np.inf, where=bounds[1] > x, out=np.zeros_like(x))
        return cls(low, high)

    def corner(self, order: float) -> float:
        """The length of the longest step in this norm, or a little more."""
        longest = np.maximum(-self.low, self.high)
        return float(np.linalg.norm(longest, order)) * (1.0 + FARTHER)

    def clip(self, steps: Float[ndarray, "... N"]) -> Float[ndarray, "... N"]:
        """The steps, each coordinate moved between its sides."""
        return np.clip(steps, self.low, self.high)

    def free(self, step: Float[ndarray, " N"]) -> Bool[ndarray, " N"]:
        """The coordinates that are not at a side."""
        return np.asarray((step > self.low) & (step < self.high))

    def toward(self, gradient: Float[ndarray, " N"], gap: float) -> Float[ndarray, " N"]:
        """The shortest step with gradient . s <= -gap between the sides; as far as it goes if none is."""
        sides = cast(Any, (self.low, self.high))
        origin = np.zeros((1, len(gradient)))
        return to_halfspace(origin, gradient[None], np.array([gap]), "l2", sides)[0][0]

    def solve(self, cuts: Cuts) -> tuple[Cuts, Nearest, int]:
        """The cuts with the sides that matter before them, their nearest step, and how many programs.

        The step is None where the cuts and the sides exclude one another.
        """
        solved = 0
        while True:
            answer = cuts.solve()
            solved += 1
            if answer.u is None:
                return cuts, answer, solved
            slack = INSIDE * math.sqrt(answer.u @ answer.u)
            above = np.flatnonzero(answer.u > self.high + slack)
            below = np.flatnonzero(answer.u < self.low - slack)
            faces = self._faces(above, below, cuts)
            if not len(faces.rows):
                return cuts, Nearest(self.clip(answer.u), answer.bound, answer.multipliers), solved
            cuts = faces.joined(cuts)

    def _faces(self, above: ndarray, below: ndarray, known: Cuts) -> Cuts:
        """The half-spaces of these sides; none twice, so that a solver's rounding ends the rounds."""
        rows = np.zeros((len(above) + len(below), len(self.low)))
        rows[np.arange(len(above)), above] = 1.0
        rows[len(above) + np.arange(len(below)), below] = -1.0
        limits = np.concatenate([self.high[above], -self.low[below]])
        old = {row.tobytes() for row in known.rows}
        new = [i for i, row in enumerate(rows) if row.tobytes() not in old]
        none = np.zeros(len(new))
        return Cuts(rows[new], limits[new], none, none)
