"""Optimizers beside gradient descent, each against its formula written out plainly."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit, log_softmax

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw, draw_many
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.registry import CONTROLLERS, LOSSES, STEPPERS
from featavg.simulate.run import simulate
from featavg.storage.cache import Checkpoint
from featavg.training.driver import Stop
from featavg.training.recipe import Recipe
from featavg.training.train import train

TASK = MultiCluster(k=4, d=200)
DATA = draw(TASK, 40, 6, seed=0, coordinates="ambient")
LR, STEPS = 0.01, 9


def gradient(w, b, rows=slice(None), smoothing: float = 0.0):
    """dL/dw and dL/db of the binary network with m = 3 on some of the points."""
    x, y = DATA.x[rows], DATA.y[rows]
    signs = np.repeat([1.0, -1.0], 3) / 3
    z = x @ w.T + b
    q = y * (np.maximum(z, 0) @ signs)
    e = smoothing / 2
    pull = y * (e * expit(q) - (1 - e) * expit(-q)) / len(y)
    slopes = pull[:, None] * signs * (z >= 0)
    return slopes.T @ x, slopes.sum(axis=0)


def start():
    return 1e-3 * DATA.unit_weights, np.zeros(6)


def by_hand(step):
    """`step(t, parameters, memory)` repeated from the start; the memory is a dictionary."""
    params, memory = list(start()), {}
    for t in range(STEPS):
        params = step(t, params, memory)
    return params


def plain(rate):
    return lambda t, p, _: [a - rate(t) * g for a, g in zip(p, gradient(*p), strict=True)]


def sign(t, p, _):
    return [a - LR * np.sign(g) for a, g in zip(p, gradient(*p), strict=True)]


def decayed(t, p, _):
    return [a - LR * g - LR * 0.5 * a for a, g in zip(p, gradient(*p), strict=True)]


def adam(decay):
    def step(t, p, memory):
        moved = []
        for i, (a, g) in enumerate(zip(p, gradient(*p), strict=True)):
            m, v = memory.get(i, (0.0, 0.0))
            memory[i] = m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            unbiased = np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8
            moved.append(a - LR * (m / (1 - 0.9 ** (t + 1))) / unbiased - LR * decay * a)
        return moved

    return step


def sgd(batch, beta):
    def step(t, p, memory):
        epoch, number = divmod(t, 40 // batch)
        order = stream(7, f"sgd epoch {epoch}").permutation(40)
        rows = order[number * batch : (number + 1) * batch]
        moved = []
        for i, (a, g) in enumerate(zip(p, gradient(*p, rows), strict=True)):
            memory[i] = beta * memory.get(i, 0.0) - LR * g
            moved.append(a + memory[i])
        return moved

    return step


def cosine(t):
    return LR * (1 + math.cos(math.pi * t / STEPS)) / 2


TWINS = {
    "momentum": ({"stepper": "momentum"}, sgd(40, 0.9)),
    "momentum, less": ({"stepper": "momentum:beta=0.5"}, sgd(40, 0.5)),
    "adam": ({"stepper": "adam"}, adam(0.0)),
    "sign": ({"stepper": "sign"}, sign),
    "weight decay": ({"stepper": "weight-decay:decay=0.5"}, decayed),
    "AdamW": ({"stepper": "weight-decay:decay=0.5:stepper=adam"}, adam(0.5)),
    "sgd": ({"stepper": "sgd:batch=16:order=7"}, sgd(16, 0.0)),
    "sgd, momentum": ({"stepper": "sgd:batch=8:beta=0.9:order=7"}, sgd(8, 0.9)),
    "cosine": ({"controller": "cosine"}, plain(cosine)),
    "cosine, warmed up": ({"controller": "cosine:warmup=4"}, plain(lambda t: cosine(t) * min(1.0, (t + 1) / 4))),
    "step decay": ({"controller": "step-decay:every=3:factor=0.5"}, plain(lambda t: LR * 0.5 ** (t // 3))),
    "warm-up": ({"controller": "warmup:warmup=5"}, plain(lambda t: LR * min(1.0, (t + 1) / 5))),
    "label smoothing": (
        {"loss": "smoothed-logistic:smoothing=0.3"},
        lambda t, p, _: [a - LR * g for a, g in zip(p, gradient(*p, smoothing=0.3), strict=True)],
    ),
}


@pytest.mark.parametrize("name", ["gd", *TWINS])
def test_an_optimizer_is_its_formula(name: str) -> None:
    options, step = TWINS.get(name, ({}, plain(lambda t: LR)))
    start = {"m": 3, "lr": LR, "sigma_w": 1e-3, "sigma_b": 0.0, "steps": STEPS}
    net, (w, b) = train(DATA, Recipe(**start, **options)).net, by_hand(step)
    np.testing.assert_allclose(net.weights, w, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(net.biases, b, rtol=1e-9, atol=1e-14)
    away = np.abs(train(DATA, Recipe(**start)).net.weights - w).max()
    assert name == "gd" or away > 1e-4 * np.abs(w).max(), "the twin is gradient descent"


def test_seeds_out_of_step_have_their_own_mini_batches() -> None:
    """With a rate that rejects steps, seeds come to different numbers of steps."""
    recipe = Recipe(m=3, steps=15, lr=0.5, stepper="sgd:batch=8", controller="loss-based")
    together = train(draw_many(TASK, 40, 6, (0, 1, 2), "ambient"), recipe)
    for i in range(3):
        alone = train(draw(TASK, 40, 6, i, "ambient"), recipe)
        np.testing.assert_array_equal(together.net[i].weights, alone.net.weights)


def test_smoothed_losses_are_their_formulas() -> None:
    rng = np.random.default_rng(0)
    outputs, targets = rng.normal(scale=4, size=(30, 5)), rng.integers(0, 5, 30)
    label = np.full((30, 5), 0.2 / 5)
    label[np.arange(30), targets] += 0.8
    log_p = log_softmax(outputs, axis=1)
    value = LOSSES.build("smoothed-cross-entropy:smoothing=0.2")(outputs, targets)
    mean = -(label * log_p).sum(axis=1).mean()
    assert math.exp(value.log_mean) == pytest.approx(mean, rel=1e-12)
    np.testing.assert_allclose(value.slopes * mean, (np.exp(log_p) - label) / 30, atol=1e-14)
    # Two classes: the logistic loss of the difference, with the same smoothing.
    pair = np.stack([outputs[:, 0], np.zeros(30)], axis=1)
    y = rng.choice([-1, 1], 30)
    two = LOSSES.build("smoothed-cross-entropy:smoothing=0.2")(pair, np.where(y > 0, 0, 1))
    one = LOSSES.build("smoothed-logistic:smoothing=0.2")(outputs[:, :1], y)
    np.testing.assert_allclose(one.log_losses, two.log_losses, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one.slopes[:, 0], two.slopes[:, 0], rtol=1e-9, atol=1e-14)


def test_deep_networks_and_settings_take_them_too() -> None:
    deep = train(TASK, n=40, m=2, depth=3, stepper="sgd:batch=8", steps=20, lr=0.02, sigma_w=1e-2)
    assert deep.log_loss[-1] < deep.log_loss[0]
    done = simulate(
        k=4, d=60, n=30, steps=5, labels="fine", stepper="weight-decay:stepper=sign",
        controller="cosine", loss="smoothed-cross-entropy", n_test=10,
    )  # fmt: skip
    assert done.runs["fine"].settings["coordinates"] == "ambient"
    assert np.diff(done.runs["fine"].log_rate[:,]).max() < 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: STEPPERS.build("momentum:beta=1"), "beta is 1.0"),
        (lambda: STEPPERS["momentum"](math.nan), "beta is nan"),
        (lambda: STEPPERS.build("flow:tolerance=2"), "tolerance is 2.0"),
        (lambda: STEPPERS.build("adam:beta2=1"), "beta2 is 1.0"),
        (lambda: CONTROLLERS.build("constant", rate=-1), "rate is -1"),
        (lambda: CONTROLLERS.build("constant", rate=math.inf), "rate is inf"),
        (lambda: CONTROLLERS.build("loss-based:rate=0"), "rate is 0.0"),
        (lambda: Stop(-1), "steps is -1"),
        (lambda: Checkpoint(Path("state"), math.nan), "seconds is nan"),
        (lambda: STEPPERS.build("sgd:batch=0"), "batch is 0"),
        (lambda: STEPPERS.build("sgd:beta=1"), "beta is 1.0"),
        (lambda: STEPPERS.build("weight-decay:decay=-1"), "decay is -1.0"),
        (lambda: STEPPERS.build("weight-decay:stepper=nobody"), "stepper is 'nobody'"),
        (lambda: CONTROLLERS.build("cosine", rate=-1.0), "rate is -1.0"),
        (lambda: CONTROLLERS.build("step-decay:factor=2", rate=1.0), "factor is 2.0"),
        (lambda: CONTROLLERS.build("warmup:warmup=-3", rate=1.0), "warmup is -3"),
        (lambda: LOSSES.build("smoothed-logistic:smoothing=1"), "smoothing is 1.0"),
        (lambda: train(TASK, stepper="sign", coordinates="compressed", n=9), "stepper is sign"),
    ],
)
def test_what_cannot_be_is_refused(make, words: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(words)
