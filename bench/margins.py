"""Speed of the margins half: a pass of the MNIST network, and the way to a loss of 1e-881.

The pass is timed against the plain PyTorch loop (nn.Sequential, cross-entropy, SGD), step by step in
turn, on made-up images: time does not depend on what is in a picture.
"""

from __future__ import annotations

import math
import time
import timeit
from collections.abc import Callable

import numpy as np
from row import Row

STEPS = 25


def rows() -> list[Row]:
    found = [deep_loss(), theory_loss()]
    try:
        import torch  # noqa: F401
    except ImportError:
        return [*found, Row("a pass of the MNIST network", "not run", "<= 1.1x", None, "no torch")]
    return [mnist_pass(), *found]


def mnist_pass() -> Row:
    """A training step of 100 images, nothing left out, against the plain loop."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ours, plain = _our_step(), _plain_step()
        seconds = _in_turn(ours, plain)
    finally:
        torch.set_num_threads(threads)
    ratio = seconds[0] / seconds[1]
    return Row(
        "a pass of the MNIST network against the plain PyTorch loop",
        f"{ratio:.2f}x",
        "<= 1.1x",
        ratio <= 1.1,
        f"{600 * seconds[0]:.0f} s against {600 * seconds[1]:.0f} s a pass of 600 steps, one thread",
    )


def _in_turn(*steps: Callable[[], None]) -> list[float]:
    """The median time of each, measured alternately: a busy machine is busy for all of them."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(STEPS):
        for step, found in zip(steps, times, strict=True):
            start = time.process_time()
            step()
            found.append(time.process_time() - start)
    return [float(np.median(found[3:])) for found in times]


def _our_step() -> Callable[[], None]:
    import torch

    from featavg.paper.margins.network.epoch import scaled_loss
    from featavg.paper.margins.network.passes import descend, forward, rows_of, that_matter
    from featavg.paper.margins.network.run import MarginCNN, tensors

    params = tensors(MarginCNN().initial(0))
    x = torch.rand(100, 28, 28, 1).permute(0, 3, 1, 2)
    y = torch.randint(0, 10, (100,))

    def step() -> None:
        with torch.no_grad():
            kept = forward(params, x)
            loss = scaled_loss(kept.outputs, y, 0.0)
            chosen = that_matter(loss.weights, 100)
            assert chosen is None  # early in training every sample counts: the dearest case
            descend(params, rows_of(kept, chosen), loss.slopes, 1e-6 / 100)

    return step


def _plain_step() -> Callable[[], None]:
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(3136, 1024, bias=False),
        nn.ReLU(),
        nn.Linear(1024, 10, bias=False),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-6)
    x, y = torch.rand(100, 1, 28, 28), torch.randint(0, 10, (100,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    return step


def matrix_product(size: int = 500) -> float:
    """Seconds of one product of two size x size matrices: the yardstick of this machine."""
    a = np.random.default_rng(0).standard_normal((size, size))
    return min(timeit.repeat(lambda: a @ a, timer=time.process_time, number=20, repeat=5)) / 20


def deep_loss() -> Row:
    """Depths 1 to 4, five seeds each, by gradient flow in log time."""
    from featavg.paper.margins.homogeneous import NETWORK_DEPTHS, homogeneous_flow

    start = time.process_time()
    worst = max(float(homogeneous_flow(depth, (0, 1, 2, 3, 4)).log_loss[-1].max()) for depth in NETWORK_DEPTHS)
    seconds = time.process_time() - start
    reached, product = worst / math.log(10), matrix_product()
    return Row(
        "gradient flow to a loss of 1e-881.51, L = 1..4, five seeds",
        f"{seconds / product:.0f} matrix products",
        "<= 2000",
        seconds <= 2000 * product and reached <= -881.51,
        f"log10 loss {reached:.2f} or less; {seconds:.1f} s",
    )


def theory_loss() -> Row:
    """The paper's network on the paper's data with the loss-based rate."""
    from featavg.data.clusters import MultiCluster
    from featavg.training.controllers import LossBased
    from featavg.training.recipe import Recipe
    from featavg.training.train import train

    goal = -881.51 * math.log(10)
    recipe = Recipe(steps=20_000, target_log_loss=goal, controller=LossBased())
    start = time.process_time()
    ran = train(MultiCluster(k=10, d=3072), recipe, n=1000, seed=0)
    seconds = time.process_time() - start
    reached, product = float(ran.log_loss[-1]) / math.log(10), matrix_product()
    return Row(
        "loss-based rate to 1e-881.51, the paper's network, n = 1000",
        f"{seconds / product:.0f} matrix products",
        "<= 2000",
        seconds <= 2000 * product and reached <= -881.51,
        f"{seconds:.1f} s; log10 loss {reached:.2f} after {int(ran.steps[-1])} steps",
    )
