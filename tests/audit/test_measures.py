"""The shared gradient and collapse, against slow and obvious twins."""

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.measures.collapse import collapse, linear_probe, subclass_collapse
from featavg.measures.shared_gradient import shared_gradient

GROUPS = np.array([0, 0, 0, 1, 1])


def made(shared, own, noise, n=40, d=50, seed=0):
    """Gradients with a part common to the class, a part of the sub-class, and noise."""
    rng = np.random.default_rng(seed)
    fine = np.arange(n * len(GROUPS)) % len(GROUPS)
    common, single = rng.standard_normal((2, d)), rng.standard_normal((len(GROUPS), d))
    rows = shared * common[GROUPS[fine]] + own * single[fine]
    return rows + noise * rng.standard_normal(rows.shape), fine


def by_hand(rows, fine):
    """A as it is defined, pair by pair."""
    mean = {j: rows[fine == j].mean(axis=0) for j in range(len(GROUPS))}
    unbiased = {}
    for j, g in mean.items():
        n = (fine == j).sum()
        noise = (rows[fine == j] ** 2).sum(axis=1).mean()
        unbiased[j] = (n * g @ g - noise) / (n - 1)
    pairs = [(i, j) for i in mean for j in mean if i < j and GROUPS[i] == GROUPS[j]]
    return np.mean([mean[i] @ mean[j] / np.sqrt(unbiased[i] * unbiased[j]) for i, j in pairs])


@pytest.mark.parametrize(("shared", "own"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.3, 1.0)])
def test_the_shared_gradient_is_its_formula(shared, own):
    rows, fine = made(shared, own, noise=1.0)
    result = shared_gradient(rows, fine, GROUPS, permutations=5, resamples=20)
    assert result.value == pytest.approx(by_hand(rows, fine), rel=1e-9)
    assert result.low <= result.value <= result.high


def test_noise_does_not_pull_it_down_but_the_plain_cosine_does():
    """With 20 noisy gradients a sub-class, |g_j|^2 is mostly noise; the unbiased U_j is not."""
    values, plain = [], []
    for seed in range(20):
        rows, fine = made(1.0, 0.0, noise=4.0, n=20, seed=seed)
        values.append(shared_gradient(rows, fine, GROUPS, 2, 2).value)
        means = np.stack([rows[fine == j].mean(axis=0) for j in range(5)])
        unit = means / np.linalg.norm(means, axis=1, keepdims=True)
        plain.append((unit @ unit.T)[0, 1])
    assert np.mean(values) == pytest.approx(1.0, abs=0.1)
    assert np.mean(plain) < 0.7


def test_permuted_labels_give_one_where_it_means_something_and_not_in_noise():
    rows, fine = made(0.0, 1.0, noise=0.5)
    good = shared_gradient(rows, fine, GROUPS)
    assert abs(good.value) < 0.5
    assert good.null == pytest.approx(1.0, abs=0.1)
    rng = np.random.default_rng(1)
    noise = shared_gradient(rng.standard_normal((200, 5000)), fine, GROUPS)
    assert noise.null < 0.9


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    """The truth is A of a very large sample."""
    truth = by_hand(*made(1.0, 1.0, 2.0, n=20_000))
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        rows, fine = made(1.0, 1.0, 0.0, n=40)
        result = shared_gradient(rows + 2.0 * rng.standard_normal(rows.shape), fine, GROUPS, 2, 200)
        covered += result.low <= truth <= result.high
    assert covered >= 50


def test_a_class_without_two_subclasses_is_refused():
    with pytest.raises(InputError, match="no class with two sub-classes"):
        shared_gradient(np.ones((4, 2)), np.array([0, 0, 1, 1]), np.array([0, 1]))


def test_collapse_is_its_formula():
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    means = rng.standard_normal((3, 6))
    x = means[labels] + 0.3 * rng.standard_normal((120, 6))
    measured = np.stack([x[labels == c].mean(axis=0) for c in range(3)])
    between = np.cov((measured - measured.mean(axis=0)).T, bias=True)
    within = (x - measured[labels]).T @ (x - measured[labels]) / len(x)
    found = collapse(x, labels, weights=measured, decided=labels)
    assert found.nc1 == pytest.approx(np.trace(within @ np.linalg.pinv(between, rcond=1e-9)) / 3)
    assert found.nc3 == pytest.approx(0.0, abs=1e-12)
    nearest = ((x[:, None] - measured[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert found.nc4 == pytest.approx(np.mean(nearest != labels))


def test_a_simplex_has_no_second_kind_of_distance():
    corners = np.eye(4) - 0.25
    x = np.repeat(corners, 5, axis=0)
    assert collapse(x, np.repeat(np.arange(4), 5)).nc2 == pytest.approx(0.0, abs=1e-12)


def test_collapsed_subclasses_are_noticed():
    rng = np.random.default_rng(0)
    fine = np.arange(200) % 4
    groups = np.array([0, 0, 1, 1])
    apart = 3.0 * np.eye(8)[fine] + 0.1 * rng.standard_normal((200, 8))
    together = 3.0 * np.eye(8)[groups[fine]] + 0.1 * rng.standard_normal((200, 8))
    one, other = (subclass_collapse(x, fine, groups) for x in (apart, together))
    assert one.same_class_cosine < 0.1
    assert one.probe == 1.0
    assert other.same_class_cosine > 0.95
    assert other.probe < 0.75
    assert other.chance == pytest.approx(0.5)
    assert linear_probe(apart, fine, groups)[0] == 1.0


def test_hashed_rows_keep_their_inner_products():
    from featavg.audit.gradients import HASHED, hashed

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((6, 70_000))
    short = hashed(rows)
    assert short.shape == (6, HASHED)
    scale = np.linalg.norm(rows, axis=1)
    assert np.abs((short @ short.T - rows @ rows.T) / np.outer(scale, scale)).max() < 0.04
    assert np.array_equal(hashed(rows[:, :100]), rows[:, :100])
    assert hashed(rows[:, : HASHED + 1], HASHED).shape == (6, HASHED)
