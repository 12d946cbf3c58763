"""Attacks: one minimal-norm pass against PGD-40 at 20 radii, foolbox, and a general verifier."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
from row import Row

from featavg.nets.two_layer import TwoLayer, binary
from featavg.paper.images.attacks import compare_attacks, strength
from featavg.robustness.attacks.attack import AttackResult
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.curve import curve, pgd_curve
from featavg.robustness.models.torch_model import TorchModel, torch_model
from featavg.robustness.radii import radii

IMAGES, RADII, STEPS = 200, 20, 40
EVEN = np.arange(10) % 2 == 0


def rows() -> list[Row]:
    try:
        import torch
    except ImportError:
        return [Row("attacks on images", "not run", "", None, "pip install featavg[torch]")]
    torch.set_num_threads(1)
    model, x, y, digit = _digits()
    start = process_time()
    ours = attack_suite(model, x, y)
    seconds = process_time() - start
    return [*_against_pgd(model, x, y, digit, ours, seconds), *_against_foolbox(model, x, y), *_against_marabou()]


def _digits() -> tuple[TorchModel, np.ndarray, np.ndarray, np.ndarray]:
    """A convolutional network on scikit-learn's digits: parity, read off ten outputs."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn

    torch.manual_seed(0)
    pixels, digit = load_digits(return_X_y=True)
    images = (pixels / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    # Large enough that passes through the network, not the arithmetic of an attack, are the cost.
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )
    x, target = torch.as_tensor(images[:1300]), torch.as_tensor(digit[:1300])
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(8):
        for part in torch.randperm(1300).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[part]), target[part]).backward()
            optimizer.step()
    test = slice(1300, 1300 + IMAGES)
    y = np.where(digit[test] % 2 == 0, 1, -1)
    return torch_model(net, positive=EVEN), images[test], y, digit[test]


def _against_pgd(
    model: TorchModel, x: np.ndarray, y: np.ndarray, digit: np.ndarray, ours: AttackResult, seconds: float
) -> list[Row]:
    at = np.linspace(0.0, float(np.quantile(ours.radii, 0.95)), RADII + 1)[1:]
    start = process_time()
    published = pgd_curve(model, x, y, at, own=digit, steps=STEPS)
    stopping = process_time() - start
    full = _plain_pgd_seconds(model, x, digit, at)
    above = float(np.max(curve(ours, at).accuracy - published.accuracy))
    return [
        Row(
            "minimal-norm pass against PGD-40 at 20 radii",
            f"{full / seconds:.1f}x",
            "5x",
            full / seconds >= 5,
            f"{seconds:.1f} s against {full:.1f} s of CPU, {ours.gradients:.0f} gradients a point "
            f"against {STEPS * RADII}",
        ),
        Row(
            "the same, PGD stopping at the first flip",
            f"{stopping / seconds:.1f}x",
            "",
            None,
            f"{stopping:.1f} s: our PGD leaves out points that have flipped",
        ),
        Row(
            "robust accuracy above PGD-40's anywhere",
            f"{above:+.3f}",
            "<= 0",
            above <= 0,
            "largest difference over the 20 radii; negative: below it everywhere",
        ),
    ]


def _plain_pgd_seconds(model: TorchModel, x: np.ndarray, digit: np.ndarray, at: np.ndarray) -> float:
    """PGD-40 in l2 as anybody would write it in PyTorch: every point, every step, every radius."""
    import torch

    points, target = torch.as_tensor(x), torch.as_tensor(digit)
    start = process_time()
    for radius in at:
        delta = torch.zeros_like(points, requires_grad=True)
        for _ in range(STEPS):
            loss = torch.nn.functional.cross_entropy(model.module(points + delta), target, reduction="sum")
            (gradient,) = torch.autograd.grad(loss, delta)
            with torch.no_grad():
                size = gradient.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
                moved = delta + (2.5 / STEPS) * radius * gradient / size
                length = moved.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
                moved *= (radius / length).clamp_max(1.0)
                delta = ((points + moved).clamp(0, 1) - points).requires_grad_()
        with torch.no_grad():
            model.module(points + delta).argmax(dim=1)
    return process_time() - start


def _against_foolbox(model: TorchModel, x: np.ndarray, y: np.ndarray) -> list[Row]:
    try:
        import foolbox  # noqa: F401
    except ImportError:
        return [Row("ours against foolbox", "not run", "", None, "pip install foolbox")]
    rows = []
    for norm in ("l2", "linf"):
        comparison = compare_attacks(model, x, y, norm)
        found = strength(comparison)
        spent = ", ".join(f"{name} {count:.0f}" for name, count in comparison.gradients.items())
        rows.append(
            Row(
                f"{norm}: images on which ours is over 1% longer than the best of foolbox's",
                f"{found['longer']:.1%}",
                "<= 1%",
                found["longer"] <= 0.01,
                f"mean radius {found['mean_ratio']:.3f} of theirs; robust accuracy at most "
                f"{found['excess_points']:+.2f} points above theirs and "
                f"{found['apgd_excess_points']:+.2f} above APGD's; gradients per point: {spent}",
            )
        )
    return rows


def _against_marabou() -> list[Row]:
    """Is there a flip within 0.99 and within 1.01 of our exact l_inf radius? Both must agree."""
    try:
        from maraboupy import MarabouCore
    except ImportError:
        return [Row("exact l_inf against maraboupy", "not run", "", None, "pip install maraboupy")]
    found = []
    for neurons, d, count in ((8, 20, 10), (10, 300, 5), (24, 60, 3)):
        draw = np.random.default_rng(0)
        net = binary(draw.normal(size=(neurons, d)), draw.normal(size=neurons))
        x = draw.normal(size=(count, d))
        y = np.where(net(x)[:, 0] > 0, 1, -1)
        start = process_time()
        exact = radii(net, x, y, norm="linf", jobs=1)
        ours = process_time() - start
        start = process_time()
        agree = sum(
            [_marabou(MarabouCore, net, p, int(s), c * r) for c in (0.99, 1.01)] == [False, True]
            for p, s, r in zip(x, y, exact.attack, strict=True)
        )
        theirs = process_time() - start
        note = (
            f"{count} points: {ours:.2f} s for their exact radii, {theirs:.2f} s for two yes-or-no "
            f"questions about each; they agree on {agree} of {count}"
        )
        name = f"exact l_inf, {neurons} neurons, d = {d}: maraboupy's time / ours"
        found.append(Row(name, f"{theirs / ours:.2f}", "agree", agree == count, note))
    return found


def _marabou(core: Any, net: TwoLayer, x: np.ndarray, y: int, radius: float) -> bool:
    """Whether the verifier finds a flipped point in the ball."""
    query = core.InputQuery()
    m, d = net.weights.shape
    query.setNumberOfVariables(d + 2 * m)
    for i in range(d):
        query.setLowerBound(i, float(x[i] - radius))
        query.setUpperBound(i, float(x[i] + radius))
        query.markInputVariable(i, i)
    z = net.weights @ x + net.biases
    reach = radius * np.abs(net.weights).sum(axis=1)
    for r in range(m):
        before, after = d + r, d + m + r
        query.setLowerBound(before, float(z[r] - reach[r]))
        query.setUpperBound(before, float(z[r] + reach[r]))
        query.setLowerBound(after, 0.0)
        query.setUpperBound(after, float(max(z[r] + reach[r], 0.0)))
        row = core.Equation(core.Equation.EQ)
        for i in range(d):
            row.addAddend(float(net.weights[r, i]), i)
        row.addAddend(-1.0, before)
        row.setScalar(float(-net.biases[r]))
        query.addEquation(row)
        core.addReluConstraint(query, before, after)
    flip = core.Equation(core.Equation.LE)
    for r in range(m):
        flip.addAddend(float(y * net.head[0, r]), d + m + r)
    flip.setScalar(0.0)
    query.addEquation(flip)
    options = core.Options()
    options._verbosity = 0
    status = core.solve(query, options, "")[0]
    return bool(status == "sat")


if __name__ == "__main__":
    for row in rows():
        print(*row, sep="  ")
