"""Products that skip zeros are the plain products."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.training.objectives import RowBlocks

RNG = np.random.default_rng(5)
MATRICES = {
    "dense": RNG.normal(size=(600, 40)),
    "small": np.tril(RNG.normal(size=(20, 20))),
    "triangular": np.tril(RNG.normal(size=(800, 800))),
    "compressed": draw(MultiCluster(k=4, d=10**6), 600, 6, seed=0).x,
    "a batch": np.tril(RNG.normal(size=(3, 600, 600))),
    "zero": np.zeros((600, 600)),
    "zero rows": np.vstack([np.zeros((400, 600)), RNG.normal(size=(400, 600))]),
    "one late entry": np.where(np.arange(600) == 599, 1.0, np.tril(RNG.normal(size=(600, 600)))),
}


@pytest.mark.parametrize("name", MATRICES)
def test_both_products_are_the_plain_ones(name: str) -> None:
    x = MATRICES[name]
    weights = RNG.normal(size=(*x.shape[:-2], 5, x.shape[-1]))
    slopes = RNG.normal(size=(*x.shape[:-2], x.shape[-2], 5))
    blocks = RowBlocks(x)
    np.testing.assert_allclose(blocks.times(weights), x @ np.swapaxes(weights, -1, -2), atol=1e-9)
    np.testing.assert_allclose(blocks.gathered(slopes), np.swapaxes(slopes, -1, -2) @ x, atol=1e-9)


def test_zeros_are_skipped_only_where_there_are_some() -> None:
    assert len(RowBlocks(MATRICES["compressed"]).cuts) == 16
    for name in ("dense", "small", "one late entry"):
        assert len(RowBlocks(MATRICES[name]).cuts) == 1
