"""Slab data (Shah et al. 2020): coordinates that each give the label away, some simply, some not.

A *linear* coordinate has the sign of the label, with a margin. A *k-slab* coordinate lies in one of k
slabs whose labels alternate, the middle one negative: the more slabs, the more pieces a classifier
of that coordinate needs. All coordinates are drawn independently given the label, and the whole is
turned by a random rotation, so that no coordinate can be read off alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError

LINEAR = 1
# The chance of the slab nearest to the middle among those of its label. Shah et al. chose these so
# that a slab coordinate carries no linear signal beyond its symmetry.
_INNER = {3: (1.0, 1.0), 5: (0.75, 1.0), 7: (0.5, 0.875)}  # (negative, positive)


@dataclass(frozen=True, eq=False)
class Slabs:
    """A task with one block of coordinates for each kind.

    Args:
        blocks: how many slabs each coordinate has; 1 is a linear coordinate. LMS-5 in d dimensions
            is (1, 5, 5, ...), MS-(5,7) is (5, 7, 7, ...).
        margin: half of the gap between neighbouring slabs; all coordinates fill [-1, 1].
        noise: the share of points whose linear coordinates fall into the margin, without a label.
        rotate: turn the points by a random rotation, the same for every sample of one seed.

    >>> import featavg as fa
    >>> task = fa.Slabs((1, 5, 5, 5))
    >>> task.blocks, task.simple, task.complex
    ((1, 5, 5, 5), [0], [1, 2, 3])
    """

    blocks: Sequence[int]
    margin: float = 0.1
    noise: float = 0.0
    rotate: bool = True

    def __post_init__(self) -> None:
        wrong = [k for k in self.blocks if k != LINEAR and k not in _INNER]
        if wrong or len(self.blocks) < 2:
            raise InputError(
                "blocks", f"are {tuple(self.blocks)}", "give 1, 3, 5 or 7, two or more"
            )
        if not 0 < self.margin < 1 / max(2, *(k - 1 for k in self.blocks)):
            raise InputError("margin", f"is {self.margin}", "leave room for every slab")
        if not 0 <= self.noise <= 1:
            raise InputError("noise", f"is {self.noise}", "give a share of the points")

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return len(self.blocks)

    @property
    def simple(self) -> list[int]:
        """The coordinates with the fewest slabs."""
        return [i for i, k in enumerate(self.blocks) if k == min(self.blocks)]

    @property
    def complex(self) -> list[int]:
        """The coordinates with more slabs than the simplest."""
        return [i for i, k in enumerate(self.blocks) if k != min(self.blocks)]

    @cached_property
    def _turns(self) -> dict[int, Float[ndarray, "d d"]]:
        return {}

    def rotation(self, seed: int) -> Float[ndarray, "d d"]:
        """The rotation of `seed`: points are coordinates @ rotation."""
        if not self.rotate:
            return np.eye(self.d)
        if seed not in self._turns:
            q, r = np.linalg.qr(stream(seed, "slab-rotation").standard_normal((self.d, self.d)))
            self._turns[seed] = q * np.sign(np.diag(r))
        return self._turns[seed]

    def sample(
        self, n: int, seed: int, purpose: str = "train"
    ) -> tuple[Float[ndarray, "n d"], Int[ndarray, " n"]]:
        """n points before rotation, and their labels, -1 or +1."""
        if n < 2:
            raise InputError("n", f"is {n}", "draw at least two points")
        draw = stream(seed, f"slabs-{purpose}")
        y = draw.choice([-1, 1], size=n)
        columns = [self._coordinate(k, y, draw) for k in self.blocks]
        return np.stack(columns, axis=1), y

    def _coordinate(
        self, k: int, y: Int[ndarray, " n"], draw: np.random.Generator
    ) -> Float[ndarray, " n"]:
        if k == LINEAR:
            z = y * draw.uniform(self.margin, 1.0, len(y))
            lost = draw.random(len(y)) < self.noise
            return np.where(lost, draw.uniform(-self.margin, self.margin, len(y)), z)
        # Slabs are numbered from the middle: 0, 1, ..., (k-1)/2; even ones are negative.
        width = (2.0 - 2.0 * (k - 1) * self.margin) / k
        inner = draw.random(len(y)) < np.where(y < 0, _INNER[k][0], _INNER[k][1])
        first = np.where(y < 0, 0, 1)
        ring = np.where(inner, first, first + 2)
        ring = np.minimum(ring, np.where((k - 1) // 2 >= first + 2, first + 2, first))
        start = np.where(ring == 0, 0.0, (ring - 0.5) * width + 2.0 * ring * self.margin)
        span = np.where(ring == 0, 0.5 * width, width)
        return draw.choice([-1.0, 1.0], size=len(y)) * (start + span * draw.random(len(y)))


def lms(k: int, d: int = 50, noise: float = 0.0, margin: float = 0.1) -> Slabs:
    """LMS-k: one linear coordinate and d - 1 of k slabs; `noise` above 0 makes it noisy LMS."""
    return Slabs((LINEAR, *([k] * (d - 1))), margin, noise)


def ms(simple: int = 5, complex: int = 7, d: int = 50, margin: float = 0.05) -> Slabs:
    """MS-(5,7): one coordinate of 5 slabs and d - 1 of 7."""
    return Slabs((simple, *([complex] * (d - 1))), margin)
