r"""Polish a flipped point of a two-layer network: project onto a convex piece of the other side.

The margin is own minus opposite scores, and each output is a combination of ReLUs. Replace every
ReLU that has the wrong curvature by a line below it, relu(z) >= s z with s in {0, 1}, and the
opposite score, which is convex, by the affine function that touches it (for `probability`,
log sum exp f >= p.f + H(p)): what results is a convex function G above the margin, equal to it
where s and p belong to the point. So {G <= 0} is a convex part of the other side, the nearest point
of it is found by cutting planes, and starting again from there never makes the radius longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.nets.readouts._readout import Minorant, ReadOut, Sum
from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem, FeatureDirections
from featavg.robustness.geometry.qp import shortest_step
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import length, to_box


@dataclass(frozen=True, repr=False)
class Polish(Attack):
    """Shorten what other attacks found on a two-layer network, by convex programs.

    Attributes:
        rounds: pieces walked through from each start.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> attacks = [fa.attacks.DDN(steps=10), fa.attacks.Polish()]
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=attacks).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "polish"
    default: ClassVar[bool] = True
    refines: ClassVar[bool] = True
    rounds: int = 6

    def obstacle(self, model: Model, norm: str = "l2", features: FeatureDirections | None = None) -> InputError | None:
        """The convex pieces are known for two-layer networks; in l_inf not inside a box."""
        if isinstance(model, TwoLayerModel) and (norm == "l2" or model.bounds is None):
            return super().obstacle(model, norm, features)
        return InputError("attacks", "name polish", "it is for two-layer networks; in l_inf, unbounded")

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """The nearest flipped points of the pieces that the ends so far are in, and of the pieces beside them.

        Beside them: all opposite neurons on together, for `max` and `probability` also each rival on
        its own. Those are the pieces that a dead ReLU hides from gradients.
        """
        model, x = problem.model, problem.x
        assert isinstance(model, TwoLayerModel), "refused by `obstacle`"
        best, flipped = x.copy(), np.zeros(len(x), dtype=bool)
        for i in range(len(x)):
            points = [end.point[i] for end in problem.ends if end.flipped[i]]
            delta = _polish_one(model, x[i], int(problem.label[i]), points, problem.norm, self.rounds)
            if delta is not None:
                # A hair beyond the boundary, where the sign of a rounded margin is no toss.
                best[i : i + 1] = x[i] + to_box(x[i : i + 1], delta[None] * (1 + 1e-9), model.bounds)
                flipped[i] = True
        return AttackEnd(best, flipped)


@dataclass(frozen=True, eq=False)
class _Piece:
    """G: what is added by the ReLUs, what by the lines, and how outputs become a score."""

    own: Float[ndarray, "o M"]
    opposite: Float[ndarray, "q M"]
    active: Float[ndarray, " M"]
    rival: Minorant
    readout: ReadOut

    def __call__(self, z: Float[ndarray, " M"]) -> tuple[float, Float[ndarray, " M"]]:
        """G and a subgradient, in the pre-activations."""
        bent, line = np.maximum(z, 0.0), self.active * z
        slope, flat = (z > 0).astype(float), self.active
        up = np.maximum(self.own, 0.0) @ bent + np.minimum(self.own, 0.0) @ line
        down = np.maximum(self.opposite, 0.0) @ line + np.minimum(self.opposite, 0.0) @ bent
        score, share = self.readout.touch(up)
        value = score - self.rival.constant - float(self.rival.weights @ down)
        gradient = share @ (np.maximum(self.own, 0.0) * slope + np.minimum(self.own, 0.0) * flat)
        pulled = np.maximum(self.opposite, 0.0) * flat + np.minimum(self.opposite, 0.0) * slope
        return value, gradient - self.rival.weights @ pulled


def _polish_one(
    model: TwoLayerModel, x: Float[ndarray, " D"], label: int, points: list[ndarray], norm: str, rounds: int
) -> Float[ndarray, " D"] | None:
    """The shortest perturbation over all starting pieces."""
    net = model.net
    own, opposite = _sides(model, label)
    at_x = net.weights @ x + net.biases
    readout = model.decision.readout if model.decision.groups is not None else Sum()
    beside = _beside(net.neurons, own, opposite, readout)
    pieces = [_at(net.weights @ p + net.biases, own, opposite, readout) for p in points]
    pieces += beside
    near = [float(length((p - x)[None], norm)[0]) for p in points]
    best, shortest, seen = None, min(near, default=np.inf), set()
    for first in pieces:
        piece, radius = first, np.inf
        for _ in range(rounds):
            key = (piece.active.tobytes(), piece.rival.weights.round(4).tobytes())
            if key in seen:
                break
            seen.add(key)
            # A piece that is a little further away may lead to a nearer one.
            delta = _descend(model, piece, x, at_x, norm, min(radius, 1.02 * shortest))
            if delta is None:
                break
            now = float(length(delta[None], norm)[0])
            if now < shortest:
                best, shortest = delta, now
            if now > radius * (1 - 1e-5):
                break
            radius = now
            piece = _at(at_x + net.weights @ delta, own, opposite, readout)
    return best


def _sides(model: TwoLayerModel, label: int) -> tuple[ndarray, ndarray]:
    """The rows of the head for the own class and for the other one."""
    head, groups = model.net.head, model.decision.groups
    if groups is None:
        # One output: the own score is +-f, and there is nothing on the other side.
        return (head if label == 1 else -head), np.zeros((0, head.shape[1]))
    return head[groups == label], head[groups != label]


def _beside(neurons: int, own: ndarray, opposite: ndarray, readout: ReadOut) -> list[_Piece]:
    every = np.ones(neurons)
    return [_Piece(own, opposite, every, rival, readout) for rival in _minorants(opposite, readout)]


def _minorants(opposite: ndarray, readout: ReadOut) -> list[Minorant]:
    # One output has no opposite ones: the empty sum.
    return readout.minorants(len(opposite)) if len(opposite) else [Minorant(np.zeros(0), 0.0)]


def _at(z: ndarray, own: ndarray, opposite: ndarray, readout: ReadOut) -> _Piece:
    """The piece that touches the margin at these pre-activations."""
    rival = Minorant(np.zeros(0), 0.0)
    if len(opposite):
        rival = readout.minorant(opposite @ np.maximum(z, 0.0))
    return _Piece(own, opposite, (z > 0).astype(float), rival, readout)


def _descend(
    model: TwoLayerModel,
    piece: _Piece,
    x: Float[ndarray, " D"],
    at_x: Float[ndarray, " M"],
    norm: str,
    limit: float,
    cuts: int = 25,
) -> Float[ndarray, " D"] | None:
    """The nearest point of {G <= 0} by cutting planes; None if it is empty or beyond `limit`.

    Every cut is a half-space that contains {G <= 0}, so the lengths only grow: one that is longer
    than what is known already ends the search.
    """
    weights = model.net.weights
    delta = np.zeros_like(x)
    value, slope = piece(at_x)
    scale = abs(value)
    rows, limits = [], []
    for _ in range(cuts):
        if value <= 1e-10 * scale:
            break
        rows.append(slope @ weights)
        limits.append(float(rows[-1] @ delta) - value)
        longer = shortest_step(np.array(rows), np.array(limits), norm, x, model.bounds)
        if longer is None or length(longer[None], norm)[0] > limit * (1 + 1e-9):
            return None
        delta = longer
        value, slope = piece(at_x + weights @ delta)
    return delta
