"""Projected gradient descent at given radii: as published, and as a minimal-norm attack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import expit, softmax

from featavg.data.streams import stream
from featavg.errors import InputError, one_of, whole
from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem, nearer
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.models.model import Covector, Model
from featavg.robustness.models.norms import length, steepest, to_ball, to_box

LOSSES = ("margin", "cross-entropy")


@dataclass(frozen=True, repr=False)
class _Bisected(Attack):
    """An attack inside balls, with bisection on their radius."""

    steps: int = 20
    rounds: int = 6
    restarts: int | None = None

    def expected_gradients(self, budget: int) -> float:
        """All starts at all radii; those that flip stop early."""
        return self.steps * self.rounds * (self.restarts or 2)

    @abstractmethod
    def inside(self, problem: AttackProblem, radius: Float[ndarray, " n"]) -> AttackEnd:
        """The attack inside the balls of these radii."""

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Bisect between radii where it flips and where it does not."""
        return self.within(problem, first_guess(problem))

    def within(self, problem: AttackProblem, guess: Float[ndarray, " n"]) -> AttackEnd:
        """The smallest radius at which the attack flips, between an unflipped and a flipped one.

        Args:
            guess: a first radius for each point; doubled until one flips, then halved in between.
        """
        x = problem.x
        low, best = np.zeros(len(x)), AttackEnd.nothing(x)
        radius = guess.astype(float).copy()
        for _ in range(self.rounds):
            end = self.inside(problem, radius)
            point = shorten(problem, end, steps=4).point
            best = nearer(x, best, AttackEnd(point, end.flipped), problem.norm)
            high = best.radii(x, problem.norm)
            low = np.where(end.flipped, low, np.maximum(low, radius))
            radius = np.where(np.isinf(high), 2 * radius, (low + high) / 2)
        return best


@dataclass(frozen=True, repr=False)
class PGD(_Bisected):
    """Projected gradient descent on the margin, with bisection on the radius.

    Not part of the usual suite: minimal-norm attacks find what it finds, for less.

    Attributes:
        steps: gradients per point, start and radius.
        rounds: radii tried.
        restarts: starts besides the directions of known features; 2 unless there are some.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=[fa.attacks.PGD()]).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "pgd"

    def inside(self, problem: AttackProblem, radius: Float[ndarray, " n"]) -> AttackEnd:
        """PGD from x, along known features and from random points of the ball."""
        along: list[ndarray] = []
        if problem.features is not None:
            along = list(problem.features.at(problem.x, problem.label).values())
        restarts = self.restarts or (1 if along else 2)
        asked = problem.model, problem.x, problem.label, radius, problem.norm
        return pgd(*asked, self.steps, None, restarts, along, seed=problem.seed)


def pgd(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    radius: Float[ndarray, " n"],
    norm: str = "l2",
    steps: int = 40,
    step_size: float | None = None,
    restarts: int = 1,
    starts: Sequence[Float[ndarray, "n D"]] = (),
    loss: str = "margin",
    own: Int[ndarray, " n"] | None = None,
    seed: int = 0,
    random_start: bool = False,
) -> AttackEnd:
    r"""PGD inside the ball of each point's radius: the first flipped point of any start, or the last.

        delta <- box(ball_r(delta - a r u)),   u the steepest direction of the gradient.

    Args:
        radius: of each point.
        step_size: a, a share of the radius (2.5 / steps by default, as is usual).
        restarts: the first begins at x, later ones at random in the ball.
        starts: directions to begin along, at full radius, besides.
        loss: "margin" of the coarse decision, or the "cross-entropy" the model was trained with.
        own: with cross-entropy, the labels the model was trained on, as output numbers; the coarse
            label for a model with one output.
        random_start: the first begins at random too, as in some published code.
    """
    one_of("loss", loss, LOSSES)
    check_pgd(steps, step_size, restarts)
    size = 2.5 / steps if step_size is None else step_size
    covector = _covector(model, label, loss, own)
    best, flipped = x.copy(), np.zeros(len(x), dtype=bool)
    for begin in beginnings(x, radius, norm, restarts, starts, seed, random_start):
        left = np.flatnonzero(~flipped)
        delta = to_box(x[left], to_ball(begin[left], radius[left], norm), model.bounds)
        for i in range(steps + 1):
            point = x[left] + delta
            hit, gradient = _look(model, point, label, left, covector, last=i == steps)
            best[left[hit]], flipped[left[hit]] = point[hit], True
            # Points that have flipped are done; the others continue.
            left, delta, gradient = left[~hit], delta[~hit], gradient[~hit]
            if len(left) == 0 or i == steps:
                best[left] = point[~hit]
                break
            step = steepest(gradient, norm) * (size * radius[left])[:, None].astype(x.dtype)
            delta = to_box(x[left], to_ball(delta - step, radius[left], norm), model.bounds)
        if flipped.all():
            break
    return AttackEnd(best, flipped)


def check_pgd(steps: int, step_size: float | None, restarts: int) -> None:
    """Refuse settings that attack nothing: a curve of them would read as robustness."""
    whole("steps", steps, least=1)
    whole("restarts", restarts, least=1)
    if step_size is not None and not (np.isfinite(step_size) and step_size > 0):
        raise InputError("step_size", f"is {step_size}", "give a positive share of the radius")


def first_guess(problem: AttackProblem) -> Float[ndarray, " n"]:
    """A radius to begin a bisection with: a hair below what is known, else what is typical."""
    known = problem.reached
    finite = known[np.isfinite(known)]
    typical = float(np.median(finite)) if len(finite) else 0.0
    return np.where(np.isfinite(known), known * 0.999, typical or np.abs(problem.x).max() or 1.0)


def _look(
    model: Model,
    point: Float[ndarray, "m D"],
    label: Int[ndarray, " n"],
    rows: Int[ndarray, " m"],
    covector: Covector,
    last: bool,
) -> tuple[ndarray, ndarray]:
    """Which points have flipped, and the gradient unless this was the last look."""
    if last:
        return model.margins(point, label[rows]) <= 0, np.zeros_like(point)
    outputs, gradient = model.pull(point, lambda f, at: covector(f, rows[at]))
    return model.flips(outputs, label[rows]), gradient


def _covector(model: Model, label: Int[ndarray, " n"], loss: str, own: Int[ndarray, " n"] | None) -> Covector:
    """What is to fall: the margin, or minus the cross-entropy."""
    if loss == "margin":
        every = np.full(len(label), -1)
        return lambda f, at: model.decision.objective(f, label[at], every[at])[1]
    if model.decision.groups is None:
        sign = np.where(label == 1, 1.0, -1.0)
        return lambda f, at: sign[at, None] * expit(-sign[at, None] * f)
    if own is None or own.shape != label.shape:
        raise InputError("own", "is missing", "give the label that the model was trained on")
    if own.min() < 0 or own.max() >= len(model.decision.groups):
        raise InputError("own", "is not an output number", f"0 to {len(model.decision.groups) - 1}")
    return lambda f, at: np.eye(f.shape[1])[own[at]] - softmax(f, axis=1)


def beginnings(
    x: Float[ndarray, "n D"],
    radius: Float[ndarray, " n"],
    norm: str,
    restarts: int,
    starts: Sequence[Float[ndarray, "n D"]],
    seed: int,
    random_start: bool = False,
) -> list[ndarray]:
    """No perturbation, the given directions at full radius, then random points of the ball."""
    draw = stream(seed, "pgd")
    begins = [] if random_start else [np.zeros_like(x)]
    for direction in starts:
        unit = direction / np.maximum(length(direction, norm), 1e-300)[:, None]
        begins.append((unit * radius[:, None]).astype(x.dtype))
    for _ in range(restarts if random_start else restarts - 1):
        step = draw.uniform(-1, 1, x.shape) if norm == "linf" else draw.standard_normal(x.shape)
        unit = step / length(step, norm)[:, None]
        # In l2 the volume is near the sphere, so the radius is drawn to its power D.
        share = np.ones(len(x)) if norm == "linf" else draw.random(len(x)) ** (1 / x.shape[1])
        begins.append((unit * (share * radius)[:, None]).astype(x.dtype))
    return begins


MOMENTUM = 0.75
# A step is halved when fewer than this share of the steps since the last check improved.
ENOUGH = 0.75


@dataclass(frozen=True, repr=False)
class APGD(_Bisected):
    """APGD on the margin of the decision, with bisection on the radius (see `apgd`).

    Attributes:
        steps: gradients per point, start and radius.
        rounds: radii tried.
        restarts: the first begins at x, later ones at random in the ball.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> fa.attack_suite(fa.network_model(net), [[3.0, 1.0]], [1], attacks=[fa.attacks.APGD()]).radii.round(3)
    array([1.414])
    """

    name: ClassVar[str] = "apgd"
    steps: int = 25
    restarts: int = 1

    def inside(self, problem: AttackProblem, radius: Float[ndarray, " n"]) -> AttackEnd:
        """APGD from x, then from random points of the ball."""
        asked = problem.model, problem.x, problem.label, radius, problem.norm
        return apgd(*asked, self.steps, self.restarts, problem.seed)


def apgd(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    radius: Float[ndarray, " n"],
    norm: str = "l2",
    steps: int = 100,
    restarts: int = 1,
    seed: int = 0,
) -> AttackEnd:
    r"""APGD (Croce and Hein 2020) inside the ball of each point's radius, on the margin h.

        z = P(delta_t - eta u_t),
        delta_{t+1} = P(delta_t + 3/4 (z - delta_t) + 1/4 (delta_t - delta_{t-1})),

    with u the steepest direction of grad h and P the projection on ball and box. The step eta
    begins at 2 radius. At checkpoints, ever closer together, it is halved, and the descent goes
    back to its best point, for points where less than three quarters of the steps have lowered h,
    or where neither eta nor the best h has changed since the last checkpoint.

    The margin is the loss of a decision between two scores. The "difference of logits ratio" of
    the paper divides it by a third logit, which a decision between two classes does not have, and
    a direction does not change by a division.

    Args:
        radius: of each point.
        steps: gradients per point and start.
        restarts: the first begins at x, later ones at random in the ball.
    """
    whole("steps", steps, least=1)
    whole("restarts", restarts, least=1)
    end = AttackEnd.nothing(x)
    for start in beginnings(x, radius, norm, restarts, (), seed):
        rows = np.flatnonzero(~end.flipped)
        if len(rows) == 0:
            break
        run = _descend(model, x[rows], label[rows], radius[rows], norm, steps, start[rows])
        end = end.put(rows, run)
    return end


def _descend(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    radius: Float[ndarray, " n"],
    norm: str,
    steps: int,
    start: Float[ndarray, "n D"],
) -> AttackEnd:
    """One start. Points that have flipped are done and cost nothing more."""
    end = AttackEnd.nothing(x)
    rows = np.arange(len(x))
    checkpoints = _checkpoints(steps)

    def inside(delta: ndarray) -> ndarray:
        return to_box(x[rows], to_ball(delta, radius[rows], norm), model.bounds)

    delta = inside(start)
    before, best = delta.copy(), delta.copy()
    eta, lowest, last = 2 * radius, np.full(len(x), np.inf), np.full(len(x), np.inf)
    lowest_then, eta_then = np.full(len(x), np.inf), 2 * radius
    improved, since = np.zeros(len(x), dtype=int), 0
    for step in range(steps):
        point = x[rows] + delta
        margin, value, gradient = model.descend(point, label[rows])
        hit = margin <= 0
        end.point[rows[hit]], end.flipped[rows[hit]] = point[hit], True
        if hit.any():
            rows, delta, before, best, value, gradient = (a[~hit] for a in (rows, delta, before, best, value, gradient))
        if len(rows) == 0:
            return end
        improved[rows] += value < last[rows]
        last[rows] = value
        better = value < lowest[rows]
        best[better], lowest[rows[better]] = delta[better], value[better]
        since += 1
        if step in checkpoints:
            few = improved[rows] < ENOUGH * since
            idle = (eta[rows] == eta_then[rows]) & (lowest[rows] == lowest_then[rows])
            halve = few | idle
            lowest_then[rows], eta_then[rows] = lowest[rows], eta[rows]
            eta[rows[halve]] /= 2
            improved[rows], since = 0, 0
            # The gradient is that of the point just left: after going back, one step is blunt.
            delta[halve], before[halve] = best[halve], best[halve]
        u = steepest(gradient, norm) * eta[rows][:, None].astype(x.dtype)
        z = inside(delta - u)
        share = 1.0 if step == 0 else MOMENTUM
        moved = delta + share * (z - delta) + (1 - share) * (delta - before)
        before, delta = delta, inside(moved.astype(x.dtype))
    point = x[rows] + delta
    hit = model.margins(point, label[rows]) <= 0
    end.point[rows[hit]], end.flipped[rows[hit]] = point[hit], True
    return end


def _checkpoints(steps: int) -> set[int]:
    """Steps at which the step size is looked at: 22% first, then ever closer, at least 6%.

    >>> sorted(_checkpoints(100))
    [22, 41, 57, 70, 80, 87, 93, 99]
    """
    shares, gap = [0.22], 0.22
    while shares[-1] < 1:
        gap = max(gap - 0.03, 0.06)
        shares.append(shares[-1] + gap)
    return {round(share * steps) for share in shares if share < 1}
