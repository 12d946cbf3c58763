"""Radii: for every point a certified lower bound, an attack, and how the search for them ended."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.typeset import sparkline, table
from featavg.measures.accuracy import robust_share
from featavg.robustness.exact.budget import Clock
from featavg.storage.folders import read_folder, write_folder

# The two ends of an exact radius differ by rounding and by the outward nudge of the witness.
EXACT_WITHIN = 1e-7


class RadiusStatus(Enum):
    """How the search for the radius of one point ended."""

    EXACT = "exact"
    BRACKET = "bracket"
    BUDGET = "budget spent"
    OPEN = "open"
    MISCLASSIFIED = "misclassified"
    NEVER = "never flips"

    @property
    def sentence(self) -> str:
        """What that means, for a reader."""
        return _SENTENCES[self]

    @property
    def code(self) -> int:
        """Its number in a saved file."""
        return list(RadiusStatus).index(self)


_SENTENCES = {
    RadiusStatus.EXACT: "The certified radius and the attack meet.",
    RadiusStatus.BRACKET: "The certified radius and the attack are within the gap that was asked for.",
    RadiusStatus.BUDGET: "The budget was spent; the radius is between the two ends, which are further "
    "apart than was asked for.",
    RadiusStatus.OPEN: "The two ends do not meet although nothing is left to search: the radius is "
    "between them, and float64 cannot tell where.",
    RadiusStatus.MISCLASSIFIED: "The point is on the wrong side as it is: its radius is zero.",
    RadiusStatus.NEVER: "No point anywhere is on the other side, which is proven in rational "
    "arithmetic, or none of the box, proven with rounding errors charged: the radius is infinite.",
}


@dataclass(frozen=True, eq=False)
class Answer:
    """What a search knows of one point.

    Attributes:
        certified: no flipped point is nearer.
        attack: the distance of the witness, or infinite.
        witness: a flipped point, re-checked; NaN where there is none.
        nodes: programs solved.
        finished: False if a budget ended the search.
        rounding: by how much the attack may be beyond the radius for rounding alone.
        known: how it ended, where no search was needed to say so.
        seconds: how long it took.
    """

    certified: float
    attack: float
    witness: Float[ndarray, " N"]
    nodes: int
    finished: bool = True
    rounding: float = 0.0
    known: RadiusStatus | None = None
    seconds: float = 0.0

    @classmethod
    def wrong(cls, x: Float[ndarray, " N"]) -> Answer:
        """For a point that is on the wrong side as it is, and so its own witness."""
        return cls(0.0, 0.0, x, 0, known=RadiusStatus.MISCLASSIFIED)

    @classmethod
    def proven_never(cls, x: Float[ndarray, " N"], nodes: int) -> Answer:
        """For a network that decides the same way everywhere."""
        nowhere = np.full_like(x, np.nan)
        return cls(math.inf, math.inf, nowhere, nodes, known=RadiusStatus.NEVER)

    def after(self, seconds: float) -> Answer:
        """The same, with how long it took."""
        return replace(self, seconds=seconds)

    def status(self, gap: float) -> RadiusStatus:
        """How the search ended, where ends within `gap` of each other were asked for."""
        if self.known is not None:
            return self.known
        attack = self.attack - self.rounding
        if attack < math.inf and self.certified >= attack * (1.0 - EXACT_WITHIN):
            return RadiusStatus.EXACT
        if attack < math.inf and self.certified >= attack * (1.0 - gap):
            return RadiusStatus.BRACKET
        return RadiusStatus.OPEN if self.finished else RadiusStatus.BUDGET


class Solver(ABC):
    """Answers for the points of one network."""

    def hints(self, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], where: Int[ndarray, " q"]) -> list[Any]:
        """What is found out for the points in these places at once, one hint each."""
        return [None] * len(where)

    @abstractmethod
    def at(
        self, x: Float[ndarray, " N"], label: int, clock: Clock, hint: Any = None, radius: float | None = None
    ) -> Answer:
        """The radius of one correctly classified point, or what is within `radius`."""


@dataclass(frozen=True, eq=False, repr=False)
class Radii:
    """Robust radii of n points, each between `certified` and `attack`.

    A point is flipped where y * score <= 0: a score of exactly zero counts as flipped.

    Attributes:
        certified: no flipped point is nearer.
        attack: |witness - x|, or infinite.
        witness: a flipped point, re-checked by evaluating the network; NaN where there is none.
        nodes: quadratic programs solved.
        outcome: `RadiusStatus.code` for each point; `outcomes` has the members.
        norm: the norm that all of this is measured in, in the units of x.

    >>> import numpy as np
    >>> import featavg as fa
    >>> found = fa.radii(fa.binary(np.eye(2)), np.array([[3.0, 1.0]]), y=np.array([1]))
    >>> round(float(found.certified[0]), 6), found.outcomes[0].value
    (1.414214, 'exact')
    """

    certified: Float[ndarray, " n"]
    attack: Float[ndarray, " n"]
    witness: Float[ndarray, "n N"]
    nodes: Int[ndarray, " n"]
    outcome: Int[ndarray, " n"]
    norm: str = "l2"

    def __len__(self) -> int:
        return len(self.certified)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self._facts().items())
        return f"Radii({facts})"

    def _repr_html_(self) -> str:
        drawing = sparkline(np.sort(self.certified).tolist(), "certified radii, from small to large")
        return table(f"Radii ({self.norm})", self._facts(), drawing)

    def _facts(self) -> dict[str, str]:
        if not len(self):
            return {"points": "0"}
        counts = Counter(outcome.value for outcome in self.outcomes)
        low, high = (f"{end:.4g}" for end in self.median)
        return {
            "points": str(len(self)),
            "median": low if low == high else f"{low} to {high}",
            "smallest": f"{self.certified.min():.4g}",
            "largest": f"{self.attack.max():.4g}",
            "widest gap": f"{self.gaps.max():.1%}",
            "search": " and ".join(f"{name} {count}" for name, count in counts.items()),
        }

    def figure(self) -> Figure:
        """The share of points that stay right within each radius: between certified and attacked."""
        ends = (
            Series.survival("certified", self.certified),
            Series.survival("attacked", self.attack, "reference", "dashed"),
        )
        panel = Lines(Axis("radius", self.norm), Axis("share of points that stay right"), ends)
        caption = f"{len(self)} points: certified from below, attacked from above."
        return Figure("radii", "Robust accuracy", caption, (panel,))

    @property
    def outcomes(self) -> list[RadiusStatus]:
        """How each search ended."""
        members = list(RadiusStatus)
        return [members[code] for code in self.outcome]

    @property
    def gaps(self) -> Float[ndarray, " n"]:
        """1 - certified / attack: how far apart the two ends are. Zero where both are infinite."""
        gaps = np.zeros(len(self))
        finite = np.isfinite(self.attack) & (self.attack > 0)
        gaps[finite] = 1.0 - self.certified[finite] / self.attack[finite]
        gaps[np.isinf(self.attack) & np.isfinite(self.certified)] = 1.0
        return np.maximum(gaps, 0.0)

    @property
    def median(self) -> tuple[float, float]:
        """The median radius: between these two numbers."""
        return float(np.median(self.certified)), float(np.median(self.attack))

    @classmethod
    def of(cls, answers: Sequence[Answer], points: ndarray, gap: float, norm: str) -> Radii:
        """The answers of a search, one for each point, as columns."""
        numbers = [(one.certified, one.attack, one.nodes) for one in answers]
        certified, attack, nodes = np.array(numbers, dtype=float).reshape(-1, 3).T
        witness = np.array([one.witness for one in answers]).reshape(points.shape)
        status = np.array([one.status(gap).code for one in answers], dtype=int)
        return cls(certified.copy(), attack.copy(), witness, nodes.astype(int), status, norm)

    @classmethod
    def joined(cls, parts: Sequence[Radii]) -> Radii:
        """The radii of several runs, one after another.

        Networks of several seeds may live in spaces of several dimensions: shorter witnesses are
        padded with zeros, since no weight meets what is missing.
        """
        parts = list(parts)
        if len({part.norm for part in parts}) != 1:
            raise InputError("parts", "have different norms", "join radii of one norm")
        width = max(part.witness.shape[1] for part in parts)
        witnesses = [np.pad(p.witness, ((0, 0), (0, width - p.witness.shape[1]))) for p in parts]
        names = ("certified", "attack", "nodes", "outcome")
        joined = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
        return cls(**joined, witness=np.concatenate(witnesses), norm=parts[0].norm)

    def robust_accuracy(self, radii: Float[ndarray, " q"]) -> tuple[Float[ndarray, " q"], Float[ndarray, " q"]]:
        """The share of points that no perturbation of length <= radius flips: between two curves.

        A point counts as robust for the lower curve if its certified radius is larger, and for the
        upper one if no witness is that near.
        """
        lower = robust_share(self.certified, radii)
        upper = robust_share(self.attack, radii)
        return lower, np.maximum(lower, upper)

    def to_json(self, points: bool = True) -> dict[str, Any]:
        """Plain values: a summary and, if asked for, every point. Infinity is the string "inf"."""
        counts = {o.value: int(np.sum(self.outcome == o.code)) for o in RadiusStatus}
        described: dict[str, Any] = {
            "norm": self.norm,
            "points": len(self),
            "median": [_plain(end) for end in self.median],
            "largest_gap": float(self.gaps.max(initial=0.0)),
            "nodes": int(self.nodes.sum()),
            "outcomes": {name: count for name, count in counts.items() if count},
        }
        if points:
            described["certified"] = [_plain(v) for v in self.certified]
            described["attack"] = [_plain(v) for v in self.attack]
            described["outcome"] = [o.value for o in self.outcomes]
        return described

    def save(self, path: Path) -> None:
        """Write a folder of safetensors and JSON."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "norm"}
        names = [o.value for o in RadiusStatus]
        write_folder(path, arrays, {"kind": "radii", "norm": self.norm, "outcomes": names})

    @classmethod
    def load(cls, path: Path) -> Radii:
        """Read what `save` wrote."""
        arrays, meta = read_folder(path)
        if meta.get("kind") != "radii" or meta.get("outcomes") != [o.value for o in RadiusStatus]:
            raise InputError(str(path), "does not hold radii", "give a folder that Radii.save wrote")
        return cls(**arrays, norm=meta["norm"])


def _plain(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))
