r"""A joint bound of one hidden layer over an l2 ball: its neurons cannot all be at their worst.

L of `ShallowForm` is convex if lambda I >= sum_r w_r A_r W_r W_r^T, and has then a least value in closed
form, a concave function of (lambda, A, B, s, beta) together: it is the dual of the semidefinite
relaxation (Raghunathan, Steinhardt and Liang 2018), solved here by gradient ascent in the Gram matrix
of the first layer, which may be wide. A bound holds for any values of the parameters, so nothing rests
on the ascent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import cho_solve

from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.sdp import SdpBound, SdpValue
from featavg.robustness.exact.deep.shallow_sdp_form import (
    Form,
    Functional,
    ShallowForm,
    between_slope,
)

CONVEX = 1e-8  # share of lambda by which L has to be convex: far above the rounding of the check
UNPRICED = -20.0  # log beta of a split that has no price yet


@dataclass(frozen=True, eq=False)
class ShallowValue(SdpValue):
    """The bound at some parameters; `height` is the bound itself.

    Attributes:
        steps: L is least at u = steps . W, for the kept rows of W, plus `fixed` times the others.
        fixed: see `steps`.
        slopes: the slope of the relaxation in each pre-activation there.
    """

    steps: Float[ndarray, " k"]
    fixed: float
    slopes: Float[ndarray, " m"]


class ShallowBound(SdpBound):
    """The bound for a network with one hidden layer: the least value of L."""

    def _prepare(self) -> None:
        self.form = ShallowForm(self.ball, self.rows, self.shifts, self.splits)

    def start(self) -> Float[ndarray, " n"]:
        """Parabolas that touch |t| where neurons typically are, and lambda well above its least."""
        form = self.form
        width = np.where(form.open[form.kept], form.high - form.low, 1.0)
        logits = np.clip(4.0 * form.z / width, -4, 4)
        size = np.maximum(np.abs(form.z), 0.15 * (form.high - form.low))
        parts = [-np.log(2.0 * np.maximum(size, 1e-300)), np.zeros_like(size), logits]
        tail = [np.zeros(len(self.rows)), np.full(len(self.splits), UNPRICED)]
        theta = np.concatenate([np.zeros(1), *parts, *tail])
        made = form.form(form.functional(theta), theta)
        _, _, scaled = form.curvature(made)
        largest = float(np.linalg.eigvalsh(scaled)[-1]) if len(scaled) else 0.0
        # Where parabolas are flat, lambda is what the linear part asks for, roughly.
        least = 1e-3 * float(made.weight @ np.diag(form.gram)) + 1e-9 / self.ball.radius**2
        theta[0] = math.log(max(1.3 * largest, least))
        return theta

    def child(
        self, theta: Float[ndarray, " n"], value: ShallowValue, split: Split
    ) -> tuple[ShallowBound, Float[ndarray, " n"]]:
        """The part with one more sign imposed, and its parent's parameters with a price for it.

        The price keeps the slope in the split neuron's pre-activation what it was, where that is
        possible: then L is least where it was.
        """
        bound = ShallowBound(self.ball, self.rows, self.shifts, (*self.splits, split))
        on_h = self.form.functional(theta).on_hidden[split.neuron]
        own = on_h * bound.form.decided[split.neuron]
        price = split.side * (float(value.slopes[split.neuron]) - own)
        return bound, np.append(theta, math.log(max(price, 1e-4 * abs(on_h), 1e-9)))

    def levels(self) -> list[Callable[[Float[ndarray, " n"]], ShallowValue | None]]:
        """The bound itself is what an ascent raises."""
        return [self.value]

    def value(self, theta: Float[ndarray, " n"]) -> ShallowValue | None:
        """The bound and its gradient; None where L is not convex.

        With S = W^T diag(weight) W and b the slope of L at zero, u = -(lambda - S)^-1 b / 2, and by
        Woodbury's identity only a matrix as large as there are parabolas is inverted.
        """
        form, radius = self.form, self.ball.radius
        functional = form.functional(theta)
        made = form.form(functional, theta)
        multiplier, z = made.multiplier, form.z
        curved, root, scaled = form.curvature(made)
        factor = _factor(multiplier, scaled)
        if factor is None:
            return None
        cross, square = form.fixed(made.rest)
        slope = made.linear - 2.0 * made.weight * z
        y = cho_solve((factor, True), root * (form.gram[curved] @ slope + cross[curved]))
        steps = slope.copy()
        steps[curved] += root * y
        steps *= -0.5 / multiplier
        fixed = -0.5 / multiplier
        moved = form.gram @ steps + fixed * cross  # W u
        along = float(cross @ steps) + fixed * square  # v . u
        length = float(steps @ moved) + fixed * along  # |u|^2
        constant = made.constant + float(made.linear @ z + made.rest @ self.ball.z[form.rest])
        constant -= float(made.weight @ z**2) + multiplier * radius**2
        bound = constant + 0.5 * (float(slope @ moved) + along)
        return self._whole(theta, functional, made, bound, length, steps, fixed, z + moved)

    def _whole(
        self,
        theta: Float[ndarray, " n"],
        functional: Functional,
        made: Form,
        bound: float,
        length: float,
        steps: Float[ndarray, " k"],
        fixed: float,
        t: Float[ndarray, " k"],
    ) -> ShallowValue:
        """The derivatives at the point where L is least: those of L there, u being held."""
        form, leak, shape = self.form, self.ball.net.leak, made.parabolas
        on_h, undecided = functional.on_hidden[form.kept], form.open[form.kept]
        falling, half = made.concave > 0, 0.5 * (1.0 + leak)
        inner = on_h * np.where(falling, half, made.lower)
        inner -= made.concave * (2.0 * shape.a * t + shape.b)
        relaxed = np.where(falling, half * t + 0.5 * (1.0 - leak) * shape(t), made.lower * t)
        rises = np.where(undecided & ~falling, on_h * t, 0.0)
        m = len(self.ball.z)
        gaps, slopes, layer = np.zeros(m), np.zeros(m), self.ball.z.copy()
        gaps[form.kept] = np.where(undecided, self._lost(on_h, made, t), 0.0)
        slopes[form.kept], layer[form.kept] = inner + functional.direct[form.kept], t
        signs = [split.side * layer[split.neuron] for split in self.splits]
        gradient = [
            np.array([made.multiplier * (length - self.ball.radius**2)]),
            -made.concave * (t**2 + shape.c_in_a) * shape.a,
            -made.concave * (t + shape.c_in_b),
            rises * between_slope(leak, form.parts(theta)[3]),
            self._mixing(functional.mixture, relaxed),
            np.array(signs) * functional.prices,
        ]
        return ShallowValue(bound, bound, np.concatenate(gradient), [gaps], steps, fixed, slopes)

    def _lost(self, on_h: ndarray, made: Form, t: ndarray) -> Float[ndarray, " k"]:
        """What the relaxation of each kept neuron loses at t, or at the nearest t that it can have.

        Where L is hardly convex, t may be anywhere: that says nothing about a neuron.
        """
        inside = np.clip(t, self.form.low, self.form.high)
        above = made.parabolas(inside) - np.abs(inside)
        below = self.ball.net.phi(inside) - made.lower * inside
        return np.where(made.concave > 0, made.concave * above, np.abs(on_h) * below)

    def _mixing(
        self, mixture: Float[ndarray, " p"], hidden: Float[ndarray, " _"]
    ) -> Float[ndarray, " p"]:
        """The derivative in the weights of the mixture: none if there is one inequality only."""
        if len(mixture) == 1:
            return np.zeros(1)
        net = self.ball.net
        values = self.rows @ (net.weights[0] @ hidden + net.biases[0]) + self.shifts
        return np.asarray(mixture * (values - mixture @ values))

    def step(self, value: ShallowValue, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
        """Where L is least, in the coordinates of the ball."""
        form, rows = self.form, self.ball.net.rows
        rest = form.form(form.functional(theta), theta).rest
        return np.asarray(value.steps @ rows[form.kept] + value.fixed * (rest @ rows[form.rest]))

    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged; -inf where L is not safely convex.

        L is evaluated plainly at a point u that need not be the least one: as L is convex, it is
        nowhere in the ball lower than L(u) - |L'(u)| (radius + |u|).
        """
        # An ascent may end on the edge of convexity; this far inside it the check is not in doubt.
        theta = theta.copy()
        theta[0] += 4.0 * CONVEX
        value, form, ball = self.value(theta), self.form, self.ball
        functional = form.functional(theta)
        made = form.form(functional, theta)
        _, _, scaled = form.curvature(made)
        if value is None or _factor(made.multiplier * (1.0 - CONVEX), scaled) is None:
            return -math.inf
        rows, rest = ball.net.rows[form.kept], made.rest @ ball.net.rows[form.rest]
        u = value.steps @ rows + value.fixed * rest
        t = form.z + rows @ u
        length = math.sqrt(u @ u)
        lowest = (
            made.constant
            + float(made.linear @ t - made.weight @ t**2)
            + float(made.rest @ ball.z[form.rest] + rest @ u)
            + made.multiplier * (length - ball.radius) * (length + ball.radius)
        )
        slope = (made.linear - 2.0 * made.weight * t) @ rows + rest + 2.0 * made.multiplier * u
        spread = math.sqrt(slope @ slope) * (ball.radius + length)
        return lowest - spread - self._rounding(functional, made, length)

    def _rounding(self, functional: Functional, made: Form, length: float) -> float:
        """How far the numbers of `proven` may be off: sums of products, and the parabolas."""
        ball, form, shape = self.ball, self.form, made.parabolas
        charged = float(functional.mixture @ (np.abs(self.rows) @ ball.errors[1]))
        charged += float(functional.mixture @ np.abs(self.shifts)) * ball.net.error
        for price, split in zip(functional.prices, self.splits, strict=True):
            charged += price * float(ball.errors[0][split.neuron])
        farthest = np.maximum(np.abs(form.low), np.abs(form.high))
        farthest = farthest + length * np.sqrt(np.diag(form.gram))
        sizes = shape.a * farthest**2 + (1.0 + np.abs(shape.b)) * farthest + np.abs(shape.c)
        charged += ball.net.error * float(made.concave @ sizes)
        return charged + ball.net.error * made.multiplier * (length + ball.radius) ** 2


def _factor(multiplier: float, scaled: Float[ndarray, "n n"]) -> ndarray | None:
    """Cholesky's factor of multiplier - scaled; None if that is not positive definite."""
    matrix = -scaled
    matrix[np.diag_indices_from(matrix)] += multiplier
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None
