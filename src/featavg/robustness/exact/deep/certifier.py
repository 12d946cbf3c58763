"""The decision at a radius: the ball alone first, then the ball cut by a box."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep.box import Box
from featavg.robustness.exact.deep.solver import DeepSolver
from featavg.robustness.exact.result import Answer

ALONE = 0.3  # of the time: for the ball without its box

Bounds = tuple[Float[ndarray, " N"], Float[ndarray, " N"]]


class Certifier(DeepSolver):
    """Whether anything flips within a radius, for networks of any depth.

    Args:
        decision: the network and its decision.
        labels: all labels that occur.
        gap: of a curved read-out.
        bounds: the lower and upper sides of a box that flips must be in.
    """

    def __init__(
        self, decision: Decision, labels: Iterable[int], gap: float, bounds: Bounds | None
    ) -> None:
        super().__init__(decision, labels, gap)
        self.bounds = bounds

    def at(
        self,
        x: Float[ndarray, " N"],
        label: int,
        clock: Clock,
        hint: None = None,
        radius: float | None = None,
    ) -> Answer:
        """What is within `radius` of one correctly classified point.

        What is certified without the box is certified with it, and a flip that happens to be in the
        box is one. Where a box cuts nothing, nothing else is asked.
        """
        assert radius is not None, "a decision is at a radius"
        box = None if self.bounds is None else Box.around(x, self.bounds, radius)
        if box is None or not box.cuts:
            return super().at(x, label, clock, hint, radius)
        search = self.balls.get(label)
        first = super().at(x, label, clock if search is None else clock.part(ALONE), hint, radius)
        if first.certified >= radius or self._in_box(first.witness, x, radius):
            return first
        nowhere, rest = np.full_like(x, np.nan), replace(clock, nodes=clock.nodes - first.nodes)
        if search is None or rest.spent(0):
            return Answer(0.0, np.inf, nowhere, first.nodes, finished=False)
        z, reach = self.layered.start(x[None])[0], float(np.linalg.norm(x)) + self.kinks
        shown = partial(self._shown, x, label, radius)
        found = search.at(z, reach, radius, rest, box, shown)
        nodes = first.nodes + found.nodes
        if found.attack <= radius:
            point = self._point(x, min(found.candidates, key=lambda one: one.length).u)
            return Answer(0.0, found.attack, point, nodes)
        return Answer(found.certified, np.inf, nowhere, nodes, found.finished)

    def _point(self, x: Float[ndarray, " N"], s: Float[ndarray, " N"]) -> Float[ndarray, " N"]:
        """x + s, inside of the box whatever is rounded."""
        assert self.bounds is not None
        return np.clip(x + s, *self.bounds)

    def _shown(self, x: ndarray, label: int, radius: float, s: ndarray) -> float | None:
        point = self._point(x, s)
        length = float(np.linalg.norm(point - x))
        flips = length <= radius and self.decision.margins(point[None], label)[0] <= 0
        return length if flips else None

    def _in_box(self, point: Float[ndarray, " N"], x: ndarray, radius: float) -> bool:
        assert self.bounds is not None
        inside = np.all((point >= self.bounds[0]) & (point <= self.bounds[1]))
        return bool(inside) and float(np.linalg.norm(point - x)) <= radius
