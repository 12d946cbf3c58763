"""Training at any dimension, against PyTorch with autograd; batches; memory bandwidth; quick tier."""

import json
import subprocess
import sys
import time
import tracemalloc

import numpy as np
from row import Row

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.machine import cores
from featavg.training.recipe import Recipe
from featavg.training.train import train

# Run in a process of its own, so that its peak memory is its own: CPU seconds, peak bytes.
OURS = """
import resource, time
from featavg.data.clusters import MultiCluster
from featavg.training.train import train
task = MultiCluster(k=10, d={d})
train(task, n=50, steps=2)  # imports and first calls are not what is measured
start = time.process_time()
train(task, n=1000, steps=100, lr=3.072 / {d}, seed=0)
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
TORCH = """
import resource, time
import torch
d, n, k, m, steps = {d}, 1000, 10, 5, {steps}
torch.manual_seed(0)
torch.set_default_dtype(torch.{dtype})
clusters = torch.randint(0, k, (n,))
start = time.process_time()
x = torch.randn(n, d)
x[torch.arange(n), clusters] += d ** 0.5
y = torch.where(clusters < k // 2, 1.0, -1.0)
w = (1e-5 * torch.randn(2 * m, d)).requires_grad_()
b = (1e-5 * torch.randn(2 * m)).requires_grad_()
a = torch.tensor([1 / m] * m + [-1 / m] * m)
drawn = time.process_time() - start
optimizer = torch.optim.SGD([w, b], lr=3.072 / d)

def step():
    optimizer.zero_grad()
    loss = torch.nn.functional.softplus(-y * (torch.relu(x @ w.T + b) @ a)).mean()
    loss.backward()
    optimizer.step()

step()
start = time.process_time()
for _ in range(steps):
    step()
seconds = drawn + (time.process_time() - start) / steps * 100
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def _alone(code: str) -> tuple[float, float]:
    """CPU seconds and peak bytes of a program in its own process."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, peak = done.stdout.split()
    return float(seconds), float(peak)


def against_torch() -> list[Row]:
    """Time against float32, PyTorch's usual choice; memory against both, since ours is float64."""
    large = min(_alone(OURS.format(d=10**6)) for _ in range(3))
    small = min(_alone(OURS.format(d=3072)) for _ in range(3))
    single = _alone(TORCH.format(d=10**6, steps=3, dtype="float32"))
    double = _alone(TORCH.format(d=10**6, steps=3, dtype="float64"))
    paper = min(_alone(TORCH.format(d=3072, steps=100, dtype="float32")) for _ in range(3))
    scaled = "3 of 100 steps measured and scaled, drawing the data included"
    sizes = f"peak of the whole process {large[1] / 1e6:.0f} MB; the data drawn in place"
    return [
        _ratio("faster than PyTorch float32, d = 10^6", single[0] / large[0], 1000,
               f"{large[0]:.3f} s and {single[0]:.0f} s ({scaled})"),
        _ratio("faster than PyTorch float64, d = 10^6", double[0] / large[0], 1000,
               f"{double[0]:.0f} s ({scaled})"),
        _ratio("less memory than PyTorch float64, d = 10^6", double[1] / large[1], 100,
               f"{sizes}, {double[1] / 1e6:.0f} MB"),
        _ratio("less memory than PyTorch float32, d = 10^6", single[1] / large[1], 100,
               f"half of our precision: {single[1] / 1e6:.0f} MB"),
        _ratio("faster than PyTorch float32, d = 3072", paper[0] / small[0], 3,
               f"{small[0]:.3f} s and {paper[0]:.3f} s"),
    ]  # fmt: skip


def _ratio(name: str, ratio: float, target: float, note: str) -> Row:
    return Row(name, f"{ratio:.3g}x", f"{target:g}x", ratio >= target, note)


def flat_in_d() -> Row:
    def run(d: int) -> float:
        return _busy(lambda: train(MultiCluster(k=10, d=d), n=1000, lr=3.072 / d, seed=0))

    small, large = run(10**4), run(10**12)
    ratio = large / small
    return Row(
        "time at d = 10^12 over time at d = 10^4",
        f"{ratio:.2f}x",
        "1.3x",
        ratio <= 1.3,
        f"{large:.3f} s and {small:.3f} s",
    )


def step_against_bandwidth() -> Row:
    """A step reads X twice: forward and backward. Bandwidth is that of a sum over a large array."""
    data = draw(MultiCluster(k=10, d=10**6), 4000, 10, seed=0)  # 129 MB: no cache holds it
    recipe = Recipe(lr=3e-6)
    big = np.ones(data.x.size)
    reading = _busy(big.sum) / big.nbytes

    def seconds(steps: int) -> float:
        return _busy(lambda: train(data, recipe, steps=steps), 3)

    step = (seconds(30) - seconds(10)) / 20
    ratio = step / (2 * data.x.nbytes * reading)
    return Row(
        "a training step over reading X twice",
        f"{ratio:.2f}x",
        "3x",
        ratio <= 3,
        f"n = 4000: {1e3 * step:.1f} ms a step; memory {1e-9 / reading:.1f} GB/s by a plain sum",
    )


def batches() -> list[Row]:
    rows = []
    for n, target in ((1000, 1.0), (20, 3.0)):
        task, seeds = MultiCluster(k=10, d=10**5), tuple(range(32))

        def together(task=task, n=n, seeds=seeds):
            train(task, n=n, seed=seeds, lr=3e-5)

        def one_by_one(task=task, n=n, seeds=seeds):
            for seed in seeds:
                train(task, n=n, seed=seed, lr=3e-5)

        repeats = 1 if n > 100 else 3
        ratio = _busy(one_by_one, repeats) / _busy(together, repeats)
        rows.append(
            Row(
                f"32 seeds in one batch, n = {n}",
                f"{ratio:.2f}x faster",
                f"{target:g}x",
                ratio >= target,
                "than 32 runs in a loop",
            )
        )
    return rows


def _plain(data, steps: int, lr: float) -> None:
    """The same steps of gradient descent, and the same records, as anybody would write them down."""
    x, y, m = data.x, data.y.astype(float), len(data.unit_weights) // 2
    w, b, signs = 1e-5 * data.unit_weights, np.zeros(2 * m), np.repeat([1.0, -1.0], m) / m
    log_loss, log_rate, times = [], [], [0.0]
    for _ in range(steps):
        z = x @ w.T + b
        q = y * (np.maximum(z, 0) @ signs)
        log_loss.append(np.log(np.logaddexp(0.0, -q).mean()))
        slopes = (-y / (1 + np.exp(q)) / len(y))[:, None] * signs * (z >= 0)
        w, b = w - lr * (slopes.T @ x), b - lr * slopes.sum(axis=0)
        log_rate.append(np.log(lr))
        times.append(times[-1] + lr)


def _plain_draw(k: int, d: int, n: int) -> np.ndarray:
    """Noise, and the features added to it in place."""
    rng = np.random.default_rng(0)
    clusters, x = rng.integers(0, k, n), rng.standard_normal((n, d))
    x[np.arange(n), clusters] += d**0.5
    return x


def _busy(call, repeats: int = 5) -> float:
    """CPU seconds of a call, the best of a few."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def _peak(call) -> int:
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def against_plain_numpy() -> list[Row]:
    """A single run without a batch: where calls cost more than arithmetic, and where n is above d."""
    rows = []
    for k, d, n, m, steps, target in (
        (4, 20, 20, 2, 2000, 2.0),
        (4, 100, 40, 2, 300, 2.0),
        (10, 300, 5000, 5, 60, 1.2),
    ):
        data = draw(MultiCluster(k=k, d=d), n, 2 * m, seed=0)
        ours = _busy(lambda data=data, m=m, steps=steps: train(data, Recipe(m=m, steps=steps)))
        plain = _busy(lambda data=data, steps=steps: _plain(data, steps, 1e-3))
        name = f"a step over a bare loop in NumPy with the same records, k = {k}, d = {d}, n = {n}, m = {m}"
        note = f"{ours / steps * 1e6:.0f} and {plain / steps * 1e6:.0f} microseconds of CPU a step"
        rows.append(Row(name, f"{ours / plain:.2f}x", f"<= {target:g}x", ours <= target * plain, note))
    task = MultiCluster(k=10, d=300)
    ours, plain = _peak(lambda: train(task, n=20_000, steps=5)), _peak(lambda: _plain_draw(10, 300, 20_000))
    rows.append(
        Row("peak memory of a draw and a run over the points alone, n above d", f"{ours / plain:.2f}x",
            "<= 1.2x", ours <= 1.2 * plain, f"{ours / 1e6:.0f} and {plain / 1e6:.0f} MB")
    )  # fmt: skip
    return rows


def quick_tier() -> Row:
    """The wall time of the quick tier over the work of its claims, shared among the cores."""
    command = [sys.executable, "-m", "featavg", "reproduce", "--out", "out/bench/report"]
    start = time.perf_counter()
    done = subprocess.run([*command, "--json", "out/bench/quick.json"], check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        return Row("quick tier", "failed", "<= 1.5x", False, done.stderr[-200:])
    with open("out/bench/quick.json") as file:
        outcomes = json.load(file)["outcomes"]
    work = sum(o["seconds"] for o in outcomes if not o["recorded"]) / cores()
    ratio = seconds / work
    name = "quick tier with its report, over the claims' own work on all cores"
    return Row(name, f"{ratio:.2f}x", "<= 1.5x", ratio <= 1.5, f"{seconds:.0f} s")


def rows() -> list[Row]:
    return [*against_torch(), flat_in_d(), step_against_bandwidth(), *batches(), *against_plain_numpy(), quick_tier()]
