"""The decision at a radius: the ball alone first, then the ball cut by a box."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.decision import Decision
from featavg.robustness.exact.deep.box import Box
from featavg.robustness.exact.deep.solver import DeepSolver
from featavg.robustness.exact.result import Answer

MODERATE = 60  # powers of two: their squares and products are far from infinity
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


def in_unit(
    decision: Decision, x: Float[ndarray, "n N"], labels: ndarray, radius: float
) -> tuple[int, Decision]:
    """The same question with numbers near one: x and the radius divided by 2^unit, and its network.

    Squares of 1e160 are infinite. A network of ReLUs multiplied by powers of two decides as before,
    bit for bit, if its read-out compares outputs; one that is moderate, or curved, stays as it is.
    """
    net = decision.net
    arrays = [net.weights, net.head] if isinstance(net, TwoLayer) else list(net.weights)
    sizes = [float(np.abs(x).max(initial=radius)), *(float(np.abs(a).max()) for a in arrays)]
    powers = [math.frexp(max(size, 0.0))[1] if size > 0.0 else 0 for size in sizes]
    curved = any(decision.pieces(int(label)) is None for label in set(labels.tolist()))
    if curved or max(map(abs, powers)) <= MODERATE:
        return 0, decision
    unit, *each = powers
    if isinstance(net, TwoLayer):
        biases = None if net.biases is None else np.ldexp(net.biases, -unit - each[0])
        weights, head = np.ldexp(net.weights, -each[0]), np.ldexp(net.head, -each[1])
        return unit, replace(decision, net=replace(net, weights=weights, biases=biases, head=head))
    # An input that is added to an output is in the same unit.
    for number, layer in enumerate(net.layers):
        each[number] = 0 if layer.skip else each[number]
    totals = unit + np.cumsum(each)
    scaled = tuple(np.ldexp(w, -int(e)) for w, e in zip(net.weights, each, strict=True))
    given = net.biases or (None,) * len(scaled)
    pairs = zip(given, totals, strict=True)
    shifts = tuple(None if b is None else np.ldexp(b, -int(e)) for b, e in pairs)
    return unit, replace(decision, net=replace(net, weights=scaled, biases=shifts))
