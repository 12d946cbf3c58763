"""Exact radii of deep networks: cost against depth and width, GeoCert's shapes, mixed-integer programs.

CPU time of one core. The published numbers of GeoCert (Jordan, Lewis and Dimakis, NeurIPS 2019; its
code, repaired and run once on 64-M-2 networks of digits' parity) are printed beside ours.
"""

from __future__ import annotations

from itertools import pairwise
from time import process_time

import numpy as np
from row import Row, program_seconds
from scipy.optimize import Bounds, LinearConstraint, milp

from featavg.data.clusters import MultiCluster
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.paper.margins.homogeneous import random_deep
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.radii import radii
from featavg.training.controllers import Constant
from featavg.training.driver import Stop, run
from featavg.training.losses import Logistic
from featavg.training.objectives import DeepObjective
from featavg.training.steppers import GradientDescent
from featavg.training.train import train

# seconds a point, median and largest, for M hidden neurons; None where nothing came within 250 s.
GEOCERT = {8: (0.1, 0.16), 16: (0.35, 9.4), 32: None}
BIG_M = 1e3


def rows() -> list[Row]:
    return [_paper_shape(), *_depths(), *_geocert_shapes(), *_mixed_integer()]


def _timed(net: Deep | TwoLayer, x: np.ndarray, y: np.ndarray, nodes: int) -> tuple[np.ndarray, list]:
    """Seconds for each point, and how each search ended."""
    seconds, ends = np.zeros(len(x)), []
    for i in range(len(x)):
        start = process_time()
        found = radii(net, x[i : i + 1], y[i : i + 1], budget=Budget(nodes=nodes), jobs=1)
        seconds[i] = process_time() - start
        ends.append(found.outcomes[0])
    return seconds, ends


def _trained(depth: int, m: int, residual: bool = False) -> tuple[Deep | TwoLayer, MultiCluster]:
    task = MultiCluster(k=10, d=3072)
    recipe = {"labels": "coarse", "depth": depth, "m": m, "residual": residual, "layers": "all"}
    return train(task, n=300, seed=0, steps=300, target_log_loss=np.log(0.1), **recipe).net, task


def _paper_shape() -> Row:
    net, task = _trained(4, 5)
    test = task.sample(40, seed=1)
    seconds, ends = _timed(net, test.coordinates(net.dimension), test.y, 2000)
    middle = float(np.median(seconds)) / program_seconds()
    return Row(
        "deep radius, three hidden layers of 10 neurons, d = 3072: in small QPs, median",
        f"{middle:.0f}",
        "<= 4000",
        middle <= 4000,
        f"slowest {1e3 * seconds.max():.0f} ms, {_open(ends)} of {len(ends)} left open",
    )


def _depths() -> list[Row]:
    """Trained networks, each point within 300 programs."""
    table = []
    for depth in (3, 4, 6):
        for m, residual in ((5, False), (5, True), (10, True)):
            net, task = _trained(depth, m, residual)
            test = task.sample(8, seed=1)
            seconds, ends = _timed(net, test.coordinates(net.dimension), test.y, 300)
            kind = "residual" if residual else "plain"
            table.append(
                Row(
                    f"deep radius, {depth} layers, {2 * m} neurons each, {kind}: in small QPs, median",
                    f"{np.median(seconds) / program_seconds():.0f}",
                    "",
                    None,
                    f"{_open(ends)} of {len(ends)} left open by 300 programs",
                )
            )
    return table


def _open(ends: list) -> int:
    return sum(end not in (RadiusStatus.EXACT, RadiusStatus.MISCLASSIFIED) for end in ends)


def _geocert_shapes() -> list[Row]:
    """64-M networks trained on the parity of digits, as in the published comparison."""
    table = []
    for neurons, published in GEOCERT.items():
        net, x, y = _digits_network(neurons)
        seconds, ends = _timed(net, x[:12], y[:12], 2000)
        middle = float(np.median(seconds))
        theirs = "no result within 250 s" if published is None else f"{published[0]} s on their machine"
        table.append(
            Row(
                f"64-{neurons}-2 on digits' parity: in small QPs, median",
                f"{middle / program_seconds():.0f}",
                "",
                None,
                f"{middle:.3f} s here, GeoCert: {theirs}; slowest here {seconds.max():.2f} s, {_open(ends)} of "
                f"{len(ends)} left open by 2000 programs",
            )
        )
    return table


def _digits_network(neurons: int) -> tuple[Deep, np.ndarray, np.ndarray]:
    """Full-batch descent on the logistic loss; two outputs decide by their difference, one output."""
    from sklearn.datasets import load_digits

    pictures, digit = load_digits(return_X_y=True)
    x, y = pictures / 16.0, np.where(digit % 2 == 0, 1, -1)
    net = random_deep(64, (neurons, 1), 1.0, (0,))[0]
    objective = DeepObjective(x[:1200], y[:1200], net, Logistic())
    ran = run(
        objective,
        objective.params_of(net),
        stepper=GradientDescent(),
        controller=Constant(rate=0.3),
        stop=Stop(steps=600),
    )
    right = y[1200:] * ran.net(x[1200:])[:, 0] > 0
    return ran.net, x[1200:][right], y[1200:][right]


def _mixed_integer() -> list[Row]:
    """The same random networks by branch and bound in l2 and by HiGHS in l_inf."""
    rng = np.random.default_rng(0)
    ours, theirs = [], []
    for _ in range(6):
        sizes = (20, 8, 8, 1)
        net = Deep(tuple(rng.normal(size=(m, p)) for p, m in pairwise(sizes)))
        x = rng.normal(size=(1, 20))
        y = np.where(net(x)[:, 0] > 0, 1, -1)
        seconds, _ = _timed(net, x, y, 2000)
        ours.append(float(seconds[0]))
        start = process_time()
        _linf_by_milp(net, x[0], int(y[0]))
        theirs.append(process_time() - start)
    return [
        Row(
            "20-8-8-1, random: l2 radius here against l_inf by mixed-integer programming (HiGHS)",
            f"{np.median(theirs) / np.median(ours):.1f}x",
            "",
            None,
            f"median {1e3 * np.median(ours):.0f} ms here, {1e3 * np.median(theirs):.0f} ms for the MILP "
            "(60 s at most); l2 cannot be asked of a MILP",
        )
    ]


def _linf_by_milp(net: Deep, x: np.ndarray, y: int) -> float:
    """min t with |u| <= t, y F(x + u) <= 0, every ReLU with a binary variable and a big M.

    Variables: u, t, then for every hidden layer the activations h and the binaries s.
    """
    d, hidden = net.dimension, net.widths[:-1]
    size = d + 1 + 2 * sum(hidden)
    rows, low, high = [], [], []

    def add(row: np.ndarray, least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for i in range(d):
        for sign in (1.0, -1.0):
            row = np.zeros(size)
            row[i], row[d] = sign, -1.0
            add(row, -np.inf, 0.0)
    start, below, offset = d + 1, np.eye(d, size), x
    for number, width in enumerate(hidden):
        slopes = net.weights[number] @ below
        constants = net.weights[number] @ offset
        for r in range(width):
            h, s = start + r, start + width + r
            row = -slopes[r]
            row[h] += 1.0
            add(row.copy(), float(constants[r]), np.inf)  # h >= z
            row[s] += BIG_M
            add(row, -np.inf, float(constants[r]) + BIG_M)  # h <= z + M (1 - s)
            row = np.zeros(size)
            row[h], row[s] = 1.0, -BIG_M
            add(row, -np.inf, 0.0)  # h <= M s
        below, offset = np.zeros((width, size)), np.zeros(width)
        below[np.arange(width), start + np.arange(width)] = 1.0
        start += 2 * width
    add(y * (net.weights[-1] @ below)[0], -np.inf, 0.0)
    least, most, whole = np.full(size, -np.inf), np.full(size, np.inf), np.zeros(size)
    least[d:] = 0.0
    start = d + 1
    for width in hidden:
        whole[start + width : start + 2 * width] = 1
        most[start + width : start + 2 * width] = 1.0
        start += 2 * width
    cost = np.zeros(size)
    cost[d] = 1.0
    answer = milp(
        cost,
        integrality=whole,
        bounds=Bounds(least, most),
        constraints=LinearConstraint(np.array(rows), low, high),
        options={"time_limit": 60.0},
    )
    return float(answer.fun) if answer.fun is not None else np.inf


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
