"""What every search for a radius shares: its budget, its clock and what it has found."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError

# Where two lengths that are equal on paper are taken to be equal in float64: relative.
SAME_WITHIN = 1e-9


@dataclass(frozen=True)
class Budget:
    """How much one point may cost: quadratic programs, and seconds of wall clock.

    A search that spends its budget returns the bracket it has. With `seconds` infinite (the
    default) the same input gives the same bits on the same machine.

    >>> import featavg as fa
    >>> fa.Budget(nodes=100)
    Budget(nodes=100, seconds=inf)
    """

    nodes: int = 20_000
    seconds: float = math.inf

    def __post_init__(self) -> None:
        if not self.nodes >= 1:
            raise InputError("nodes", f"is {self.nodes}", "allow at least one node per point")
        if not self.seconds > 0:
            raise InputError("seconds", f"is {self.seconds}", "allow some time a point")

    def start(self) -> Clock:
        """Start the clock for one point."""
        return Clock(self.nodes, math.inf if self.seconds == math.inf else self.deadline())

    def deadline(self) -> float:
        """When a point that starts now has to end."""
        return perf_counter() + self.seconds


@dataclass(frozen=True)
class Clock:
    """A running budget."""

    nodes: int
    deadline: float

    def spent(self, nodes: int) -> bool:
        """Whether nothing is left."""
        return nodes >= self.nodes or self.late

    @property
    def late(self) -> bool:
        """Whether the time is over: asked inside of long steps, too."""
        return self.deadline < math.inf and perf_counter() > self.deadline


@dataclass(frozen=True, eq=False)
class Candidate:
    """A step u onto the boundary, and what holds it there.

    Attributes:
        length: |u|.
        u: the step, in the coordinates of the search.
        rows: the normals of the constraints that hold it.
        kinks: the normals of neurons that are at zero there and must not switch on, followed by the
            slopes of the inequalities with these neurons off.
    """

    length: float
    u: Float[ndarray, " r"]
    rows: Float[ndarray, "q r"]
    kinks: Float[ndarray, "p r"] | None = None

    def inwards(self) -> Float[ndarray, " r"]:
        """The shortest v with rows v = -|row|: into the flipped set, away from every constraint.

        For one constraint this is the step's own direction.
        """
        return _away(self.rows)

    def off(self) -> Float[ndarray, " r"] | None:
        """The same for the neurons at their kinks, switched off; None if there is none.

        At an obtuse angle between two neurons the way `inwards` from the cuts that hold the step
        switches one of them on again: a cut is a sum over neurons, and may fall while one rises.
        """
        return None if self.kinks is None or not len(self.kinks) else _away(self.kinks)


def _away(rows: Float[ndarray, "q r"]) -> Float[ndarray, " r"]:
    lengths = np.linalg.norm(rows, axis=1)
    solution, *_ = np.linalg.lstsq(rows, -lengths)
    return np.asarray(solution)


@dataclass(eq=False)
class Search:
    """What a search for the nearest flipped point has found.

    Attributes:
        certified: no flipped point is nearer.
        candidates: steps that flip the decision up to rounding.
        nodes: how many quadratic programs were solved.
        finished: False if a budget ended the search.
    """

    certified: float = 0.0
    candidates: list[Candidate] = field(default_factory=list)
    nodes: int = 0
    finished: bool = True

    @property
    def attack(self) -> float:
        """The length of the shortest candidate."""
        return min((one.length for one in self.candidates), default=math.inf)
