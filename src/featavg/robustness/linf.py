"""l_inf radii of two-layer networks written in the coordinates of R^d."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import one_of
from featavg.nets.readouts._readout import readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.registry import READOUTS
from featavg.robustness.exact.budget import NUDGES, SAME_WITHIN, Clock
from featavg.robustness.exact.decision import Decision, attacked
from featavg.robustness.exact.deep.boxed import FirstWithout
from featavg.robustness.exact.everywhere import Everywhere
from featavg.robustness.exact.flip_conditions import conditions_of
from featavg.robustness.exact.flipped_set import flipped
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.linf_tree import Program, linf_search
from featavg.robustness.exact.result import Answer, Solver
from featavg.robustness.exact.step_box import Bounds, StepBox
from featavg.robustness.geometry.subspace import reduce

# How often the search starts again a thousand times further out when nothing has flipped.
FURTHER = 3
# Linear programs a point, unless a budget is given: each costs far more than a program in l2.
PROGRAMS = 2000
ATTACKED = 60  # steps of the attacks that a search begins from


class LinfSolver(Solver):
    """Branch and bound over linear programs, for read-outs that are piecewise linear."""

    def __init__(self, decision: Decision, bounds: Bounds | None = None) -> None:
        assert isinstance(decision.net, TwoLayer)
        self.bounds = bounds
        self.decision, self.net, self.space = decision, decision.net, reduce(decision.net)
        self.whole = Everywhere(layered_of(decision.net))
        own = decision.own(1)
        if decision.pieces(1) is None:
            straight = [name for name in READOUTS if readout_of(name).pieces(own) is not None]
            one_of("readout", decision.readout.name, straight)

    def hints(self, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], where: Int[ndarray, " q"]) -> list[ndarray | None]:
        """A flipped point for each, to bound the search from above; None where no attack finds one."""
        radii, witness = attacked(self.decision, x[where], y[where], "linf", self.bounds, ATTACKED)
        return [w if math.isfinite(r) else None for r, w in zip(radii, witness, strict=True)]

    def at(
        self,
        x: Float[ndarray, " N"],
        label: int,
        clock: Clock,
        hint: Float[ndarray, " N"] | None = None,
        radius: float | None = None,
    ) -> Answer:
        """The radius of one correctly classified point, or what is within `radius`."""
        # An attack evaluates many points at once, which on the boundary is not rounded as one is.
        if hint is not None and self.decision.margins(hint[None], label)[0] > 0:
            hint = None
        witness = np.full_like(x, np.nan) if hint is None else hint
        reach = math.inf if hint is None else float(np.abs(hint - x).max())

        def probe(step: Float[ndarray, " N"]) -> float:
            nonlocal witness, reach
            for nudge in NUDGES[:6]:
                point = x + step * (1 + nudge)
                if self.bounds is not None:
                    point = np.clip(point, *self.bounds)
                if self.decision.margins(point[None], label)[0] <= 0:
                    length = float(np.abs(point - x).max())
                    if length < reach:
                        witness, reach = point, length
                    return length
            return math.inf

        if radius is not None and reach <= radius:
            return Answer(0.0, reach, witness, 0)
        pieces = self.decision.pieces(label)
        assert pieces is not None
        at_x = self.space.preactivations(x[None])[0]
        families = flipped(self.space, pieces)
        sides = None if self.bounds is None else StepBox.around(x, self.bounds)
        corner = math.inf if sides is None else sides.corner(math.inf)
        programs = [Program(family, self.space.normals, at_x, sides) for family in families]
        guess = reach if math.isfinite(reach) else min(self._far(at_x, x), corner)
        if radius is not None:
            # A little beyond: the search closes what is within SAME_WITHIN of its end.
            guess = min(guess, radius * (1.0 + 4.0 * SAME_WITHIN))
        tree = linf_search(programs, guess, probe, clock)
        for _ in range(FURTHER):
            if math.isfinite(reach) or not tree.finished or radius is not None or guess >= corner:
                break
            guess = min(1e3 * guess, corner)
            tree = linf_search(programs, guess, probe, clock)
        if guess >= corner and not math.isfinite(reach) and tree.finished:
            if tree.certified >= corner:
                return Answer.proven_never(x, tree.nodes)
        elif radius is None and not math.isfinite(reach):
            whole = self.whole.at(label, conditions_of(self.decision, label), clock)
            if whole.never:
                return Answer.proven_never(x, tree.nodes)
            if whole.flip is not None:
                here = self.net.preactivations(x[None])[0]
                guess = probe(np.linalg.lstsq(self.net.weights, whole.flip - here)[0])
                if math.isfinite(guess):
                    tree = linf_search(programs, guess, probe, clock)
        # Nothing flips within `guess`; beyond it the lines of the search say nothing.
        certified = min(tree.certified, reach, guess)
        return Answer(certified, reach, witness, tree.nodes, tree.finished)

    def _far(self, at_x: Float[ndarray, " M"], x: Float[ndarray, " N"]) -> float:
        """A radius that is far: more than it takes to move every neuron through zero."""
        sizes = np.abs(self.space.normals).sum(axis=1)
        reach = np.abs(at_x) / np.where(sizes > 0, sizes, 1.0)
        far = max(float(np.max(reach, initial=0.0)), float(np.abs(x).max(initial=0.0)), 1e-300)
        return 10 * far


class BoxedLinfSolver(FirstWithout):
    """The nearest flip in a box in l_inf."""

    def __init__(self, decision: Decision, bounds: Bounds) -> None:
        super().__init__(LinfSolver(decision), bounds, math.inf)
        self.boxed = LinfSolver(decision, bounds)

    def within(self, x: Float[ndarray, " N"], label: int, sides: StepBox, clock: Clock) -> Answer:
        """Linear programs with the sides as rows, from the best attack in the box."""
        hint = self.boxed.hints(x[None], np.array([label]), np.zeros(1, int))[0]
        return self.boxed.at(x, label, clock, hint)
