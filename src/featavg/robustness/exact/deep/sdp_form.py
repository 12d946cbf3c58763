r"""A joint bound of a deep network's outputs over an l2 ball, as a quadratic form of few variables.

With the variables v of `Chain`, an open neuron below the last hidden layer adds a form that is nowhere
above zero on the graph of its activation (`sdp_chain`), an open neuron of the last one is
bounded from below by a parabola, and an imposed sign adds a form of its own, so that in the ball

    functional >= L(v) = constant + linear . v
        + sum_inner (p t^2 + q t a + m a^2 + d t + f a - C) + sum_outer (k t^2 + e t - C)
        + sum_held (k t^2 + e t - C) + lambda (|u|^2 - radius^2),     t = rows v + offsets,

for any lambda >= 0 and any p, q, m, d, f, k, e. Where L is convex it has a least value in closed form,
a concave function of all of them together: the dual of the semidefinite relaxation of all layers
(Raghunathan, Steinhardt and Liang 2018) with the bounds of every neuron. By the envelope theorem the
gradient is what the least point and the means over pieces disagree on, moment by moment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dpotrf, dpotrs

from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.sdp_chain import Ball, Tops, chain, tops
from featavg.robustness.exact.step_box import StepBox

SOFT = 1e-3  # of a neuron's price times its range: see `Tops`
CONVEX = 1e-8  # of the sizes in the matrix: far above the rounding of its sums and of its factor
CHARGED = 8.0  # times the relative error of a chain of products: squares, sums and slopes


@dataclass(frozen=True, eq=False)
class BoxTerms:
    """The form u^T matrix u + linear . u + constant that stands for the ball and the box.

    Attributes:
        box: where the steps are.
        basis: columns of an orthonormal basis in which u is written; none for all coordinates.
        shares: roots of mu over lambda.
        weights, slopes: the terms weights . s^2 + slopes . s in all coordinates.
        matrix, linear, constant: the form.
    """

    box: StepBox
    basis: Float[ndarray, "N r"]
    shares: Float[ndarray, " N"]
    weights: Float[ndarray, " N"]
    slopes: Float[ndarray, " N"]
    matrix: Float[ndarray, "r r"]
    linear: Float[ndarray, " r"]
    constant: float

    @classmethod
    def of(
        cls, box: StepBox, basis: Float[ndarray, "N r"], multiplier: float, shares: Float[ndarray, " N"]
    ) -> BoxTerms:
        """lambda (|s|^2 - radius^2) + sum_i mu_i (s_i - low_i) (s_i - high_i), mu = lambda shares^2."""
        mu = multiplier * shares**2
        weights, slopes = multiplier + mu, -mu * (box.low + box.high)
        constant = float(mu @ (box.low * box.high)) - multiplier * box.radius**2
        if not basis.size:
            return cls(box, basis, shares, weights, slopes, np.diag(weights), slopes, constant)
        # The least value over all steps with the same u = basis^T s: (u - v)^T K^-1 (u - v) + rest.
        scaled = basis / np.sqrt(weights)[:, None]
        inverse = np.linalg.inv(scaled.T @ scaled)
        v = -0.5 * (slopes / weights) @ basis
        constant += float(v @ inverse @ v) - 0.25 * float(slopes @ (slopes / weights))
        return cls(box, basis, shares, weights, slopes, inverse, -2.0 * inverse @ v, constant)

    def step(self, u: Float[ndarray, " r"]) -> Float[ndarray, " N"]:
        """The step in all coordinates at which the terms are least, given u."""
        if not self.basis.size:
            return u
        push = self.basis @ (2.0 * self.matrix @ u + self.linear)
        return np.asarray(0.5 * (push - self.slopes) / self.weights)

    def gradient(self, u: Float[ndarray, " r"], multiplier: float) -> tuple[float, Float[ndarray, " N"]]:
        """The derivatives of the form at u, in log lambda and in the shares."""
        s, box = self.step(u), self.box
        terms = (s - box.low) * (s - box.high)
        first = float(s @ s) - box.radius**2 + float(self.shares**2 @ terms)
        return multiplier * first, 2.0 * multiplier * self.shares * terms

    def curving(self, inverse: Float[ndarray, "r r"], multiplier: float) -> tuple[float, Float[ndarray, " N"]]:
        """The derivatives of trace(inverse matrix), the inverse being held."""
        around = self.matrix @ inverse @ self.matrix
        each = np.einsum("nr,nr->n", self.basis @ around, self.basis) / self.weights**2
        return float(each @ self.weights), 2.0 * multiplier * self.shares * each


@dataclass(frozen=True, eq=False)
class Terms:
    """The coefficients of L: `square` and `line` of all neurons, inner ones first, then outer, held."""

    multiplier: float
    square: Float[ndarray, " n"]
    line: Float[ndarray, " n"]
    cross: Float[ndarray, " i"]  # q
    own: Float[ndarray, " i"]  # m
    tilt: Float[ndarray, " i"]  # f
    mixture: Float[ndarray, " p"]
    on_last: Float[ndarray, " m"]  # of the last hidden layer's activations
    box: BoxTerms | None = None


class Form:
    """L, for inequalities rows . outputs + shifts <= 0 on the part of a ball with these signs imposed.

    If all of them held somewhere, so would every mixture: a positive bound of one excludes it.

    Parameters are one vector: log lambda; p, q, m, d, f of inner neurons; k, e of outer ones; k, e of
    held ones; weights of the mixture before a softmax; roots of the box's multipliers over lambda. Those
    of neurons are in units of a neuron's price (what a unit of its activation is worth) and its range.
    """

    def __init__(
        self, ball: Ball, rows: Float[ndarray, "p c"], shifts: Float[ndarray, " p"], splits: Sequence[Split] = ()
    ) -> None:
        self.ball, self.rows, self.shifts, self.splits = ball, rows, shifts, tuple(splits)
        self.chain = chain(self.ball, self.ball.net.hidden, self.splits)
        inner, outer, held = self.chain.inner, self.chain.outer, self.chain.held
        self.inner, self.outer, self.held = inner, outer, held
        self.all_rows = np.concatenate([inner.rows, outer.rows, held.rows])
        self.offsets = np.concatenate([inner.offsets, outer.offsets, held.offsets])
        self.layer = np.concatenate([inner.layer, outer.layer, held.layer])
        self.number = np.concatenate([inner.number, outer.number, held.number])
        self.ends = np.cumsum([1, *[len(inner)] * 5, *[len(outer)] * 2, *[len(held)] * 2])
        self.ends = np.append(self.ends, self.ends[-1] + len(self.rows))
        self._measure()

    def _measure(self) -> None:
        """Units of the parameters: the same for a part and for what it is split from."""
        prices, widths = _prices(self.ball, np.abs(self.rows).mean(axis=0))
        pairs = zip(self.layer, self.number, strict=True)
        units = np.array([(prices[a][b], widths[a][b]) for a, b in pairs]).reshape(-1, 2)
        price, width = units[:, 0], np.maximum(units[:, 1], 1e-300)
        self.price, self.soft = price, SOFT * price * width
        a, b = len(self.inner), len(self.inner) + len(self.outer)
        bent, flat = price / width, price
        parts = [*[bent[:a]] * 3, *[flat[:a]] * 2, bent[a:b], flat[a:b], bent[b:], flat[b:]]
        box = 0 if self.ball.box is None else len(self.ball.box.low)
        self.units = np.concatenate([np.ones(1), *parts, np.ones(len(self.rows) + box)])

    def terms(self, theta: Float[ndarray, " n"]) -> Terms:
        """The coefficients that these parameters stand for."""
        parts = np.split(theta * self.units, self.ends)
        p, q, m, d, f, k, e, k_held, e_held, weights, shares = parts[1:]
        mixture = np.exp(weights - weights.max())
        mixture = mixture / mixture.sum()
        multiplier, box = math.exp(parts[0][0]), self.ball.box
        return Terms(
            multiplier,
            np.concatenate([p, k, k_held]),
            np.concatenate([d, e, e_held]),
            q,
            m,
            f,
            mixture,
            mixture @ self.rows @ self.ball.net.weights[-1],
            None if box is None else BoxTerms.of(box, self.ball.net.basis, multiplier, shares),
        )

    def matrix(self, terms: Terms) -> Float[ndarray, "v v"]:
        """The second-order part of L."""
        r, inner = self.chain.step, self.inner
        matrix = (self.all_rows.T * terms.square) @ self.all_rows
        cross = 0.5 * inner.rows.T * terms.cross
        matrix[:, r:] += cross
        matrix[r:, :] += cross.T
        ball = np.full(r, terms.multiplier if terms.box is None else 0.0)
        if terms.box is not None:
            matrix[:r, :r] += terms.box.matrix
        diagonal = np.concatenate([ball, terms.own])
        matrix[np.diag_indices_from(matrix)] += diagonal
        return np.asarray(matrix)

    def linear(self, terms: Terms) -> Float[ndarray, " v"]:
        """The slope of L at v = 0."""
        slope = (2.0 * terms.square * self.offsets + terms.line) @ self.all_rows
        slope += terms.on_last @ self.chain.rows
        slope[self.chain.step :] += terms.cross * self.inner.offsets + terms.tilt
        if terms.box is not None:
            slope[: self.chain.step] += terms.box.linear
        return np.asarray(slope)

    def constant(self, terms: Terms) -> float:
        """L at v = 0, without the constants C."""
        forms = (terms.square * self.offsets + terms.line) @ self.offsets
        outputs = self.rows @ self.ball.net.biases[-1] + self.shifts
        known = terms.mixture @ outputs + terms.on_last @ self.chain.offsets
        ball = -terms.multiplier * self.ball.radius**2
        return float(forms + known) + (ball if terms.box is None else terms.box.constant)

    def tops(self, terms: Terms, share: float = 0.0) -> tuple[Tops, Tops, Tops]:
        """C of the inner, outer and held neurons, rounded off by at least this share of their prices."""
        soft = max(share / SOFT, 1.0) * self.soft
        leak, inner, outer, held = self.ball.net.leak, self.inner, self.outer, self.held
        a, b = len(inner), len(inner) + len(outer)
        square, line = terms.square, terms.line
        bent = square[:a] + terms.own + terms.cross, line[:a] + terms.tilt
        below = (square[:a] + leak**2 * terms.own + leak * terms.cross, line[:a] + leak * terms.tilt)
        on_h = terms.on_last[outer.number]
        k, e, kept = square[a:b], line[a:b], (square[b:], line[b:])
        return (
            tops(below, bent, inner.lo, inner.hi, soft[:a]),
            tops((k, e - leak * on_h), (k, e - on_h), outer.lo, outer.hi, soft[a:b]),
            tops(kept, kept, np.minimum(held.lo, 0.0), np.maximum(held.hi, 0.0), soft[b:]),
        )


def _prices(ball: Ball, outputs: Float[ndarray, " c"]) -> tuple[list[Float[ndarray, " _"]], list[Float[ndarray, " _"]]]:
    """What a unit of each activation is worth, roughly, and the ranges of the pre-activations."""
    net = ball.net
    prices: list[ndarray] = []
    worth = outputs
    for number in range(net.hidden - 1, -1, -1):
        # Signs differ: a sum of squares, not of absolute values.
        on_h = np.sqrt(worth**2 @ net.weights[number] ** 2)
        prices.insert(0, on_h + 1e-3 * (float(on_h.max()) or 1.0))
        worth = 0.5 * on_h
    widths = [high - low for low, high in zip(ball.lo, ball.hi, strict=True)]
    return prices, widths[: net.hidden]


def proven(form: Form, theta: Float[ndarray, " n"]) -> float:
    """The bound with all rounding errors charged; -inf where L is not safely convex.

    L plus a share CONVEX of the sizes of its second-order terms is convex, if a Cholesky factor says
    so with less of it: the matrix is off by at most (its order) x (rounding) of sizes, and so is the
    factor. What is added is charged at the largest v. L is then evaluated plainly at a point that
    need not be the least one: a convex function is nowhere lower than its tangent there.
    """
    terms = form.terms(theta)
    matrix, sizes = form.matrix(terms), _sizes(form, terms)
    added = matrix.copy()
    added[np.diag_indices_from(added)] += 3.0 * CONVEX * sizes
    factor, failed = dpotrf(added, lower=1)
    if failed:
        return -math.inf
    slope = form.linear(terms)
    v = -0.5 * dpotrs(factor, slope, lower=1)[0]
    largest = _largest(form)
    lowest = form.constant(terms) + float(slope @ v + v @ matrix @ v)
    lowest += 4.0 * CONVEX * float(sizes @ v**2)
    lowest -= sum(float(top.exact.sum()) for top in form.tops(terms))
    tangent = slope + 2.0 * (matrix @ v + 4.0 * CONVEX * sizes * v)
    r = form.chain.step
    spread = math.sqrt(tangent[:r] @ tangent[:r]) * (form.ball.radius + math.sqrt(v[:r] @ v[:r]))
    spread += float(np.abs(tangent[r:]) @ (largest[r:] + np.abs(v[r:])))
    # sizes . u^2 is at most the largest size times the radius squared.
    sized = float(sizes[:r].max(initial=0.0)) * form.ball.radius**2 + float(sizes[r:] @ largest[r:] ** 2)
    convexity = 4.0 * CONVEX * sized
    return lowest - spread - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))


def _sizes(form: Form, terms: Terms) -> Float[ndarray, " v"]:
    """Sums of absolute values on the diagonal: |matrix_ij| has none above sqrt(sizes_i sizes_j)."""
    inner, r = form.inner, form.chain.step
    sizes = np.abs(terms.square) @ form.all_rows**2 + 0.5 * np.abs(terms.cross) @ inner.rows**2
    sizes[:r] += terms.multiplier if terms.box is None else terms.box.weights
    sizes[r:] += np.abs(terms.own) + 0.5 * np.abs(terms.cross)
    return np.asarray(sizes)


def _largest(form: Form) -> Float[ndarray, " v"]:
    """How large every variable can be in the ball."""
    inner = form.inner
    activation = np.maximum(inner.hi, -form.ball.net.leak * inner.lo)
    return np.concatenate([np.full(form.chain.step, form.ball.radius), activation])


def _rounding(form: Form, terms: Terms, reach: Float[ndarray, " v"]) -> float:
    """How far the numbers of `proven` may be off, for variables up to `reach`.

    Every pre-activation may be off by its own error, and moves L by that times the slope in it; every
    sum of products by a share of the sum of absolute values.
    """
    ball, some = form.ball, form.chain
    groups = (form.inner, form.outer, form.held)
    a = len(form.inner)
    lo, hi = (np.concatenate([getattr(group, end) for group in groups]) for end in ("lo", "hi"))
    size = np.abs(form.all_rows) @ reach + np.abs(form.offsets)
    size = np.maximum(size, np.maximum(np.abs(lo), np.abs(hi)))
    off = np.concatenate([group.error for group in groups])
    h = reach[some.step :]
    square, line = np.abs(terms.square), np.abs(terms.line)
    cross, own, tilt = np.abs(terms.cross), np.abs(terms.own), np.abs(terms.tilt)
    slopes = 2.0 * square * (size + off) + line
    slopes[:a] += cross * h
    charged = float(slopes @ off)
    sums = float((square * size + line) @ size + cross @ (size[:a] * h) + own @ h**2 + tilt @ h)
    u = reach[: some.step]
    sums += terms.multiplier * (float(u @ u) + ball.radius**2)
    if terms.box is not None:
        # Products of at most three rounded numbers each, in which a side is at most the radius.
        mu = terms.box.weights - terms.multiplier
        sums += float(mu @ (u + ball.radius) ** 2)
    sums += sum(float(top.exact.sum()) for top in form.tops(terms))
    sums += float(terms.mixture @ np.abs(form.shifts))
    last = np.abs(some.rows) @ reach + np.abs(some.offsets)
    sums += float(np.abs(terms.on_last) @ last)
    charged += float(terms.mixture @ (np.abs(form.rows) @ ball.errors[-1]))
    return charged + CHARGED * ball.net.error * sums
