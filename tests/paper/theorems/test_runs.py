"""Runs of the theorems against their weights by hand, and formulas against what they solve."""

import math

import numpy as np
import pytest
from tests.claims.sabotage import forget_results

from featavg.paper.theorems import runs
from featavg.paper.theorems.assumptions import predicted_coefficients
from featavg.paper.theorems.proof import epsilon, epsilon_exponent


@pytest.fixture
def samples(monkeypatch):
    """Sets the power of k that is n, and forgets the runs with it."""
    yield lambda power: monkeypatch.setattr(runs, "SAMPLES_POWER", power)
    forget_results()


def test_a_run_of_the_regime_by_hand(samples) -> None:
    """deviation, differences and biases of the end, from the weights themselves."""
    samples(5)
    run = runs.theorem_run("coarse", 3, 0, tests=50)
    task = runs.MultiCluster(k=3, d=3**10)
    data = runs.draw(task, 3**5, 6, 0)
    net = runs.train(data, runs.theorem_recipe("coarse", 3, 3**10)).net
    own = np.array([[True, False, False]] * 3 + [[False, True, True]] * 3)
    end = run.isel(save=-1)
    off = net.weights.copy()
    off[:, :3] -= float(end["lam"]) * own / math.sqrt(task.d)
    far = math.sqrt(task.d) * np.linalg.norm(off, axis=1).max()
    assert float(end["deviation"]) == pytest.approx(far, rel=1e-6)
    assert float(end["bias"]) == pytest.approx(np.abs(net.biases).max(), rel=1e-6)
    assert float(end["log_time"]) == pytest.approx(math.log(3**8), abs=2e-3)
    assert run["own_active"].values[0] < 0.9
    assert run["own_active"].values[-1] == 1.0
    found = runs.numbers(run)
    late = run["log_time"].values >= 0
    assert found["worst_deviation"] == run["deviation"].values[late].max()
    assert found["first_lam"] == run["lam"].values[late][0]
    assert found["relative"] == found["deviation"] / found["lam"]


def test_the_tolerance_of_the_flow_costs_a_tenth_of_a_percent(samples) -> None:
    """What the claims in the regime say about lambda, on n = k^6 samples."""
    samples(6)
    loose, used, tight = (
        runs.numbers(runs.theorem_run("coarse", 3, 0, tests=50, tolerance=tolerance))["lam"]
        for tolerance in (1e-3, runs.FLOW_TOLERANCE, 3e-5)
    )
    assert abs(used / tight - 1) < 2e-3 < abs(loose / tight - 1)


def test_predicted_coefficients_solve_their_equation() -> None:
    shares = np.array([0.02, 0.1, 0.5])
    lam = predicted_coefficients(shares, 60.0)
    np.testing.assert_allclose(lam + np.exp(lam) - 1, 60.0 * shares)


def test_epsilon_is_the_largest_of_three() -> None:
    first = 2 * math.log(729) / (math.sqrt(729) - math.log(729))
    assert epsilon(3, 3**7, 3.0**10) == pytest.approx(first)
    assert epsilon(10, 1e9, 1e6) == pytest.approx(100 * math.log(1e6) / 1e3)
    assert epsilon_exponent(n_power=5.0) > -2.5 > epsilon_exponent()
