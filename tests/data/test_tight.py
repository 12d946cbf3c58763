"""The data at the ends of what is allowed, and with numbers that tell every factor apart."""

from __future__ import annotations

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster, positive_mask
from featavg.data.compress import draw
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.training.objectives import RowBlocks


@pytest.mark.parametrize(("beyond", "allowed"), [(1e-9, True), (3e-9, False)])
def test_a_gram_matrix_may_miss_zero_by_rounding_only(beyond: float, allowed: bool) -> None:
    """Its eigenvalues are 2 + beyond and -beyond; what is allowed is 1e-9 of the trace, 2e-9."""
    gram = [[1.0, 1.0 + beyond], [1.0 + beyond, 1.0]]
    if allowed:
        assert MultiCluster(k=2, d=9, gram=gram).features.shape == (2, 2)
    else:
        with pytest.raises(InputError, match="gram has eigenvalue"):
            MultiCluster(k=2, d=9, gram=gram)


def test_a_feature_has_a_length() -> None:
    with pytest.raises(InputError, match="gram has eigenvalue 0"):
        MultiCluster(k=2, d=9, gram=[[1.0, 0.0], [0.0, 0.0]])


def test_lengths_and_cosines_go_together() -> None:
    task = MultiCluster(k=3, d=9, norms=(1.0, 2.0, 3.0), cosine=0.5)
    np.testing.assert_allclose(task.gram_matrix, [[1.0, 1.0, 1.5], [1.0, 4.0, 3.0], [1.5, 3.0, 9.0]])


@pytest.mark.parametrize("coordinates", ["compressed", "ambient"])
def test_points_are_features_and_noise(coordinates: str) -> None:
    task = MultiCluster(k=2, d=200, alpha=3.0, sigma=0.25)
    data = draw(task, 50, 4, seed=0, coordinates=coordinates)
    np.testing.assert_allclose(data.noise + 3.0 * data.features[data.clusters], data.x)
    # 200 squares of deviation 1/4 for each point: their mean is 1/16, to 3%.
    assert (data.noise**2).sum() / (50 * 200) == pytest.approx(1 / 16, rel=0.1)


def test_an_index_is_named_once() -> None:
    with pytest.raises(InputError, match="or twice"):
        positive_mask([1, 1], 4)


def test_a_zero_column_in_the_middle_is_not_the_end() -> None:
    x = np.tril(np.random.default_rng(0).normal(size=(640, 640)))
    x[:, 3] = 0.0
    blocks, weights = RowBlocks(x), np.random.default_rng(1).normal(size=(2, 640))
    assert len(blocks.cuts) > 1
    np.testing.assert_allclose(blocks.times(weights), x @ weights.T, atol=1e-9)
    slopes = np.random.default_rng(2).normal(size=(640, 2))
    np.testing.assert_allclose(blocks.gathered(slopes), slopes.T @ x, atol=1e-9)


def test_streams_of_one_seed_differ_by_purpose_and_of_one_purpose_by_seed() -> None:
    first, other, next_seed = (stream(*pair).normal() for pair in ((0, "noise"), (0, "weights"), (1, "noise")))
    assert len({first, other, next_seed}) == 3
