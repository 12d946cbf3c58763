"""The paper's experiments as results: JSON, a text that fits a screen, a figure for a notebook."""

import json
import math

import numpy as np
import pytest
from tests.claims.sabotage import everywhere, forget_results

from featavg.paper.figures import clean_errors, radius_scaling, universal
from featavg.paper.theorems import (
    biased_average,
    dead_neurons,
    paper_runs,
    radius_runs,
    theorem_runs,
    unequal_sizes,
)
from featavg.paper.theorems.decoupling_proof import epsilon, epsilon_exponent
from featavg.paper.theorems.theorem_runs import theorem_run


def small_growth(patch):
    everywhere(patch, radius_runs, "RADIUS_DIMENSIONS", (3_162, 100_000))
    everywhere(patch, radius_runs, "RADIUS_CLUSTERS", (4, 20))
    patch.setattr(radius_scaling, "IDEAL_POINTS", 4)


def small_paper_run(patch):
    patch.setattr(paper_runs, "N_TRAIN", 100)
    patch.setattr(paper_runs, "STEPS", 5)


def small_unequal(patch):
    patch.setattr(unequal_sizes, "N_TRAIN", 100)
    patch.setattr(unequal_sizes, "PARTITIONS", (2,))


def small_dead(patch):
    for name, value in (("DRAWS", 10), ("SIZES", (20, 40)), ("TRAINED", 1)):
        patch.setattr(dead_neurons, name, value)


def small_grid(patch):
    patch.setattr(biased_average, "THRESHOLDS", (0.0, 0.6))
    patch.setattr(biased_average, "POINTS", 4)


RESULTS = {
    "bias_grid": (small_grid, lambda: biased_average.bias_grid(0)),
    "clean_error": (
        lambda patch: patch.setattr(clean_errors, "POINTS", 200),
        lambda: clean_errors.clean_error((0,)),
    ),
    "dead_neurons": (small_dead, lambda: dead_neurons.dead_neurons_study(0)),
    "paper_run": (small_paper_run, lambda: paper_runs.paper_run("coarse", (0, 1))),
    "radius_growth": (small_growth, lambda: radius_scaling.radius_growth(("f_FA", "biased"), (0,))),
    "remark_lengths": (lambda patch: None, lambda: universal.remark_lengths((0,))),
    "unequal_clusters": (small_unequal, lambda: unequal_sizes.unequal_clusters((0,))),
}


@pytest.mark.parametrize("name", RESULTS)
def test_an_experiment_shows_itself(name, monkeypatch) -> None:
    small, run = RESULTS[name]
    small(monkeypatch)
    forget_results()
    result = run()
    forget_results()
    json.dumps(result.to_json())
    assert 1 <= len(repr(result).splitlines()) <= 24
    assert max(map(len, repr(result).splitlines())) < 240
    assert result._repr_html_().startswith("<figure><svg")


def test_a_run_of_the_regime_by_hand(monkeypatch) -> None:
    """deviation, differences and biases of the end, from the weights themselves."""
    monkeypatch.setattr(theorem_runs, "SAMPLES_POWER", 5)
    forget_results()
    run = theorem_run("coarse", 3, 0, tests=50)
    forget_results()
    task = theorem_runs.MultiCluster(k=3, d=3**10)
    data = theorem_runs.draw(task, 3**5, 6, 0)
    recipe = theorem_runs.theorem_recipe("coarse", 3, 3**10)
    net = theorem_runs.train(data, recipe).net
    own = np.array([[True, False, False]] * 3 + [[False, True, True]] * 3)
    ideal = run.lam[-1] * own / math.sqrt(task.d)
    off = net.weights.copy()
    off[:, :3] -= ideal
    far = math.sqrt(task.d) * np.linalg.norm(off, axis=1).max()
    assert run.deviation[-1] == pytest.approx(far, rel=1e-6)
    assert run.bias[-1] == pytest.approx(np.abs(net.biases).max(), rel=1e-6)
    assert run.log_times[-1] == pytest.approx(math.log(3**8), abs=2e-3)
    assert run.own_active[0] < 0.9
    assert run.own_active[-1] == 1.0


def test_the_tolerance_of_the_flow_costs_a_tenth_of_a_percent(monkeypatch) -> None:
    """What the claims in the regime say about lambda, on n = k^6 samples."""
    monkeypatch.setattr(theorem_runs, "SAMPLES_POWER", 6)
    forget_results()
    tolerances = (1e-3, theorem_runs.FLOW_TOLERANCE, 3e-5)
    loose, used, tight = (
        theorem_run("coarse", 3, 0, tests=50, tolerance=tolerance).lam[-1]
        for tolerance in tolerances
    )
    forget_results()
    assert abs(used / tight - 1) < 2e-3 < abs(loose / tight - 1)


def test_predicted_coefficients_solve_their_equation() -> None:
    shares = np.array([0.02, 0.1, 0.5])
    lam = unequal_sizes.predicted_coefficients(shares, 60.0)
    np.testing.assert_allclose(lam + np.exp(lam) - 1, 60.0 * shares)


def test_epsilon_is_the_largest_of_three() -> None:
    assert epsilon(3, 3**7, 3.0**10) == pytest.approx(
        2 * math.log(729) / (math.sqrt(729) - math.log(729))
    )
    assert epsilon(10, 1e9, 1e6) == pytest.approx(100 * math.log(1e6) / 1e3)
    assert epsilon_exponent(n_power=5.0) > -2.5 > epsilon_exponent()
