"""A lower bound over a part of a ball, the least value of L, with its derivatives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.deep.ascent import SdpValue, ascend, newton_ascend
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.sdp_chain import Ball, Tops
from featavg.robustness.exact.deep.sdp_form import SOFT, Form, Terms, proven

SLACK = 0.5  # of a neuron's price over its range: curvature that no layer above asks for
# Of a neuron's price times its range, on average: for L-BFGS, and for Newton's steps, which follow them.
FIRST_BARRIERS = (1e-3, 1e-4)
BARRIERS = (
    1e-1,
    3e-2,
    1e-2,
    3e-3,
    1e-3,
)  # for Newton's steps, which follow them; of a neuron's price times its range, on average
SIDES = 0.3  # root of a side's multiplier over lambda at the start
ABOVE = 1.3  # times the least lambda for which L is convex at the start
TOUCHES = 0.15  # of a neuron's range: at the start parabolas touch |t| no nearer to zero
LEAST = 1e-3  # of what is rounded off: what an open neuron loses, for the choice of a split
NEWTON = 20  # steps of Newton behind each barrier
STEP = 0.02  # of the time left: what one of them may take
RIDGE = 1e-9  # of the second derivatives: some parameters change nothing


class SdpBound:
    """A lower bound of a mixture of inequalities on a part of a ball, for any parameters theta.

    Args:
        ball, rows, shifts, splits: see `Form`.
    """

    def __init__(
        self, ball: Ball, rows: Float[ndarray, "p c"], shifts: Float[ndarray, " p"], splits: Sequence[Split] = ()
    ) -> None:
        self.ball, self.rows, self.shifts, self.splits = ball, rows, shifts, tuple(splits)
        self.form = Form(ball, rows, shifts, splits)
        self.unit = float(np.mean(self.form.soft)) / SOFT if len(self.form.soft) else 0.0

    def climbed(
        self, theta: Float[ndarray, " n"], steps: int, target: float, clock: Clock
    ) -> tuple[Float[ndarray, " n"], SdpValue | None]:
        """Parameters with a larger bound, and that bound; None if there was none at the start.

        Behind lower and lower barriers, until a bound is above the target. For several layers, what
        steps of L-BFGS leave below it is left to Newton's, which are few but long.
        """
        begun, value = theta, None
        for share in FIRST_BARRIERS:
            theta, value = ascend(partial(self.value, share=share), theta, steps, target, clock)
            if value is None or value.bound > target or clock.late:
                return theta, value
        # A step of Newton's solves a system as large as there are parameters.
        if not len(self.form.inner) or not clock.affords(float(len(theta)) ** 3, STEP):
            return theta, value
        best, theta = (theta, value), begun
        for share in BARRIERS:
            level = partial(self.value, share=share)
            theta, value = newton_ascend(level, theta, NEWTON, target, clock)
            if value is None or value.bound > target or clock.late:
                break
        assert best[1] is not None
        return (theta, value) if value is not None and value.bound > best[1].bound else best

    def value(self, theta: Float[ndarray, " n"], share: float = 0.0) -> SdpValue | None:
        """The bound and its gradient; None where L is not convex.

        The best parameters are on the edge of convexity, along which an ascent creeps. The barrier
        times log det of the second-order part of L keeps it away from there.
        """
        form = self.form
        terms = form.terms(theta)
        factor, failed = dpotrf(form.matrix(terms), lower=1)
        if failed:
            return None
        slope = form.linear(terms)
        v = -0.5 * dpotrs(factor, slope, lower=1)[0]
        highest, barrier = form.tops(terms, share), share * self.unit
        bound = form.constant(terms) + 0.5 * float(slope @ v)
        bound -= sum(float(top.soft.sum()) for top in highest)
        gradient, gaps = self._gradient(terms, v, highest), self._gaps(terms, highest)
        height = bound
        if barrier:
            height += 2.0 * barrier * float(np.log(np.diag(factor)).sum())
            gradient += barrier * self._away(terms, factor)
        newton = partial(self._newton, terms, factor, v, highest, gradient, barrier)
        return SdpValue(bound, height, gradient, gaps, v[: form.chain.step], newton)

    def _away(self, terms: Terms, factor: Float[ndarray, "v v"]) -> Float[ndarray, " n"]:
        """The derivative of log det of the second-order part of L."""
        form, r = self.form, self.form.chain.step
        inverse = np.tril(dpotri(factor, lower=1)[0])
        inverse += np.tril(inverse, -1).T
        a, b = len(form.inner), len(form.inner) + len(form.outer)
        square = np.einsum("nv,nv->n", form.all_rows @ inverse, form.all_rows)
        cross = np.einsum("nv,vn->n", form.inner.rows, inverse[:, r:])
        flat, diagonal = np.zeros(len(form.layer)), np.diag(inverse)
        parts = [square[:a], cross, diagonal[r:], flat[:a], flat[:a], square[a:b], flat[a:b]]
        parts += [square[b:], flat[b:], np.zeros(len(self.rows))]
        first, sides = terms.multiplier * float(diagonal[:r].sum()), np.zeros(0)
        if terms.box is not None:
            first, sides = terms.box.curving(inverse[:r, :r], terms.multiplier)
        return np.concatenate([[first], *parts, sides]) * form.units

    def _newton(
        self,
        terms: Terms,
        factor: Float[ndarray, "v v"],
        v: Float[ndarray, " v"],
        highest: tuple[Tops, Tops, Tops],
        gradient: Float[ndarray, " n"],
        barrier: float,
        damping: float,
    ) -> Float[ndarray, " n"]:
        """Newton's step, damped, with what the exponential, the softmax and the box are curved by left out."""
        form, r, leak = self.form, self.form.chain.step, self.ball.net.leak
        n, a, b = len(form.layer), len(form.inner), len(form.inner) + len(form.outer)
        rows, unit = form.all_rows, np.eye(len(v))[r:]
        t, h, box = (rows @ v + form.offsets)[:, None], v[r:, None], terms.box
        ball = terms.multiplier * np.eye(r) if box is None else box.matrix
        first = np.zeros((1, len(v)))
        first[0, :r] = 2.0 * ball @ v[:r] + (0.0 if box is None else box.linear)
        weights = self.rows @ self.ball.net.weights[-1] @ form.chain.rows
        mixed = terms.mixture[:, None] * (weights - terms.mixture @ weights)
        slopes = [first, 2.0 * t[:a] * rows[:a], h * rows[:a] + t[:a] * unit, 2.0 * h * unit]
        slopes += [rows[:a], unit, 2.0 * t[a:b] * rows[a:b], rows[a:b]]
        slopes += [2.0 * t[b:] * rows[b:], rows[b:], mixed]
        stacked = np.concatenate(slopes)
        metric = np.zeros((len(gradient), len(gradient)))
        some = len(stacked)
        metric[:some, :some] = 0.5 * stacked @ dpotrs(factor, stacked.T, lower=1)[0]
        if barrier:
            both = np.concatenate([rows, unit])
            place = np.concatenate(
                [
                    np.zeros(1),
                    1 + np.arange(a),
                    form.ends[5] + np.arange(b - a),
                    form.ends[7] + np.arange(n - b),
                    1 + a + np.arange(2 * a),
                ]
            ).astype(int)
            metric[np.ix_(place, place)] += barrier * _bent(both, factor, ball, n, a)
        starts = [1 + np.arange(5) * a, form.ends[5:7], form.ends[7:9]]
        for start, top in zip(starts, highest, strict=True):
            where = start + np.arange(len(top.soft))[:, None]
            metric[where[:, :, None], where[:, None, :]] += top.curvature(leak, len(start) == 5)
        metric *= np.outer(form.units, form.units)
        if box is not None:
            # The sides by themselves: a share moves its own coordinate.
            s = box.step(v[:r])
            pull = terms.multiplier * box.shares * (2.0 * s - box.box.low - box.box.high)
            sides = np.arange(some, len(gradient))
            metric[sides, sides] = 2.0 * pull**2 / box.weights + terms.multiplier * box.box.radius**2
        metric[np.diag_indices_from(metric)] *= 1.0 + damping
        metric[np.diag_indices_from(metric)] += RIDGE * float(np.diag(metric).max(initial=1e-300))
        return np.asarray(np.linalg.solve(metric, gradient))

    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged; with a box, in all coordinates of the input."""
        ball = self.ball
        if ball.box is None:
            return proven(self.form, theta)
        whole = replace(ball, net=ball.net.unturned())
        return proven(Form(whole, self.rows, self.shifts, self.splits), theta)

    def step(self, value: SdpValue, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
        """Where L is least: in the coordinates of the ball, or of the box."""
        box = self.form.terms(theta).box
        return value.u if box is None else box.step(value.u)

    def _gradient(
        self, terms: Terms, v: Float[ndarray, " v"], highest: tuple[Tops, Tops, Tops]
    ) -> Float[ndarray, " n"]:
        """Moments at the least point, minus their means over the pieces."""
        form, net, r = self.form, self.ball.net, self.form.chain.step
        inner, outer, held = highest
        t = form.all_rows @ v + form.offsets
        a, b = len(form.inner), len(form.inner) + len(form.outer)
        u, h = v[:r], v[r:]
        first, sides = terms.multiplier * (float(u @ u) - self.ball.radius**2), np.zeros(0)
        if terms.box is not None:
            first, sides = terms.box.gradient(u, terms.multiplier)
        parts = [
            np.array([first]),
            t[:a] ** 2 - inner.square(),
            t[:a] * h - inner.square(net.leak),
            h**2 - inner.square(net.leak**2),
            t[:a] - inner.mean(),
            h - inner.mean(net.leak),
            t[a:b] ** 2 - outer.square(),
            t[a:b] - outer.mean(),
            t[b:] ** 2 - held.square(),
            t[b:] - held.mean(),
        ]
        last = form.chain.rows @ v + form.chain.offsets
        last[form.outer.number] += outer.mean(net.leak)
        values = self.rows @ (net.weights[-1] @ last + net.biases[-1]) + self.shifts
        parts += [terms.mixture * (values - float(terms.mixture @ values)), sides]
        return np.concatenate(parts) * form.units

    def _gaps(self, terms: Terms, highest: tuple[Tops, Tops, Tops]) -> list[ndarray]:
        """By how much mean activations are off, times what they are worth; zero for known signs only."""
        form, net = self.form, self.ball.net
        gaps = [np.zeros(len(low)) for low in self.ball.lo[: net.hidden]]
        a, b = len(form.inner), len(form.inner) + len(form.outer)
        lost = np.concatenate([highest[0].lost(), highest[1].lost()])
        lost = np.maximum(lost, LEAST * (form.soft / form.price)[:b])
        worth = np.append(form.price[:a], np.abs(terms.on_last[form.outer.number]))
        for layer, gap in enumerate(gaps):
            here = np.flatnonzero(form.layer[:b] == layer)
            gap[form.number[here]] = (1.0 - net.leak) * worth[here] * lost[here]
        return gaps

    def start(self) -> Float[ndarray, " n"]:
        """Parabolas over the last layer, and complementarity below it, as much as it takes."""
        form = self.form
        inner, outer, r = form.inner, form.outer, form.chain.step
        theta = np.zeros(len(form.units))
        theta[0] = -300.0
        parts, units = np.split(theta, form.ends), np.split(form.units, form.ends)  # views
        on_h = form.terms(theta).on_last[outer.number]
        # Parabolas touch |t| where a neuron is in the centre; lines have the slope that fits there.
        layers = self.ball.net.forward(self.ball.z)
        centre = np.array([layers[a][b] for a, b in zip(form.layer, form.number, strict=True)])
        below, last = np.split(self._slopes(centre[: len(inner) + len(outer)]), [len(inner)])
        there = np.abs(centre[len(inner) : len(inner) + len(outer)])
        width, half = outer.hi - outer.lo, 0.5 * (1.0 + self.ball.net.leak)
        bent = 4.0 * np.maximum(there, TOUCHES * width)
        parts[6][:] = (1.0 - self.ball.net.leak) * np.minimum(on_h, 0.0) / bent / units[6]
        parts[7][:] = on_h * np.where(on_h < 0, half, last) / units[7]
        # A neuron that is worth something is bounded from below by a line.
        worth = np.maximum(form.linear(form.terms(theta))[r:], 0.0)
        parts[4][:], parts[5][:] = below * worth / units[4], -worth / units[5]
        for layer in range(self.ball.net.hidden - 2, -1, -1):
            here, above = (np.flatnonzero(some) for some in (inner.layer == layer, inner.layer > layer))
            if len(here):
                block = self._remaining(theta, r + above)[np.ix_(r + here, r + here)]
                much = 2.0 * max(-float(np.linalg.eigvalsh(block)[0]), 0.0) / units[3][here] + SLACK
                parts[3][here], parts[2][here] = much, -much
        block = self._remaining(theta, np.arange(r, r + len(inner)))[:r, :r]
        # The best lambda is no less than what makes L convex, or than its slope asks for.
        slope = form.linear(form.terms(theta))[:r]
        least = max(ABOVE * -float(np.linalg.eigvalsh(block)[0]), 1e-9 / self.ball.radius**2)
        theta[0] = math.log(max(least, 0.5 * math.sqrt(slope @ slope) / self.ball.radius))
        parts[-1][:] = SIDES
        return theta

    def _slopes(self, centre: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Slopes of lines below the activations of the open neurons, steeper where these are on."""
        form, leak = self.form, self.ball.net.leak
        width = np.concatenate([form.inner.hi - form.inner.lo, form.outer.hi - form.outer.lo])
        return np.asarray(leak + (1.0 - leak) / (1.0 + np.exp(-np.clip(4.0 * centre / width, -4, 4))))

    def _remaining(self, theta: Float[ndarray, " n"], gone: ndarray) -> Float[ndarray, "v v"]:
        """The second-order part of L where it is least in the variables that are gone."""
        matrix = self.form.matrix(self.form.terms(theta))
        side = matrix[:, gone]
        return np.asarray(matrix - side @ np.linalg.solve(matrix[np.ix_(gone, gone)], side.T))

    def child(
        self, theta: Float[ndarray, " n"], value: SdpValue, split: Split
    ) -> tuple[SdpBound, Float[ndarray, " n"]]:
        """The part with one more sign imposed, and parameters whose bound there is not lower.

        On its piece the neuron's form is one of t alone: L is what it was, and C a maximum over less.
        """
        form = self.form
        terms, parts = form.terms(theta), np.split(theta, form.ends)
        slope = self.ball.net.leak if split.side > 0 else 1.0
        same = (form.layer == split.layer) & (form.number == split.neuron)
        i = int(np.flatnonzero(same)[0])
        k, e = terms.square[i], terms.line[i]
        if i < len(form.inner):
            k = k + slope * terms.cross[i] + slope**2 * terms.own[i]
            e = e + slope * terms.tilt[i]
            parts[1:6] = [np.delete(part, i) for part in parts[1:6]]
        else:
            e = e - slope * terms.on_last[split.neuron]
            parts[6:8] = [np.delete(part, i - len(form.inner)) for part in parts[6:8]]
        bound = SdpBound(self.ball, self.rows, self.shifts, (*self.splits, split))
        units = np.split(bound.form.units, bound.form.ends)
        parts[8], parts[9] = (np.append(parts[8], k / units[8][-1]), np.append(parts[9], e / units[9][-1]))
        return bound, np.concatenate(parts)


def _bent(
    both: Float[ndarray, "m v"], factor: Float[ndarray, "v v"], ball: Float[ndarray, "r r"], n: int, a: int
) -> Float[ndarray, "k k"]:
    """Minus the second derivatives of log det: in log lambda, squares, products and own squares.

    They are trace(P A P B), P the inverse of the matrix, A and B what a coefficient is multiplied by.
    """
    r = len(ball)
    solved = dpotrs(factor, np.ascontiguousarray(both.T), lower=1)[0]
    gram, u = both @ solved, solved[:r]
    tt, th, hh = gram[:n, :n], gram[:n, n:], gram[n:, n:]
    pulled = ball @ u
    inverse = ball @ dpotrs(factor, np.eye(len(factor))[:, :r], lower=1)[0][:r]
    sides = np.concatenate(
        [
            np.einsum("rn,rn->n", u[:, :n], pulled[:, :n]),
            np.einsum("rn,rn->n", u[:, :a], pulled[:, n:]),
            np.einsum("rn,rn->n", u[:, n:], pulled[:, n:]),
        ]
    )
    products = 0.5 * (tt[:a, :a] * hh + th[:a] * th[:a].T)
    inner = np.block(
        [
            [tt**2, tt[:, :a] * th, th**2],
            [(tt[:, :a] * th).T, products, th[:a] * hh],
            [(th**2).T, (th[:a] * hh).T, hh**2],
        ]
    )
    corner = np.array([[float(np.sum(inverse * inverse.T))]])
    return np.block([[corner, sides[None]], [sides[:, None], inner]])
