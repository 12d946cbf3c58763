r"""Half-spaces that contain every flipped point of a part, and their nearest point.

Why the nearest point is a lower bound: a flipped point u of the part satisfies C f(u) + c <= 0 (its
condition) and side (z(u) - value) <= 0 (each split). `linear_bounds.trace` gives an affine row u + constant
that is nowhere above such a functional on the part, so row u + constant <= 0 there: a half-space that
contains every flipped point. The intersection of several contains them too, and |u| is at least its
distance from zero, which `qp.nearest` proves from multipliers by plain arithmetic. A half-space stays
valid in every smaller part, so children inherit those of their parent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.deep.linear_bounds import Lines, Traced, lines_of, trace
from featavg.robustness.exact.flip_conditions import Condition
from featavg.robustness.exact.layered_network import Layered
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.geometry.qp import Nearest, nearest

# A step that leaves a box by less than this share of its length is rounded into it.
OUTSIDE = 1e-12


@dataclass(frozen=True, eq=False)
class Cuts:
    """rows @ u <= limits for every flipped point of a part, with bounds on the rounding errors."""

    rows: Float[ndarray, "q r"]
    limits: Float[ndarray, " q"]
    row_errors: Float[ndarray, " q"]
    limit_errors: Float[ndarray, " q"]

    @staticmethod
    def none(r: int) -> Cuts:
        """No half-space yet."""
        return Cuts(np.zeros((0, r)), np.zeros(0), np.zeros(0), np.zeros(0))

    def joined(self, other: Cuts) -> Cuts:
        """The half-spaces of both."""
        return Cuts(
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.limits, other.limits]),
            np.concatenate([self.row_errors, other.row_errors]),
            np.concatenate([self.limit_errors, other.limit_errors]),
        )

    def where(self, kept: ndarray) -> Cuts:
        """Some of the half-spaces."""
        return Cuts(self.rows[kept], self.limits[kept], self.row_errors[kept], self.limit_errors[kept])

    def violated(self, u: Float[ndarray, " r"], share: float) -> ndarray:
        """Those that u is outside of by more than `share` of its length, or of rounding."""
        lengths = np.sqrt(np.einsum("qr,qr->q", self.rows, self.rows))
        allowed = share * lengths * float(np.sqrt(u @ u)) + self.limit_errors
        return np.asarray(self.rows @ u - self.limits > allowed)

    def solve(self) -> Nearest:
        """The point of all half-spaces nearest to zero, in as few coordinates as there are cuts."""
        q, r = self.rows.shape
        if q >= r:
            return nearest(self.rows, self.limits, self.row_errors, self.limit_errors)
        # The nearest point is a combination of the rows: wide networks have few cuts and many
        # coordinates. The rounding of the rotation is charged like that of the rows themselves.
        basis, triangle = np.linalg.qr(self.rows.T)
        rotated = self.row_errors + (r + q) * 2.0**-52 * np.abs(triangle).sum(axis=0)
        answer = nearest(np.ascontiguousarray(triangle.T), self.limits, rotated, self.limit_errors)
        u = None if answer.u is None else basis @ answer.u
        return Nearest(u, answer.bound, answer.multipliers)

    def solve_in(self, box: StepBox) -> tuple[Cuts, Nearest, int]:
        """The cuts with the sides that matter before them, their nearest step, and how many programs.

        The step is None where the cuts and the sides exclude one another. A side is a half-space like
        any other, +-e_i . s <= side, and few matter: the program is solved with those that were
        violated so far, until none is. A solution of fewer half-spaces that happens to be in the box
        is that of all.
        """
        cuts, solved = self, 0
        while True:
            answer = cuts.solve()
            solved += 1
            if answer.u is None:
                return cuts, answer, solved
            slack = OUTSIDE * math.sqrt(answer.u @ answer.u)
            above = np.flatnonzero(answer.u > box.high + slack)
            below = np.flatnonzero(answer.u < box.low - slack)
            faces = cuts._faces(above, below, box)
            if not len(faces.rows):
                return cuts, Nearest(box.clip(answer.u), answer.bound, answer.multipliers), solved
            cuts = faces.joined(cuts)

    def _faces(self, above: ndarray, below: ndarray, box: StepBox) -> Cuts:
        """The half-spaces of these sides; none twice, so that a solver's rounding ends the rounds."""
        rows = np.zeros((len(above) + len(below), len(box.low)))
        rows[np.arange(len(above)), above] = 1.0
        rows[len(above) + np.arange(len(below)), below] = -1.0
        limits = np.concatenate([box.high[above], -box.low[below]])
        old = {row.tobytes() for row in self.rows}
        new = [i for i, row in enumerate(rows) if row.tobytes() not in old]
        none = np.zeros(len(new))
        return Cuts(rows[new], limits[new], none, none)


@dataclass(frozen=True)
class Split:
    """An imposed inequality side * (z - value) <= 0 of one neuron, or of one output."""

    layer: int
    neuron: int
    side: float
    value: float


@dataclass(order=True)
class Part:
    """A part of the search space: bounds of every layer, some of them imposed by splits.

    Attributes:
        bound: no flipped point of the part is nearer.
        number: which part came first, for a search that is the same every time.
        condition: which condition is looked for.
        lo, hi: bounds of the pre-activations of every layer; the outputs are the last.
        splits: what was imposed.
        cuts: half-spaces that hold in the part that this one was split from, and so here.
        at: pre-activations of the relaxation at its last solution.
        normal: direction of the half-space that the last multipliers prove.
    """

    bound: float
    number: int
    condition: int = field(compare=False)
    lo: list[ndarray] = field(compare=False)
    hi: list[ndarray] = field(compare=False)
    splits: tuple[Split, ...] = field(compare=False)
    cuts: Cuts = field(compare=False)
    at: list[ndarray] | None = field(compare=False, default=None)
    normal: ndarray | None = field(compare=False, default=None)


@dataclass(frozen=True, eq=False)
class Errors:
    """How large the sums are that make each layer, and the rows of their gradients."""

    magnitudes: list[ndarray]
    slopes: list[ndarray]


@dataclass(frozen=True, eq=False)
class Relaxed:
    """One round of relaxation: the half-spaces, and what they were traced through."""

    cuts: Cuts
    traced: Traced
    lines: Lines


def half_spaces(
    net: Layered,
    condition: Condition,
    part: Part,
    bounds: tuple[list[ndarray], list[ndarray]],
    at: list[ndarray],
    z: Float[ndarray, " m"],
    errors: Errors,
    limit: float,
) -> Relaxed:
    """Half-spaces from the condition's inequalities and from the splits, traced at `at`.

    Every inequality is a functional of some layer that is at most zero on the flipped points of the
    part; an affine function below it is at most zero there too.
    """
    lo, hi = bounds
    last = net.hidden
    lines = lines_of(net, lo[:last], hi[:last], at)
    rows, shifts = condition.functionals(lo[-1], hi[-1], at[-1])
    p, s = len(rows), len(part.splits)
    functionals, constants = np.zeros((p + s, rows.shape[1])), np.zeros(p + s)
    functionals[:p], constants[:p] = rows, shifts
    sizes, slopes = np.zeros(p + s), np.zeros(p + s)
    sizes[:p] = np.abs(rows) @ errors.magnitudes[-1] + np.abs(shifts)
    slopes[:p] = np.abs(rows) @ errors.slopes[-1]
    members: dict[int, list[int]] = {}
    for i, split in enumerate(part.splits, start=p):
        constants[i] = -split.side * split.value
        sizes[i] = errors.magnitudes[split.layer][split.neuron] + abs(split.value)
        slopes[i] = errors.slopes[split.layer][split.neuron]
        if split.layer == last:
            functionals[i, split.neuron] = split.side
        else:
            members.setdefault(split.layer, []).append(i)
    joins = {}
    for layer, which in members.items():
        coefficients = np.zeros((len(which), len(lo[layer])))
        for row, i in enumerate(which):
            coefficients[row, part.splits[i - p].neuron] = part.splits[i - p].side
        joins[layer] = (np.array(which), coefficients)
    traced = trace(net, z, lines, last, functionals, joins)
    # A row is a sum of products of weights: its rounding is at most `error` times the same sum of
    # absolute values (`Layered.absolute`). Its limit is off by that of the functional's value, and by
    # the row's own error times the length of u, which `limit` bounds in the ball that is searched.
    cuts = Cuts(traced.rows, -(traced.constants + constants), net.error * slopes, net.error * (sizes + limit * slopes))
    return Relaxed(cuts, traced, lines)
