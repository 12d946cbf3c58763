"""What every search for a radius shares: its budget, its clock and what it has found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from time import thread_time

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.kinds import Count, Time
from featavg.boundary.public import check_fields
from featavg.errors import InputError

# Where two lengths that are equal on paper are taken to be equal in float64: relative.
SAME_WITHIN = 1e-9
# A candidate lies on the boundary, where the sign of a rounded score is a toss. It is pushed
# outwards by 1e-9 of its length, far above rounding (1e-13) and far below what anybody reads off a
# radius; where the boundary is nearly tangent to the step, by more.
NUDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)


@dataclass(frozen=True)
class Budget:
    """How much one point may cost: quadratic programs, and seconds of one core.

    A search that spends its budget returns the bracket it has. Time that other processes take of a busy
    machine does not count. With `seconds` infinite (the default) the same input gives the same bits on
    the same machine.

    >>> import featavg as fa
    >>> fa.Budget(nodes=100)
    Budget(nodes=100, seconds=inf)
    """

    nodes: Count = 20_000
    seconds: Time = math.inf

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.seconds > 0:
            raise InputError("seconds", f"is {self.seconds}", "allow some time a point")

    def start(self) -> Clock:
        """Start the clock for one point."""
        return Clock(self.nodes, thread_time() + self.seconds)


@dataclass(frozen=True)
class Clock:
    """A running budget."""

    nodes: int
    deadline: float

    def spent(self, nodes: int) -> bool:
        """Whether nothing is left."""
        return nodes >= self.nodes or self.late

    def part(self, share: float) -> Clock:
        """A clock with this share of what is left."""
        nodes = max(int(share * self.nodes), 1)
        return Clock(nodes, thread_time() + share * self.left)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.deadline - thread_time()

    def affords(self, operations: float, share: float) -> bool:
        """Whether this many floating-point operations take at most this share of the time left."""
        return self.deadline == math.inf or operations / speed() <= share * self.left

    @property
    def late(self) -> bool:
        """Whether the time is over: asked inside of long steps, too."""
        return self.left < 0.0


UNLIMITED = Clock(10**9, math.inf)


@cache
def speed() -> float:
    """Floating-point operations of this machine in a second, measured on a small product."""
    some = np.ones((200, 200))
    some @ some
    begun = thread_time()
    for _ in range(4):
        some @ some
    return 4 * 2.0 * 200**3 / max(thread_time() - begun, 1e-6)


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


def checked_witness(
    x: Float[ndarray, " N"], found: Search, shown: Callable[[Candidate], ndarray | None]
) -> tuple[float, Float[ndarray, " N"]]:
    """The shortest candidate that flips the network in plain float64 evaluation, and its distance.

    Infinity and NaN if none does: then the search found nothing that can be shown.

    Args:
        x: the point.
        found: what the search found.
        shown: a flipped point at the candidate, or None.
    """
    best, where = np.inf, np.full_like(x, np.nan)
    for candidate in sorted(found.candidates, key=lambda one: one.length):
        if candidate.length >= best:
            break
        point = shown(candidate)
        if point is not None:
            distance = float(np.linalg.norm(point - x))
            if distance < best:
                best, where = distance, point
    return best, where
