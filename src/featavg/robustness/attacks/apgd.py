"""APGD: projected gradient descent that chooses its own step size, as in AutoAttack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.attacks.attack import Attack, AttackProblem, positive_whole
from featavg.robustness.attacks.pgd import beginnings, first_guess, smallest_radius
from featavg.robustness.attacks.result import AttackEnd
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import steepest, to_ball, to_box

MOMENTUM = 0.75
# A step is halved when fewer than this share of the steps since the last check improved.
ENOUGH = 0.75


@dataclass(frozen=True, repr=False)
class APGD(Attack):
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
    rounds: int = 6
    restarts: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "rounds", "restarts"):
            positive_whole(name, getattr(self, name))

    def expected_gradients(self, budget: int) -> float:
        """All starts at all radii; those that flip stop early."""
        return self.steps * self.rounds * self.restarts

    def __call__(self, problem: AttackProblem) -> AttackEnd:
        """Bisect between radii where APGD flips and where it does not."""
        model, x, label, norm = problem.model, problem.x, problem.label, problem.norm
        return smallest_radius(
            lambda radius: apgd(
                model, x, label, radius, norm, self.steps, self.restarts, problem.seed
            ),
            problem,
            first_guess(problem),
            self.rounds,
        )


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
    positive_whole("steps", steps)
    positive_whole("restarts", restarts)
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
            rows, delta, before, best, value, gradient = (
                a[~hit] for a in (rows, delta, before, best, value, gradient)
            )
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
