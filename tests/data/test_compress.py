"""Compression is exact in law: the same numbers, drawn in R^d and in n+k+M coordinates, agree."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from featavg.data import compress
from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw, draw_many
from featavg.errors import InputError
from featavg.nets.two_layer import grouped
from featavg.training.controllers import Constant
from featavg.training.driver import Stop, run
from featavg.training.losses import PooledLogistic
from featavg.training.objectives import TwoLayerObjective
from featavg.training.train import train

# So close to d that a wrong number of degrees of freedom shows: 4 + 4 + 12 = 20 <= 24.
TASK = MultiCluster(k=4, d=24, cosine=0.3, sigma=0.7)
N, NEURONS, DRAWS = 12, 4, 3000
# Twelve statistics at a joint level of 1e-3: a right sampler fails one run in a thousand, and the
# seeds are fixed, so it does not.
LEVEL = 1e-3 / 12


def statistics(data: TrainingSet) -> dict[str, float]:
    """Numbers that together see every block of the Gram matrix of all vectors of the frame."""
    noise = data.noise
    weights, features = data.unit_weights, data.features
    return {
        "|xi_first|": float(np.linalg.norm(noise[0])),
        "|xi_last|": float(np.linalg.norm(noise[-1])),
        "<xi_first, xi_last>": float(noise[0] @ noise[-1]),
        "<xi_last, xi_before>": float(noise[-1] @ noise[-2]),
        "|w_first|": float(np.linalg.norm(weights[0])),
        "|w_last|": float(np.linalg.norm(weights[-1])),
        "<w_first, w_last>": float(weights[0] @ weights[-1]),
        "<w, xi>": float(weights[-1] @ noise[-1]),
        "<w, mu>": float(weights[0] @ features[-1]),
        "<xi, mu>": float(noise[0] @ features[1]),
        "smallest eigenvalue": float(np.linalg.eigvalsh(noise @ noise.T)[0]),
        "determinant": float(np.linalg.slogdet(noise @ noise.T)[1]),
    }


def table(coordinates: str, first_seed: int) -> dict[str, np.ndarray]:
    rows = [statistics(draw(TASK, N, NEURONS, seed, coordinates)) for seed in range(first_seed, first_seed + DRAWS)]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def ambient() -> dict[str, np.ndarray]:
    return table("ambient", 0)


def differing(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    return [name for name in one if ks_2samp(one[name], other[name]).pvalue < LEVEL]


def test_every_inner_product_has_the_law_of_the_real_dimension(ambient) -> None:
    assert differing(ambient, table("compressed", 10**6)) == []


@pytest.mark.parametrize("shift", [-1, 1])
def test_one_degree_of_freedom_too_many_or_too_few_is_noticed(ambient, monkeypatch, shift) -> None:
    right = compress.fill_bartlett
    monkeypatch.setattr(compress, "fill_bartlett", lambda rows, before, d, rng: right(rows, before, d + shift, rng))
    assert differing(ambient, table("compressed", 10**6)) != []


def test_training_has_the_law_of_the_real_dimension() -> None:
    task = MultiCluster(k=2, d=24)
    seeds = list(range(1500))
    losses = {
        frame: train(task, n=8, m=2, seed=seeds, lr=0.02, sigma_w=0.05, steps=15, coordinates=frame).log_loss[-1]
        for frame in ("ambient", "compressed")
    }
    assert ks_2samp(losses["ambient"], losses["compressed"]).pvalue > 1e-3
    assert not np.array_equal(losses["ambient"], losses["compressed"])


@pytest.mark.parametrize(
    ("d", "expected"), [(19, "ambient"), (20, "ambient"), (21, "compressed"), (10**9, "compressed")]
)
def test_auto_compresses_when_it_is_exact_and_smaller(d: int, expected: str) -> None:
    assert draw(MultiCluster(k=4, d=d), 12, 4, seed=0).coordinates == expected


def test_a_random_orientation_stays_in_the_real_dimension() -> None:
    task = MultiCluster(k=4, d=100, orientation="random")
    assert draw(task, 12, 4, seed=0).coordinates == "ambient"


def test_compression_that_cannot_be_exact_is_refused() -> None:
    with pytest.raises(InputError, match="coordinates are compressed"):
        draw(MultiCluster(k=4, d=19), 12, 4, seed=0, coordinates="compressed")


def test_a_huge_sample_says_how_much_memory_it_needs() -> None:
    with pytest.raises(InputError, match=r"n asks for 12 TB of memory"):
        draw(MultiCluster(k=4, d=10**9), 10**6, 4, seed=0)


def test_seeds_are_stacked_as_they_are_drawn_alone() -> None:
    task = MultiCluster(k=4, d=1000)
    many = draw_many(task, 12, 4, seeds=(3, 5))
    for i, seed in enumerate((3, 5)):
        np.testing.assert_array_equal(many.x[i], draw(task, 12, 4, seed).x)


def test_networks_of_one_draw_share_the_points() -> None:
    data = draw(MultiCluster(k=2, d=1000), 12, neurons=6, seed=0)
    first, second = data.share(0, 4), data.share(4, 2)
    assert first.x is second.x
    stacked = np.concatenate([first.unit_weights, second.unit_weights])
    np.testing.assert_array_equal(stacked, data.unit_weights)


def test_competition_has_the_law_of_the_real_dimension() -> None:
    """Only inner products decide who wins, so compression is exact for competing neurons, too."""
    task = MultiCluster(k=4, d=30)
    seeds = list(range(1500))
    losses = {}
    for frame in ("ambient", "compressed"):
        data = draw_many(task, 8, 4, seeds, frame)
        net = grouped(0.05 * data.unit_weights, 4)
        objective = TwoLayerObjective(data.x, data.y, net, PooledLogistic("max"), ("weights",))
        start = objective.params_of(net)
        done = run(objective, start, stepper="gd", controller=Constant(0.02), stop=Stop(15))
        losses[frame] = done.log_loss[-1]
    assert ks_2samp(losses["ambient"], losses["compressed"]).pvalue > 1e-3
    assert not np.array_equal(losses["ambient"], losses["compressed"])
