"""Which clusters, or which outputs of a network, are positive: one reading of what a user gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool
from numpy import ndarray

from featavg.errors import InputError


def positive_mask(
    positive: Sequence[int] | Sequence[bool] | ndarray, k: int, things: str = "clusters"
) -> Bool[ndarray, " k"]:
    """J+ as a mask over k clusters (or outputs), from a mask or from indices.

    The length decides, so that nothing can be read in two ways. k values are a mask: truth values,
    or the integers 0 and 1. Fewer are indices, each named once, from 0 to k - 1. (k different
    indices would name everything and leave the other class empty, so no valid list of indices is
    as long as a mask.)

    Args:
        positive: the mask or the indices.
        k: how many clusters or outputs there are.
        things: what they are called in an error.

    >>> positive_mask([0, 1, 0, 1], 4).tolist(), positive_mask([1, 3], 4).tolist()
    ([False, True, False, True], [False, True, False, True])
    """
    given = np.asarray(positive)
    if given.ndim != 1 or given.dtype.kind not in "biu" or not 1 <= len(given) <= k:
        raise InputError(
            "positive",
            f"is neither a mask of the {k} {things} nor a list of some of them",
            f"give {k} truth values, or the indices of the positive {things}",
        )
    mask = np.zeros(k, dtype=bool)
    if len(given) == k:
        if given.dtype.kind != "b" and not np.all((given == 0) | (given == 1)):
            raise InputError(
                "positive",
                f"has {k} numbers that are not all 0 or 1",
                f"a mask has {k} truth values, a list of indices fewer",
            )
        mask[:] = given != 0
    elif given.dtype.kind == "b":
        raise InputError(
            "positive",
            f"has {len(given)} truth values for {k} {things}",
            f"give {k} of them, or the indices of the positive {things}",
        )
    else:
        if given.min() < 0 or given.max() >= k or len(np.unique(given)) < len(given):
            raise InputError(
                "positive",
                f"names {things} outside 0..{k - 1} or twice",
                f"name each of the positive {things} once, by index",
            )
        mask[given] = True
    if mask.all() or not mask.any():
        raise InputError(
            "positive", "leaves a class empty", f"both classes need one of the {k} {things}"
        )
    return mask
