r"""A lower bound of a functional of a network over a ball, which knows that neurons share the ball.

Chords bound every neuron by itself: all of them may then be at their worst at once, which no point of
an l2 ball allows. Here the first layer is bounded by parabolas instead. With t = z + W u,

    a phi(t) >= a s t                                      a >= 0, any s in [leak, 1],
    a phi(t) >= a (1 + leak)/2 t - w (A t^2 + B t + C)     a < 0, w = -a (1 - leak)/2,

where C = max { |t| - A t^2 - B t : lo <= t <= hi }, for any A > 0 and B. The layers behind the first
are bounded by lines (see `linear_bounds`), and imposed signs enter with multipliers beta >= 0, so that
on the part of the ball |u| <= radius

    functional >= L(u) = constant + linear . u - sum_r w_r A_r t_r^2 + lambda (|u|^2 - radius^2)

for any lambda >= 0. If lambda I >= sum_r w_r A_r W_r W_r^T then L is convex and has a least value in
closed form, a concave function of (lambda, A, B, s, beta) together: it is the dual of the semidefinite
relaxation (Raghunathan, Steinhardt and Liang 2018), solved here by gradient ascent in the Gram matrix
of the first layer. A bound holds for any values of the parameters, so nothing rests on the ascent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg import cho_solve

from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.layered_network import Layered

SMOOTH = 1e-4  # of a neuron's range: C is a maximum of two functions, rounded off at their meeting
CONVEX = 1e-8  # share of lambda by which L has to be convex: far above the rounding of the check
UNPRICED = -20.0  # log beta of a split that has no price yet


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball around a point, and what holds in it.

    Attributes:
        net: the network.
        gram: W W^T of its first layer.
        z: pre-activations of the first layer in the centre.
        radius: of the ball.
        lo, hi: bounds of the pre-activations of every layer in the ball.
        errors: for every layer, the rounding errors of a bound of each pre-activation.
    """

    net: Layered
    gram: Float[ndarray, "m m"]
    z: Float[ndarray, " m"]
    radius: float
    lo: list[Float[ndarray, " _"]]
    hi: list[Float[ndarray, " _"]]
    errors: list[Float[ndarray, " _"]]


@dataclass(frozen=True, eq=False)
class Value:
    """The bound at some parameters.

    Attributes:
        bound: the least value of L, up to rounding; -inf where L is not convex.
        gradient: in the parameters.
        steps: L is least at u = steps . W, for the kept rows of W, plus `fixed` times the others.
        fixed: see `steps`.
        layers: for every hidden layer, the pre-activations of the relaxation there.
        gaps: for every hidden layer, what the relaxation of each neuron loses there.
        slopes: for every hidden layer, the slope of the relaxation in each pre-activation there.
    """

    bound: float
    gradient: Float[ndarray, " n"]
    steps: Float[ndarray, " k"]
    fixed: float
    layers: list[Float[ndarray, " _"]]
    gaps: list[Float[ndarray, " _"]]
    slopes: list[Float[ndarray, " _"]]


@dataclass(frozen=True, eq=False)
class _Backward:
    """The functional, bounded by lines down to the first hidden layer.

    It is constant + on_hidden[0] . phi(t) + direct . t there.
    """

    constant: float
    on_hidden: list[Float[ndarray, " _"]]
    direct: Float[ndarray, " m"]
    prices: Float[ndarray, " q"]
    mixture: Float[ndarray, " p"]


@dataclass(frozen=True, eq=False)
class _Parabolas:
    """A t^2 + B t + C, above |t| between the bounds of each neuron."""

    a: Float[ndarray, " k"]
    b: Float[ndarray, " k"]
    c: Float[ndarray, " k"]
    c_in_a: Float[ndarray, " k"]
    c_in_b: Float[ndarray, " k"]


@dataclass(frozen=True, eq=False)
class _Form:
    """L(u) = constant + linear . t + rest . t_rest - weight . t^2 + lambda (|u|^2 - radius^2)."""

    constant: float
    linear: Float[ndarray, " k"]
    rest: Float[ndarray, " _"]
    weight: Float[ndarray, " k"]  # w A, zero where there is no parabola
    multiplier: float
    concave: Float[ndarray, " k"]  # w
    lower: Float[ndarray, " k"]  # s, or the slope of a decided neuron
    parabolas: _Parabolas


class BallBound:
    """The bound of a mixture of rows . z_layer + shifts on a part of the ball.

    If all of them were at most zero somewhere, so were every mixture: a positive bound excludes it.

    Parameters are one vector: log lambda; log A, B and the logit of s for every kept neuron of the
    first layer; the logits of s of the other hidden layers; weights of the mixture before a softmax;
    log beta of every split, the newest last, so that a child has its parent's and one more.

    Args:
        ball: the ball.
        layer: where the functional is read off, counted from 0; the outputs are the last.
        rows, shifts: the inequalities.
        splits: imposed signs of neurons.
    """

    def __init__(
        self,
        ball: Ball,
        layer: int,
        rows: Float[ndarray, "p c"],
        shifts: Float[ndarray, " p"],
        splits: Sequence[Split] = (),
    ) -> None:
        self.ball, self.layer, self.rows, self.shifts = ball, layer, rows, shifts
        self.splits = tuple(split for split in splits if split.layer < layer)
        # One functional right behind the first layer has the same slope in a neuron of known sign
        # throughout: all of these are then one fixed vector.
        asked = (ball.lo[0] < 0) & (ball.hi[0] > 0) | (layer > 1) | (len(rows) > 1)
        self.kept, self.rest = np.flatnonzero(asked), np.flatnonzero(~asked)
        self.gram = ball.gram[np.ix_(self.kept, self.kept)]
        self.lo, self.hi = list(ball.lo[:layer]), list(ball.hi[:layer])
        for split in self.splits:
            ends = self.hi if split.side > 0 else self.lo
            ends[split.layer] = ends[split.layer].copy()
            ends[split.layer][split.neuron] = 0.0
        self._lines()
        sizes = [1, *[len(self.kept)] * 3, *(len(low) for low in self.lo[1:])]
        self.ends = np.cumsum([*sizes, len(rows), len(self.splits)])
        self._product: tuple[ndarray, ndarray, float] | None = None

    def _lines(self) -> None:
        """Which signs are open, the slopes of the others, and chords."""
        leak = self.ball.net.leak
        self.open, self.decided, self.chord, self.offset = [], [], [], []
        for low, high in zip(self.lo, self.hi, strict=True):
            undecided = (low < 0) & (high > 0)
            decided = np.where(low >= 0, 1.0, leak)
            width = np.where(undecided, high - low, 1.0)
            chord = np.where(undecided, (high - leak * low) / width, decided)
            self.open.append(undecided)
            self.decided.append(decided)
            self.chord.append(chord)
            self.offset.append(np.where(undecided, high * (1.0 - chord), 0.0))
        self.low, self.high = self.lo[0][self.kept], self.hi[0][self.kept]
        self.z = self.ball.z[self.kept]

    def start(self) -> Float[ndarray, " n"]:
        """Parabolas that touch |t| where neurons typically are, and lambda well above its least."""
        ball = self.ball
        outputs = ball.net.forward(ball.z)
        logits = [
            np.clip(4.0 * outputs[i] / np.where(self.open[i], self.hi[i] - self.lo[i], 1.0), -4, 4)
            for i in range(self.layer)
        ]
        size = np.maximum(np.abs(self.z), 0.15 * (self.high - self.low))
        parts = [-np.log(2.0 * np.maximum(size, 1e-300)), np.zeros_like(size), logits[0][self.kept]]
        tail = [np.zeros(len(self.rows)), np.full(len(self.splits), UNPRICED)]
        theta = np.concatenate([np.zeros(1), *parts, *logits[1:], *tail])
        weight = self._form(self._back(theta), theta).weight
        # Where parabolas are flat, lambda is what the linear part asks for, roughly.
        least = 1e-3 * float(weight @ np.diag(self.gram)) + 1e-9 / ball.radius**2
        theta[0] = math.log(max(1.3 * _largest(weight, self.gram), least))
        return theta

    def child(
        self, theta: Float[ndarray, " n"], value: Value, split: Split
    ) -> tuple[BallBound, Float[ndarray, " n"]]:
        """The part with one more sign imposed, and its parent's parameters with a price for it.

        The price keeps the slope in the split neuron's pre-activation what it was, where that is
        possible: then L is least where it was.
        """
        bound = BallBound(self.ball, self.layer, self.rows, self.shifts, (*self.splits, split))
        number, neuron = split.layer, split.neuron
        on_h = self._back(theta).on_hidden[number][neuron]
        own = on_h * bound.decided[number][neuron]
        price = split.side * (float(value.slopes[number][neuron]) - own)
        return bound, np.append(theta, math.log(max(price, 1e-4 * abs(on_h), 1e-9)))

    def _parts(self, theta: Float[ndarray, " n"]) -> list[ndarray]:
        return np.split(theta, self.ends[:-1])

    def _back(self, theta: Float[ndarray, " n"]) -> _Backward:
        """The functional, bounded by lines down to the first hidden layer."""
        net, parts = self.ball.net, self._parts(theta)
        prices, mixture = np.exp(parts[-1]), _softmax(parts[-2])
        imposed = {number: np.zeros(len(self.lo[number])) for number in range(self.layer)}
        for price, split in zip(prices, self.splits, strict=True):
            imposed[split.layer][split.neuron] += split.side * price
        g, constant, extra = mixture @ self.rows, float(mixture @ self.shifts), 0.0
        on_hidden: list[ndarray] = [np.zeros(0)] * self.layer
        for number in range(self.layer - 1, -1, -1):
            constant += float(g @ net.biases[number])
            on_h = g @ net.weights[number] + extra
            on_hidden[number] = on_h
            if number:
                slope, falling = self._slope(number, parts[3 + number], on_h)
                constant += float(np.where(falling, on_h, 0.0) @ self.offset[number])
                g = on_h * slope + imposed[number]
            extra = on_h if net.skips[number] else 0.0
        return _Backward(constant, on_hidden, imposed[0], prices, mixture)

    def _slope(self, number: int, logits: ndarray, on_h: ndarray) -> tuple[ndarray, ndarray]:
        """The slope of the line that stands for each neuron, and which are chords."""
        falling = (on_h < 0) & self.open[number]
        lower = np.where(
            self.open[number], _between(self.ball.net.leak, logits), self.decided[number]
        )
        return np.where(falling, self.chord[number], lower), falling

    def _form(self, back: _Backward, theta: Float[ndarray, " n"]) -> _Form:
        """L, from the functional at the first hidden layer."""
        leak, kept, rest = self.ball.net.leak, self.kept, self.rest
        parts = self._parts(theta)
        on_h, undecided = back.on_hidden[0][kept], self.open[0][kept]
        parabolas = self._parabolas(np.exp(parts[1]), parts[2])
        falling = (on_h < 0) & undecided
        concave = np.where(falling, -0.5 * (1.0 - leak) * on_h, 0.0)
        lower = np.where(undecided, _between(leak, parts[3]), self.decided[0][kept])
        linear = on_h * np.where(falling, 0.5 * (1.0 + leak), lower) - concave * parabolas.b
        return _Form(
            back.constant - float(concave @ parabolas.c),
            linear + back.direct[kept],
            back.on_hidden[0][rest] * self.decided[0][rest],
            concave * parabolas.a,
            math.exp(parts[0][0]),
            concave,
            lower,
            parabolas,
        )

    def _parabolas(self, a: ndarray, b: ndarray) -> _Parabolas:
        """C is the largest |t| - A t^2 - B t between the bounds: on either side of zero a clipped
        vertex. The larger of the two values is rounded off upwards, so that C has a derivative.
        """
        right = np.clip((1.0 - b) / (2.0 * a), 0.0, np.maximum(self.high, 0.0))
        left = np.clip(-(1.0 + b) / (2.0 * a), np.minimum(self.low, 0.0), 0.0)
        c_right = (1.0 - b) * right - a * right**2
        c_left = -(1.0 + b) * left - a * left**2
        difference = c_right - c_left
        root = np.sqrt(difference**2 + (SMOOTH * (self.high - self.low)) ** 2) + 1e-300
        share = 0.5 * (1.0 + difference / root)
        return _Parabolas(
            a,
            b,
            0.5 * (c_right + c_left + root),
            -(share * right**2 + (1.0 - share) * left**2),
            -(share * right + (1.0 - share) * left),
        )

    def _fixed(self, rest: Float[ndarray, " _"]) -> tuple[Float[ndarray, " k"], float]:
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

    def value(self, theta: Float[ndarray, " n"]) -> Value | None:
        """The bound and its gradient; None where L is not convex.

        With S = W^T diag(weight) W and b the slope of L at zero, u = -(lambda - S)^-1 b / 2, and by
        Woodbury's identity only a matrix as large as there are parabolas is inverted.
        """
        back = self._back(theta)
        form = self._form(back, theta)
        multiplier, radius = form.multiplier, self.ball.radius
        curved = np.flatnonzero(form.weight)
        root = np.sqrt(form.weight[curved])
        scaled = root[:, None] * self.gram[np.ix_(curved, curved)] * root
        factor = _factor(multiplier, scaled)
        if factor is None:
            return None
        cross, square = self._fixed(form.rest)
        slope = form.linear - 2.0 * form.weight * self.z
        y = cho_solve((factor, True), root * (self.gram[curved] @ slope + cross[curved]))
        steps = slope.copy()
        steps[curved] += root * y
        steps *= -0.5 / multiplier
        fixed = -0.5 / multiplier
        moved = self.gram @ steps + fixed * cross  # W u
        along = float(cross @ steps) + fixed * square  # v . u
        length = float(steps @ moved) + fixed * along  # |u|^2
        z_rest = self.ball.z[self.rest]
        constant = form.constant + float(form.linear @ self.z + form.rest @ z_rest)
        constant -= float(form.weight @ self.z**2) + multiplier * radius**2
        bound = constant + 0.5 * (float(slope @ moved) + along)
        return self._whole(theta, back, form, bound, length, steps, fixed, self.z + moved)

    def _whole(
        self,
        theta: Float[ndarray, " n"],
        back: _Backward,
        form: _Form,
        bound: float,
        length: float,
        steps: Float[ndarray, " k"],
        fixed: float,
        t: Float[ndarray, " k"],
    ) -> Value:
        """The derivatives at the point where L is least: those of L there, u being held."""
        net, parts, shape = self.ball.net, self._parts(theta), form.parabolas
        leak, on_h, undecided = net.leak, back.on_hidden[0][self.kept], self.open[0][self.kept]
        falling = form.concave > 0
        above = shape.a * t**2 + shape.b * t + shape.c
        relaxed = np.where(
            falling, 0.5 * (1.0 + leak) * t + 0.5 * (1.0 - leak) * above, form.lower * t
        )
        inner = -form.concave * (2.0 * shape.a * t + shape.b) + on_h * np.where(
            falling, 0.5 * (1.0 + leak), form.lower
        )
        rises = np.where(undecided & ~falling, on_h * t, 0.0)
        gradient = [
            np.array([form.multiplier * (length - self.ball.radius**2)]),
            -form.concave * (t**2 + shape.c_in_a) * shape.a,
            -form.concave * (t + shape.c_in_b),
            rises * _between_slope(leak, parts[3]),
        ]
        m = len(self.ball.z)
        gaps, slopes, layers = [np.zeros(m)], [np.zeros(m)], [self.ball.z.copy()]
        gaps[0][self.kept] = np.where(undecided, self._lost(on_h, form, t), 0.0)
        slopes[0][self.kept], layers[0][self.kept] = inner + back.direct[self.kept], t
        hidden = relaxed
        for number in range(1, self.layer):
            # Here every neuron of the first layer is kept.
            z = net.weights[number - 1] @ hidden + net.biases[number - 1]
            on_h = back.on_hidden[number]
            slope, chords = self._slope(number, parts[3 + number], on_h)
            value = slope * z + np.where(chords, self.offset[number], 0.0)
            rises = np.where(self.open[number] & ~chords, on_h * z, 0.0)
            gradient.append(rises * _between_slope(leak, parts[3 + number]))
            inside = np.clip(z, self.lo[number], self.hi[number])
            lost = slope * inside + np.where(chords, self.offset[number], 0.0) - net.phi(inside)
            gaps.append(np.where(self.open[number], np.abs(on_h * lost), 0.0))
            slopes.append(on_h * slope)
            layers.append(z)
            hidden = value + hidden if net.skips[number] else value
        gradient.append(self._mixing(back.mixture, hidden))
        splits = [split.side * layers[split.layer][split.neuron] for split in self.splits]
        gradient.append(np.array(splits) * back.prices)
        return Value(bound, np.concatenate(gradient), steps, fixed, layers, gaps, slopes)

    def _lost(self, on_h: ndarray, form: _Form, t: ndarray) -> Float[ndarray, " k"]:
        """What the relaxation of each kept neuron loses at t, or at the nearest t that it can have.

        Where L is hardly convex, t may be anywhere: that says nothing about a neuron.
        """
        inside, shape = np.clip(t, self.low, self.high), form.parabolas
        above = shape.a * inside**2 + shape.b * inside + shape.c - np.abs(inside)
        below = self.ball.net.phi(inside) - form.lower * inside
        return np.where(form.concave > 0, form.concave * above, np.abs(on_h) * below)

    def _mixing(
        self, mixture: Float[ndarray, " p"], hidden: Float[ndarray, " _"]
    ) -> Float[ndarray, " p"]:
        """The derivative in the weights of the mixture: none if there is one inequality only."""
        if len(mixture) == 1:
            return np.zeros(1)
        net, below = self.ball.net, self.layer - 1
        values = self.rows @ (net.weights[below] @ hidden + net.biases[below]) + self.shifts
        return np.asarray(mixture * (values - mixture @ values))

    def step(self, value: Value, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
        """Where L is least, in the coordinates of the ball."""
        rows, rest = self.ball.net.rows, self._form(self._back(theta), theta).rest
        return np.asarray(value.steps @ rows[self.kept] + value.fixed * (rest @ rows[self.rest]))

    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged; -inf where L is not safely convex.

        L is evaluated plainly at a point u that need not be the least one: as L is convex, it is
        nowhere in the ball lower than L(u) - |L'(u)| (radius + |u|).
        """
        # An ascent may end on the edge of convexity; this far inside it the check is not in doubt.
        theta = theta.copy()
        theta[0] += 4.0 * CONVEX
        value = self.value(theta)
        back = self._back(theta)
        form, ball = self._form(back, theta), self.ball
        curved = np.flatnonzero(form.weight)
        root = np.sqrt(form.weight[curved])
        scaled = root[:, None] * self.gram[np.ix_(curved, curved)] * root
        if value is None or _factor(form.multiplier * (1.0 - CONVEX), scaled) is None:
            return -math.inf
        rows, rest = ball.net.rows[self.kept], form.rest @ ball.net.rows[self.rest]
        u = value.steps @ rows + value.fixed * rest
        t = self.z + rows @ u
        length = math.sqrt(u @ u)
        lowest = (
            form.constant
            + float(form.linear @ t - form.weight @ t**2)
            + float(form.rest @ ball.z[self.rest] + rest @ u)
            + form.multiplier * (length - ball.radius) * (length + ball.radius)
        )
        slope = (form.linear - 2.0 * form.weight * t) @ rows + rest + 2.0 * form.multiplier * u
        spread = math.sqrt(slope @ slope) * (ball.radius + length)
        return lowest - spread - self._rounding(back, form, length)

    def _rounding(self, back: _Backward, form: _Form, length: float) -> float:
        """How far the numbers of `proven` may be off: sums of products, and the parabolas."""
        ball, shape = self.ball, form.parabolas
        charged = float(back.mixture @ (np.abs(self.rows) @ ball.errors[self.layer]))
        charged += float(back.mixture @ np.abs(self.shifts)) * ball.net.error
        for price, split in zip(back.prices, self.splits, strict=True):
            charged += price * float(ball.errors[split.layer][split.neuron])
        farthest = np.maximum(np.abs(self.low), np.abs(self.high)) + length * np.sqrt(
            np.diag(self.gram)
        )
        sizes = shape.a * farthest**2 + (1.0 + np.abs(shape.b)) * farthest + np.abs(shape.c)
        charged += ball.net.error * float(form.concave @ sizes)
        return charged + ball.net.error * form.multiplier * (length + ball.radius) ** 2


def _factor(multiplier: float, scaled: Float[ndarray, "n n"]) -> ndarray | None:
    """Cholesky's factor of multiplier - scaled; None if that is not positive definite."""
    matrix = -scaled
    matrix[np.diag_indices_from(matrix)] += multiplier
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return None


def _largest(weight: Float[ndarray, " k"], gram: Float[ndarray, "k k"]) -> float:
    """The largest eigenvalue of W^T diag(weight) W."""
    curved = np.flatnonzero(weight)
    if not len(curved):
        return 0.0
    root = np.sqrt(weight[curved])
    scaled = root[:, None] * gram[np.ix_(curved, curved)] * root
    return float(np.linalg.eigvalsh(scaled)[-1])


def _softmax(weights: ndarray) -> ndarray:
    e = np.exp(weights - weights.max())
    return np.asarray(e / e.sum())


def _between(leak: float, logits: ndarray) -> ndarray:
    """A slope between the leak and 1."""
    return np.asarray(leak + (1.0 - leak) / (1.0 + np.exp(-logits)))


def _between_slope(leak: float, logits: ndarray) -> ndarray:
    """Its derivative."""
    share = 1.0 / (1.0 + np.exp(-logits))
    return np.asarray((1.0 - leak) * share * (1.0 - share))
