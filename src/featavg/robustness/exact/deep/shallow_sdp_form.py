r"""A functional of one hidden layer, bounded from below by a quadratic function of the step.

Chords bound every neuron by itself: all of them may then be at their worst at once, which no point of
an l2 ball allows. Here neurons are bounded by parabolas instead. With t = z + W u,

    a phi(t) >= a s t                                      a >= 0, any s in [leak, 1],
    a phi(t) >= a (1 + leak)/2 t - w (A t^2 + B t + C)     a < 0, w = -a (1 - leak)/2,

where C = max { |t| - A t^2 - B t : lo <= t <= hi }, for any A > 0 and B. Imposed signs enter with
multipliers beta >= 0, so that on the part of the ball |u| <= radius

    functional >= L(u) = constant + linear . u - sum_r w_r A_r t_r^2 + lambda (|u|^2 - radius^2)

for any lambda >= 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.deep.sdp import OnPart, imposed

SMOOTH = 1e-4  # of a neuron's range: C is a maximum of two functions, rounded off at their meeting


@dataclass(frozen=True, eq=False)
class Parabolas:
    """A t^2 + B t + C, above |t| between the bounds of each neuron, and the derivatives of C."""

    a: Float[ndarray, " k"]
    b: Float[ndarray, " k"]
    c: Float[ndarray, " k"]
    c_in_a: Float[ndarray, " k"]
    c_in_b: Float[ndarray, " k"]

    def __call__(self, t: Float[ndarray, "*n k"]) -> Float[ndarray, "*n k"]:
        """Their values."""
        return self.a * t**2 + self.b * t + self.c


def parabolas(
    a: Float[ndarray, " k"],
    b: Float[ndarray, " k"],
    low: Float[ndarray, " k"],
    high: Float[ndarray, " k"],
) -> Parabolas:
    """C is the largest |t| - A t^2 - B t between the bounds: on either side of zero a clipped vertex.

    The larger of the two values is rounded off upwards, so that C has a derivative.

    >>> one = np.ones(1)
    >>> parabolas(0.5 * one, 0.0 * one, -2.0 * one, 2.0 * one).c.round(3)
    array([0.5])
    """
    right = np.clip((1.0 - b) / (2.0 * a), 0.0, np.maximum(high, 0.0))
    left = np.clip(-(1.0 + b) / (2.0 * a), np.minimum(low, 0.0), 0.0)
    c_right = (1.0 - b) * right - a * right**2
    c_left = -(1.0 + b) * left - a * left**2
    difference = c_right - c_left
    root = np.sqrt(difference**2 + (SMOOTH * (high - low)) ** 2) + 1e-300
    share = 0.5 * (1.0 + difference / root)
    return Parabolas(
        a,
        b,
        0.5 * (c_right + c_left + root),
        -(share * right**2 + (1.0 - share) * left**2),
        -(share * right + (1.0 - share) * left),
    )


@dataclass(frozen=True, eq=False)
class Functional:
    """constant + on_hidden . phi(t) + direct . t: a mixture of inequalities, and prices of signs."""

    constant: float
    on_hidden: Float[ndarray, " m"]
    direct: Float[ndarray, " m"]
    prices: Float[ndarray, " q"]
    mixture: Float[ndarray, " p"]


@dataclass(frozen=True, eq=False)
class Form:
    """L(u) = constant + linear . t + rest . t_rest - weight . t^2 + lambda (|u|^2 - radius^2)."""

    constant: float
    linear: Float[ndarray, " k"]
    rest: Float[ndarray, " _"]
    weight: Float[ndarray, " k"]  # w A, zero where there is no parabola
    multiplier: float
    concave: Float[ndarray, " k"]  # w
    lower: Float[ndarray, " k"]  # s, or the slope of a decided neuron
    parabolas: Parabolas


class ShallowForm(OnPart):
    """L, for a mixture of rows . outputs + shifts on a part of the ball.

    Parameters are one vector: log lambda; log A, B and the logit of s for every kept neuron; weights
    of the mixture before a softmax; log beta of every split, the newest last, so that a child has
    its parent's and one more.
    """

    def _prepare(self) -> None:
        ball, rows, splits = self.ball, self.rows, self.splits
        # One functional has the same slope in a neuron of known sign throughout: all of these are
        # then one fixed vector.
        asked = (ball.lo[0] < 0) & (ball.hi[0] > 0) | (len(rows) > 1)
        self.kept, self.rest = np.flatnonzero(asked), np.flatnonzero(~asked)
        self.gram = ball.gram[np.ix_(self.kept, self.kept)]
        (lo,), (hi,) = imposed(ball, 1, splits)
        self.open = (lo < 0) & (hi > 0)
        self.decided = np.where(lo >= 0, 1.0, ball.net.leak)
        self.low, self.high, self.z = lo[self.kept], hi[self.kept], ball.z[self.kept]
        self.ends = np.cumsum([1, *[len(self.kept)] * 3, len(rows), len(splits)])
        self._product: tuple[ndarray, ndarray, float] | None = None

    def parts(self, theta: Float[ndarray, " n"]) -> list[ndarray]:
        """The parameters by kind."""
        return np.split(theta, self.ends[:-1])

    def functional(self, theta: Float[ndarray, " n"]) -> Functional:
        """What is bounded, at the hidden layer."""
        net, parts = self.ball.net, self.parts(theta)
        prices, mixture = np.exp(parts[-1]), softmax(parts[-2])
        direct = np.zeros(len(self.ball.z))
        for price, split in zip(prices, self.splits, strict=True):
            direct[split.neuron] += split.side * price
        g = mixture @ self.rows
        constant = float(mixture @ self.shifts + g @ net.biases[0])
        return Functional(constant, g @ net.weights[0], direct, prices, mixture)

    def form(self, functional: Functional, theta: Float[ndarray, " n"]) -> Form:
        """L, from the functional."""
        leak, kept, rest = self.ball.net.leak, self.kept, self.rest
        parts = self.parts(theta)
        on_h, undecided = functional.on_hidden[kept], self.open[kept]
        shape = parabolas(np.exp(parts[1]), parts[2], self.low, self.high)
        falling = (on_h < 0) & undecided
        concave = np.where(falling, -0.5 * (1.0 - leak) * on_h, 0.0)
        lower = np.where(undecided, between(leak, parts[3]), self.decided[kept])
        linear = on_h * np.where(falling, 0.5 * (1.0 + leak), lower) - concave * shape.b
        return Form(
            functional.constant - float(concave @ shape.c),
            linear + functional.direct[kept],
            functional.on_hidden[rest] * self.decided[rest],
            concave * shape.a,
            math.exp(parts[0][0]),
            concave,
            lower,
            shape,
        )

    def fixed(self, rest: Float[ndarray, " _"]) -> tuple[Float[ndarray, " k"], float]:
        """The products of v = rest . W with the kept rows, and with itself."""
        if not len(rest):
            return np.zeros(len(self.kept)), 0.0
        if self._product is None or not np.array_equal(self._product[0], rest):
            some = np.flatnonzero(rest)
            among, values = self.rest[some], rest[some]
            cross = self.ball.gram[np.ix_(self.kept, among)] @ values
            square = float(values @ self.ball.gram[np.ix_(among, among)] @ values)
            self._product = rest, cross, square
        return self._product[1], self._product[2]

    def curvature(self, form: Form) -> tuple[ndarray, ndarray, Float[ndarray, "c c"]]:
        """Which neurons have parabolas, the roots of their weights, and the matrix that they span."""
        curved = np.flatnonzero(form.weight)
        root = np.sqrt(form.weight[curved])
        return curved, root, root[:, None] * self.gram[np.ix_(curved, curved)] * root


def softmax(weights: ndarray) -> ndarray:
    """Positive numbers with sum one."""
    e = np.exp(weights - weights.max())
    return np.asarray(e / e.sum())


def between(leak: float, logits: ndarray) -> ndarray:
    """A slope between the leak and 1."""
    return np.asarray(leak + (1.0 - leak) / (1.0 + np.exp(-logits)))


def between_slope(leak: float, logits: ndarray) -> ndarray:
    """Its derivative."""
    share = 1.0 / (1.0 + np.exp(-logits))
    return np.asarray((1.0 - leak) * share * (1.0 - share))
