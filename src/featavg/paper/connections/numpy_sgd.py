"""Mini-batch SGD for small fully connected networks, in NumPy: seconds on one core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.progress import Progress


@dataclass(frozen=True)
class Minibatch:
    """Plain SGD on the logistic loss, PyTorch's default initialisation of linear layers.

    At most `steps`, fewer if the loss of an epoch's worth of steps falls below `target`.
    """

    widths: Sequence[int] = (100,)
    lr: float = 0.3
    momentum: float = 0.0
    batch: int = 256
    steps: int = 3000
    target: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lr", "batch", "steps"):
            if not getattr(self, name) > 0:
                raise InputError(name, f"is {getattr(self, name)}", "give a positive number")
        if not 0 <= self.momentum < 1:
            raise InputError("momentum", f"is {self.momentum}", "give a share in [0, 1)")


def train_minibatch(
    x: Float[ndarray, "n d"], y: Int[ndarray, " n"], recipe: Minibatch, seed: int, progress: Progress | None = None
) -> Deep:
    """Train a network with one output on labels -1 and +1.

    Single precision: the data are noise to the last digits anyway, and it is twice as fast.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 3))
    >>> net = train_minibatch(x, np.where(x[:, 0] > 0, 1, -1), Minibatch((20,), steps=300), 0)
    >>> bool(np.mean((net(x)[:, 0] > 0) == (x[:, 0] > 0)) > 0.95)
    True
    """
    draw = stream(seed, "minibatch")
    sizes = (x.shape[1], *recipe.widths, 1)
    weights, biases = [], []
    for below, here in pairwise(sizes):
        bound = below**-0.5
        weights.append(draw.uniform(-bound, bound, (here, below)).astype(np.float32))
        biases.append(draw.uniform(-bound, bound, here).astype(np.float32))
    moments = [np.zeros_like(a) for a in (*weights, *biases)]
    data, labels = x.astype(np.float32), y.astype(np.float32)
    each = max(1, len(x) // recipe.batch)
    recent: list[float] = []
    order = draw.permutation(len(x))
    for step in range(recipe.steps):
        at = step % each
        if at == 0:
            order = draw.permutation(len(x))
            if recent and float(np.mean(recent)) < recipe.target:
                break
            recent = []
        rows = order[at * recipe.batch : (at + 1) * recipe.batch]
        recent.append(_step(data[rows], labels[rows], weights, biases, moments, recipe))
        if progress is not None and step % 200 == 0:
            progress(step / recipe.steps, f"loss {recent[-1]:.4f}")
    return Deep(tuple(w.astype(float) for w in weights), tuple(b.astype(float) for b in biases))


def _step(
    x: Float[ndarray, "b d"],
    y: Float[ndarray, " b"],
    weights: list[ndarray],
    biases: list[ndarray],
    moments: list[ndarray],
    recipe: Minibatch,
) -> float:
    """One step in place; returns the loss of the batch before it."""
    hidden = [x]
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        hidden.append(np.maximum(hidden[-1] @ w.T + b, 0.0))
    q = y * (hidden[-1] @ weights[-1].T + biases[-1])[:, 0]
    loss = float(np.logaddexp(0.0, -q).mean())
    slope = (-y / (1.0 + np.exp(np.minimum(q, 60.0))) / len(y))[:, None]
    count = len(weights)
    for layer in range(count - 1, -1, -1):
        steps = slope.T @ hidden[layer], slope.sum(axis=0)
        if layer:
            slope = (slope @ weights[layer]) * (hidden[layer] > 0)
        for at, step, array in ((layer, steps[0], weights[layer]), (count + layer, steps[1], biases[layer])):
            moments[at] = recipe.momentum * moments[at] + step
            np.subtract(array, recipe.lr * moments[at], out=array)
    return loss
