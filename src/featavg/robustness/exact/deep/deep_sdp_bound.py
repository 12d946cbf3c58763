"""The bound of a deep network over a ball as an ascent sees it: start, value, gradient, halves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

from featavg.robustness.exact.deep.box import unturned
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.deep_sdp_chain import Tops
from featavg.robustness.exact.deep.deep_sdp_form import SOFT, DeepForm, Terms, proven
from featavg.robustness.exact.deep.sdp import SdpBound, SdpValue

SLACK = 0.5  # of a neuron's price over its range: curvature that no layer above asks for
BARRIERS = (1e-2, 1e-3, 1e-4)  # of a neuron's price times its range, on average
SIDES = 0.3  # root of a side's multiplier over lambda at the start
ABOVE = 1.3  # times the least lambda for which L is convex at the start


@dataclass(frozen=True, eq=False)
class DeepValue(SdpValue):
    """The bound at some parameters, with maxima rounded off; `u` is where L is least."""

    u: Float[ndarray, " r"]


class DeepBound(SdpBound):
    """The bound for a network of any depth: the least value of L."""

    def _prepare(self) -> None:
        self.form = DeepForm(self.ball, self.rows, self.shifts, self.splits)
        self.unit = float(np.mean(self.form.soft)) / SOFT if len(self.form.soft) else 0.0

    def levels(self) -> list[Callable[[Float[ndarray, " n"]], DeepValue | None]]:
        """What an ascent raises, one after the other: the bound behind lower and lower barriers."""
        return [partial(self.value, barrier=share * self.unit) for share in BARRIERS]

    def value(self, theta: Float[ndarray, " n"], barrier: float = 0.0) -> DeepValue | None:
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
        highest = form.tops(terms)
        bound = form.constant(terms) + 0.5 * float(slope @ v)
        bound -= sum(float(top.soft.sum()) for top in highest)
        gradient, gaps = self._gradient(terms, v, highest), self._gaps(terms, highest)
        height = bound
        if barrier:
            height += 2.0 * barrier * float(np.log(np.diag(factor)).sum())
            gradient += barrier * self._away(terms, factor)
        return DeepValue(bound, height, gradient, gaps, v[: form.chain.step])

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

    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged; with a box, in all coordinates of the input."""
        ball = self.ball
        if ball.box is None:
            return proven(self.form, theta)
        whole = replace(ball, net=unturned(ball.net), box=ball.box.whole)
        return proven(DeepForm(whole, self.rows, self.shifts, self.splits), theta)

    def step(self, value: DeepValue, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
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
        """By how much mean activations are off, times what they are worth."""
        form, net = self.form, self.ball.net
        gaps = [np.zeros(len(low)) for low in self.ball.lo[: net.hidden]]
        a, b = len(form.inner), len(form.inner) + len(form.outer)
        lost = np.concatenate([highest[0].lost(), highest[1].lost()])
        worth = np.append(form.price[:a], np.abs(terms.on_last[form.outer.number]))
        for layer, gap in enumerate(gaps):
            here = np.flatnonzero(form.layer[:b] == layer)
            gap[form.number[here]] = (1.0 - net.leak) * worth[here] * np.maximum(lost[here], 0.0)
        return gaps

    def start(self) -> Float[ndarray, " n"]:
        """Parabolas over the last layer, and complementarity below it, as much as it takes."""
        form = self.form
        inner, outer, r = form.inner, form.outer, form.chain.step
        theta = np.zeros(len(form.units))
        theta[0] = -300.0
        parts, units = np.split(theta, form.ends), np.split(form.units, form.ends)  # views
        on_h = form.terms(theta).on_last[outer.number]
        parts[6][:] = np.minimum(on_h, 0.0) / (outer.hi - outer.lo) / units[6]
        parts[7][:] = 0.5 * on_h / units[7]
        # A neuron that is worth something is bounded from below by a line of slope one half.
        worth = np.maximum(form.linear(form.terms(theta))[r:], 0.0)
        parts[4][:], parts[5][:] = 0.5 * worth / units[4], -worth / units[5]
        for layer in range(self.ball.net.hidden - 2, -1, -1):
            here, above = (
                np.flatnonzero(some) for some in (inner.layer == layer, inner.layer > layer)
            )
            if len(here):
                block = self._remaining(theta, r + above)[np.ix_(r + here, r + here)]
                much = 2.0 * max(-float(np.linalg.eigvalsh(block)[0]), 0.0) / units[3][here] + SLACK
                parts[3][here], parts[2][here] = much, -much
        block = self._remaining(theta, np.arange(r, r + len(inner)))[:r, :r]
        least = max(-float(np.linalg.eigvalsh(block)[0]), 1e-9 / self.ball.radius**2)
        theta[0] = math.log(ABOVE * least)
        parts[-1][:] = SIDES
        return theta

    def _remaining(self, theta: Float[ndarray, " n"], gone: ndarray) -> Float[ndarray, "v v"]:
        """The second-order part of L where it is least in the variables that are gone."""
        matrix = self.form.matrix(self.form.terms(theta))
        side = matrix[:, gone]
        return np.asarray(matrix - side @ np.linalg.solve(matrix[np.ix_(gone, gone)], side.T))

    def child(
        self, theta: Float[ndarray, " n"], value: DeepValue, split: Split
    ) -> tuple[DeepBound, Float[ndarray, " n"]]:
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
        bound = DeepBound(self.ball, self.rows, self.shifts, (*self.splits, split))
        units = np.split(bound.form.units, bound.form.ends)
        parts[8], parts[9] = (
            np.append(parts[8], k / units[8][-1]),
            np.append(parts[9], e / units[9][-1]),
        )
        return bound, np.concatenate(parts)
