"""Every convex piece of a flipped set, listed: for networks with few neurons on the far side."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.robustness.exact.flipped_set import Family
from featavg.robustness.exact.subspace import Subspace


@dataclass(frozen=True, eq=False)
class Leaves:
    r"""The convex sets {up_i . relu(z) + shift_i <= down_i . z_S for all i}, one for each subset S.

    A sum of ReLUs is the maximum over subsets S of neurons of the sums over S without ReLUs. So
    the flipped set is the union over S of these sets: 2^m of them for a binary network with m
    neurons a class, where the activation regions are 2^(2m).

    Attributes:
        families: the families, all with I inequalities.
        family: the family of each leaf.
        down: down_i restricted to S.
        slopes: the same in the coordinates u.
    """

    families: list[Family]
    family: Int[ndarray, " K"]
    down: Float[ndarray, "K I M"]
    slopes: Float[ndarray, "K I r"]

    @property
    def up(self) -> Float[ndarray, "F I M"]:
        """The convex sides of all families."""
        return np.stack([family.up for family in self.families])

    @property
    def shift(self) -> Float[ndarray, "F I"]:
        """Their constants."""
        return np.stack([family.shift for family in self.families])


def count_pieces(families: list[Family]) -> int:
    """How many leaves there would be."""
    return sum(2 ** int(family.concave.sum()) for family in families)


def list_leaves(space: Subspace, families: list[Family]) -> Leaves:
    """List them.

    >>> from featavg.nets.two_layer import binary
    >>> from featavg.robustness.exact.flipped_set import flipped
    >>> from featavg.robustness.exact.subspace import reduce
    >>> space = reduce(binary(np.eye(6)))
    >>> leaves(space, flipped(space, [np.array([[1.0]])])).down.shape
    (8, 1, 6)
    """
    family, down = [], []
    for number, one in enumerate(families):
        chosen = np.flatnonzero(one.concave)
        patterns = np.array(list(product((1.0, 0.0), repeat=len(chosen))))
        mask = np.zeros((len(patterns), one.down.shape[1]))
        mask[:, chosen] = patterns
        down.append(one.down[None] * mask[:, None, :])
        family.append(np.full(len(patterns), number))
    stacked = np.concatenate(down)
    return Leaves(families, np.concatenate(family), stacked, stacked @ space.rows)
