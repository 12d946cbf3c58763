"""On which coordinates does a classifier rely? Shuffle a block of them and see what is left.

Shah et al. (2020): permute the values of some coordinates among the test points, which keeps their
distribution and destroys what they say about the label, and measure the area under the ROC curve.
A classifier that relies on the block falls to 0.5; one that ignores it stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
from numpy import ndarray
from scipy.stats import rankdata

from featavg.data.streams import stream


def auc(scores: Float[ndarray, " n"], y: Int[ndarray, " n"]) -> float:
    """P(score of a positive > score of a negative), ties counted half.

    >>> import numpy as np
    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([-1, -1, 1, 1]))
    0.75
    """
    ranks = rankdata(scores)
    up = y > 0
    positives, negatives = int(up.sum()), int((~up).sum())
    above = ranks[up].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def shuffled_auc(
    classifier: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]],
    coordinates: Float[ndarray, "n d"],
    y: Int[ndarray, " n"],
    block: Sequence[int],
    rotation: Float[ndarray, "d d"] | None,
    seed: int,
) -> float:
    """The AUC after the coordinates of `block` have been permuted among the points, as one block.

    Args:
        classifier: from points to scores.
        coordinates: the points before they were turned; points are coordinates @ rotation.
        block: which coordinates to shuffle; none of them gives the plain AUC.
        rotation: None if the points were not turned.
        y: labels, -1 or +1.
        seed: of the permutation.

    >>> import numpy as np
    >>> import featavg as fa
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(rng.random(200) < 0.5, 1, -1)
    >>> x = np.column_stack([y, rng.standard_normal(200)])
    >>> fa.shuffled_auc(lambda x: x[:, 0], x, y, [1], None, seed=0)
    1.0
    """
    moved = coordinates.copy()
    order = stream(seed, "block-shuffle").permutation(len(y))
    moved[:, list(block)] = coordinates[order][:, list(block)]
    return auc(classifier(moved if rotation is None else moved @ rotation), y)
