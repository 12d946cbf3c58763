"""Flipped points inside a ball that a box cuts: projected gradients and least points of slopes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Candidate, Search
from featavg.robustness.exact.deep.box import Box
from featavg.robustness.exact.deep.layered_network import Layered
from featavg.robustness.exact.flip_conditions import Condition

STARTS, STEPS = 24, 80
SHRINK = 0.95  # of a step, each time
LONGEST = 0.5  # of the radius: the first step


class BoxAttack:
    """Upper ends for branch and bound in a box; everything it keeps was evaluated.

    Args:
        net: the network in all coordinates of the input.
        z: pre-activations of its first layer in the centre.
        box: where steps may be.
        kept: where a flip goes.
        shown: the length of a step that, evaluated plainly, flips inside of box and ball; or None.
    """

    def __init__(
        self,
        net: Layered,
        z: Float[ndarray, " m"],
        box: Box,
        kept: Search,
        shown: Callable[[ndarray], float | None],
    ) -> None:
        self.net, self.z, self.box, self.kept, self.shown = net, z, box, kept, shown

    def start(self, condition: Condition) -> None:
        """From the centre, from where its slope is least, and from random points."""
        draws = np.random.default_rng(0).standard_normal((STARTS, len(self.box.low)))
        draws *= self.box.radius / np.sqrt(np.einsum("nd,nd->n", draws, draws))[:, None]
        draws[0] = 0.0
        self.descend(condition, draws)

    def descend(self, condition: Condition, steps: Float[ndarray, "n N"]) -> None:
        """Go down from all of these at once, in ever shorter steps, until something flips."""
        box = self.box
        s = box.projected(np.atleast_2d(steps))
        # The least point of the slope at each start is a start of its own.
        s = np.concatenate([s, box.projected(box.lowest(self._slopes(condition, s)[1])[1])])
        for number in range(STEPS):
            excess, slopes = self._slopes(condition, s)
            for i in np.argsort(excess)[: int(np.sum(excess <= 0.0))]:
                if self._keep(s[i]):
                    return
            sizes = np.sqrt(np.einsum("nd,nd->n", slopes, slopes))
            length = LONGEST * box.radius * SHRINK**number
            s = box.projected(s - slopes * (length / np.maximum(sizes, 1e-300))[:, None])
        excess, _ = self._slopes(condition, s)
        if float(excess.min()) <= 0.0:
            self._keep(s[int(excess.argmin())])

    def _slopes(
        self, condition: Condition, s: Float[ndarray, "n N"]
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N"]]:
        """How far the condition is from being reached at each step, and in which direction."""
        layers = self.net.forward(self.z + s @ self.net.rows.T)
        rows, shifts = condition.functionals(None, None, layers[-1][0])
        values = layers[-1] @ rows.T + shifts
        functional = rows[values.argmax(axis=1)]
        return values.max(axis=1), self.net.gradient(layers, functional)

    def _keep(self, s: Float[ndarray, " N"]) -> bool:
        length = self.shown(s)
        if length is None:
            return False
        row = s[None] / max(math.sqrt(s @ s), 1e-300)
        self.kept.candidates.append(Candidate(length, s, -row))
        return True
