"""The SVM, the regularised path and the flow in log time, each against something slow and obvious."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.measures.svm import angle, checked_max_margin, max_margin
from featavg.nets.deep import Deep
from featavg.paper.engine.claim import Context
from featavg.paper.margins import linear
from featavg.paper.margins.linear import linear_flow, penalty_path
from featavg.training.controllers import ErrorControl
from featavg.training.driver import Stop, run
from featavg.training.losses import Logistic
from featavg.training.objectives import DeepObjective
from featavg.training.steppers.flow import GradientFlow


def points(seed: int, n: int = 14, d: int = 6) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    y = np.where(np.arange(n) < n // 2, 1, -1)
    return draw.standard_normal((n, d)) + 1.5 * y[:, None] * np.eye(d)[0], y


@pytest.mark.parametrize("seed", range(4))
def test_svm_against_a_general_solver(seed: int) -> None:
    x, y = points(seed, n=10, d=12)
    found = checked_max_margin(x, y)
    limits = {"type": "ineq", "fun": lambda w: y * (x @ w) - 1.0, "jac": lambda w: y[:, None] * x}
    slow = minimize(lambda w: 0.5 * w @ w, np.zeros(12), jac=lambda w: w, constraints=limits, method="SLSQP")
    assert np.linalg.norm(slow.x) == pytest.approx(1 / found.margin, rel=1e-5)
    assert float(angle(slow.x, found.w)) < 1e-4
    assert abs(found.gap) < 1e-12
    assert np.allclose(found.multipliers @ (y[:, None] * x), found.w)


BAD = {
    "not separable": (np.array([[1.0], [2.0]]), np.array([1, -1]), "not separable"),
    "both labels": (np.array([[1.0, 0], [0, 1], [1, 0]]), np.array([1, 1, -1]), "both labels"),
    "labels": (np.eye(2), np.array([0, 1]), "other than -1 and"),
    "nan": (np.array([[np.nan, 1.0], [1.0, 1.0]]), np.array([1, -1]), "not finite"),
    "zero": (np.zeros((2, 2)), np.array([1, 1]), "zero"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_told_in_a_sentence(name: str) -> None:
    x, y, words = BAD[name]
    with pytest.raises(InputError, match=words):
        max_margin(x, y)


def test_points_of_a_file(tmp_path: Path) -> None:
    """`featavg run margin-linear-flow --set points=FILE`."""
    x, y = points(0, n=10, d=12)
    np.savez(tmp_path / "good.npz", x=x, y=y)
    for one in (linear.margin_linear_flow, linear.margin_linear_path):
        evidence = one.run(Context(), points=str(tmp_path / "good.npz"), until=1e6)
        assert evidence.checks[0].measured < 1e-5
        assert evidence.numbers.sizes["data"] == 1
    np.savez(tmp_path / "twice.npz", x=np.array([[1.0, 0.0], [1.0, 0.0]]), y=np.array([1, -1]))
    np.savez(tmp_path / "mixed.npz", x=np.array([[1.0], [2.0]]), y=np.array([1, -1]))
    for name, words in (("twice", "both labels"), ("mixed", "separable"), ("none", "none.npz")):
        with pytest.raises(InputError, match=words):
            linear.margin_linear_flow.run(Context(), points=str(tmp_path / f"{name}.npz"))


def test_path_against_a_general_solver() -> None:
    x, y = points(0)
    depths = [1.0, 4.0, 8.0]
    found = penalty_path(x, y, depths)
    for depth, w in zip(depths, found, strict=True):

        def loss(w: np.ndarray, depth: float = depth) -> float:
            return float(np.mean(np.logaddexp(0, -y * (x @ w))) + 0.5 * math.exp(-depth) * w @ w)

        slow = minimize(loss, np.zeros(x.shape[1]), method="BFGS", options={"gtol": 1e-10})
        assert np.allclose(w, slow.x, rtol=1e-4, atol=1e-5)


def test_path_and_flow_end_in_the_svm() -> None:
    x, y = points(1, n=12, d=16)
    w = checked_max_margin(x, y).w
    assert float(angle(penalty_path(x, y, [1e7])[0], w)) < 1e-5
    assert float(angle(linear_flow(x, y, [1e6])[0], w)) < 1e-4


def test_flow_in_log_time_is_the_driver_s_flow() -> None:
    x, y = points(2)
    start = np.full((1, x.shape[1]), 1e-9)
    ran = run(
        DeepObjective(x, y, Deep((start,)), Logistic()),
        (start,),
        stepper=GradientFlow(tolerance=1e-8),
        controller=ErrorControl(),
        stop=Stop(steps=20000, log_time=3.0),
    )
    slow = ran.net.weights[0][0]
    assert np.allclose(linear_flow(x, y, [float(ran.log_times[-1])])[0], slow, atol=1e-5)


@pytest.mark.parametrize("times", [[], [1.0, 1.0], [math.inf]])
def test_times_must_rise(times: list[float]) -> None:
    x, y = points(0)
    with pytest.raises(InputError, match="log_times"):
        linear_flow(x, y, times)
    with pytest.raises(InputError, match="depths"):
        penalty_path(x, y, times if len(times) < 2 else [1.0, 0.0])


def test_clusters_are_separable_in_high_dimension() -> None:
    sample = MultiCluster(k=4, d=200).sample(30, seed=0)
    assert checked_max_margin(sample.x, sample.y).margin > 0
