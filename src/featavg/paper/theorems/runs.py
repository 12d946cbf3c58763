"""Runs of Theorems 1 and 4 that several claims use: against d, against n, and in the theorems' regime.

The theorems are about gradient descent with steps eta = O(d^-2) and all times T >= 1/eta (Theorem 1) or
k^8/eta (Theorem 4). In their regime that is k^28 steps. Steps that small follow the gradient flow over
the time eta T, and the flow is what is run here. (`weights.descent_against_flow` measures how fast
descent tends to the flow at the paper's own setting.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import xarray as xr
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw
from featavg.figures.figure import Axis, Lines
from featavg.figures.marks import Role
from featavg.measures.accuracy import decisions
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.tables import line, tabulate
from featavg.paper.theorems.recorders import Activations, LossBalance, own_clusters, projected_coefficients
from featavg.progress import Progress, part, silent
from featavg.training.driver import SaveAt
from featavg.training.recipe import Recipe
from featavg.training.steppers.flow import GradientFlow
from featavg.training.train import train

PAPER_D, PAPER_TIME, PAPER_SIGMA_W, PAPER_SIGMA_B = 3072, 0.1, 1e-5, 1e-5
# Claims in the regime bear an error of 1% of lambda. At the stepper's default of 1e-3 lambda comes out
# 0.5% too large at k = 3 (17.646 for 17.561), at 3e-4 0.1% (17.579, 44 steps for 31), at 1e-4 0.05%
# (17.570) for half as many steps again.
FLOW_TOLERANCE = 3e-4
# Sweeps over d and n ask for exponents, to which a common error of 0.5% is nothing.
SWEEP_TOLERANCE = 1e-3
SAVES_PER_DECADE = 2
# n = k^7 in the theorems' regime.
SAMPLES_POWER = 7
# A run that ends before eta T = 1, as those against d and n do, is measured over its last four decades.
DECADES = 4
DIMENSIONS = (10**3, 10**5, 10**7, 10**9)
# Below the smallest dimension, so that features and noise stay linearly independent there.
SAMPLES = 900
# d = 10^6 stands clear of every n here.
SIZES, SIZES_D = (200, 400, 800, 1600), 10**6
ROLE: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}


def scaled_recipe(labels: str, d: int, m: int = 5, h: int = 1, tolerance: float = FLOW_TOLERANCE) -> Recipe:
    """The paper's training as a gradient flow, at dimension d: what matters is time times d.

    The initial weights shrink like 1/d, as sigma_w^2 = O(eta k^-5) asks for.
    """
    return Recipe(
        labels=labels, m=m, h=h, steps=20_000, time=PAPER_TIME * PAPER_D / d,
        sigma_w=PAPER_SIGMA_W * PAPER_D / d, sigma_b=PAPER_SIGMA_B * PAPER_D / d,
        stepper=GradientFlow(tolerance=tolerance),
    )  # fmt: skip


def theorem_recipe(labels: str, k: int, d: int, tolerance: float = FLOW_TOLERANCE) -> Recipe:
    """Assumption 3 with its constants set to one: n = k^7, m = k, eta = d^-2, sigma_w^2 = eta k^-5.

    The flow runs to eta T = k^8, where the times of Theorem 4 begin (those of Theorem 1 begin at 1).
    """
    return Recipe(
        labels=labels, m=k, h=1, steps=20_000, time=float(k**8), sigma_w=k**-2.5 / d,
        sigma_b=k**-2.5 / d, stepper=GradientFlow(tolerance=tolerance),
    )  # fmt: skip


@cache
def scaled_run(labels: str, d: int, n: int, seed: int, k: int = 10, tests: int = 1000) -> xr.Dataset:
    """The paper's setting at another d or n."""
    recipe = scaled_recipe(labels, d, tolerance=SWEEP_TOLERANCE)
    return follow(MultiCluster(k=k, d=d), recipe, n, seed, tests)


@cache
def theorem_run(
    labels: str, k: int, seed: int, constant: int = 1, tests: int = 2000, tolerance: float = FLOW_TOLERANCE
) -> xr.Dataset:
    """A run in the theorems' own regime, d = constant * k^10 and n = k^7: k = 2, 3 and 4 are affordable."""
    d = constant * k**10
    recipe = theorem_recipe(labels, k, d, tolerance)
    return follow(MultiCluster(k=k, d=d), recipe, k**SAMPLES_POWER, seed, tests)


def follow(task: MultiCluster, recipe: Recipe, n: int, seed: int, tests: int) -> xr.Dataset:
    """Trains one network and measures it at the saved times, at every step, and at the end."""
    data = draw(task, n, recipe.neurons(task.k), seed)
    active, balance = Activations(data), LossBalance(data)
    saves = SaveAt(per_decade=SAVES_PER_DECADE)
    run = train(data, recipe, recorders=(active, balance), save_at=saves)
    first = min(run.log_times[-1] - DECADES * math.log(10), 0.0)
    late = np.flatnonzero(run.log_times >= first).tolist()
    states = [run.at(i) for i in late]
    # All moments at once: what they have in common, n x N numbers, is the dear part of it.
    stacked = np.stack([state.weights for state in states])
    lambdas, sigmas = projected_coefficients(stacked, run.initial.weights, data)
    net = states[-1]
    knows = own_clusters(net, data).T  # which features the theorem puts into which neuron
    moments = [_moment(data, knows, *pair) for pair in zip(states, lambdas, strict=True)]
    steps = np.arange(len(balance["ratio"]))
    counts = np.bincount(data.clusters, minlength=task.k)
    classes = [counts[task.class_clusters(sign)] for sign in (1, -1)]
    series = {
        "log_time": run.log_times[late],  # log(eta T)
        **{name: np.array([moment[name] for moment in moments]) for name in moments[0]},
    }
    by_step = {
        "step_log_time": np.interp(steps, run.steps[1:], run.log_times[1:]),
        "own_active": active["own"],  # share of active pairs (neuron, sample)
        "balance": balance["ratio"],  # Lemma 5's two ratios, see `LossBalance`
        "cluster_balance": balance["clusters"],
    }
    end = {
        "dimension": task.d,
        "samples": n,
        "size_ratio": max(sizes.max() / max(sizes.min(), 1) for sizes in classes),
        # Lemma 6: largest |<w_r, mu_j> - lambda_{r,j}|.
        "inner_gap": np.abs(net.weights @ data.features.T - lambdas[-1]).max(),
        # Lemma 7: largest |sigma_{r,i}| of a sample of another label.
        "noise_off": np.abs(sigmas[-1][~knows[:, data.clusters]]).max(),
        **_on_fresh_points(task, net, knows, tests, seed),
    }
    named = {name: ("save", values) for name, values in series.items()}
    return xr.Dataset(named | {name: ("step", values) for name, values in by_step.items()} | end)


def _moment(
    data: TrainingSet, knows: Bool[ndarray, "M k"], net: TwoLayer, lambdas: Float[ndarray, "M k"]
) -> dict[str, float]:
    """Numbers of one saved state with the coefficients `lambdas`."""
    own = lambdas[knows]
    lam = float(own.mean())  # the theorems' common coefficient
    features = data.features / np.diag(data.task.gram_matrix)[:, None]
    off = np.linalg.norm(net.weights - lam * knows @ features, axis=-1)
    high = np.where(knows, lambdas, -np.inf).max(axis=1)
    low = np.where(knows, lambdas, np.inf).min(axis=1)
    return {
        "lam": lam,
        "smallest": float(own.min()),
        "largest": float(own.max()),
        # Largest ratio inside a class; a neuron that never learned one of its features has none.
        "within": float((high / low).max()) if np.all(low > 0) else 1e12,
        "difference": float((high - low).max()),  # the same as a difference
        "across": float(np.abs(lambdas[~knows]).max()),  # on features that are not the neuron's
        "deviation": float(math.sqrt(data.task.d) * off.max()),  # sqrt(d) |w - lambda sum mu/|mu|^2|
        "bias": float(np.abs(net.biases).max()),
    }


def _on_fresh_points(
    task: MultiCluster, net: TwoLayer, knows: Bool[ndarray, "M k"], tests: int, seed: int
) -> dict[str, float]:
    """Errors on fresh points, and what a perturbation of length sqrt(d)/10 leaves (proof of Theorem 5)."""
    fresh = task.sample(tests, seed)
    points = fresh.coordinates(net.dimension)
    wrong = decisions(net, points, task.positive_clusters) != fresh.y
    unlike = net(points).argmax(axis=-1) != fresh.clusters if net.outputs > 1 else wrong
    lengths = np.linalg.norm(net.weights, axis=-1)
    met = net.preactivations(points) - net.biases
    reach, own = lengths * math.sqrt(task.d) / 10, knows[:, fresh.clusters].T
    return {
        "longest": float(lengths.max()),  # <w_r, xi> of fresh noise is normal with this deviation
        "own_low": float((met - reach)[own].min()),
        "other_high": float((met + reach)[~own].max()),
        "errors": int(wrong.sum()),
        "fine_errors": int(unlike.sum()),  # by the largest output
        "tests": tests,
    }


def numbers(run: xr.Dataset) -> dict[str, float]:
    """One number for each quantity of a run: its end, and where a name says so its first or worst.

    Theorem 1 is about all times eta T >= 1, which are "late"; of a shorter run only the end is late.
    """
    late = run["log_time"].values >= min(0.0, run["log_time"].values[-1])
    first = int(np.flatnonzero(late)[0])
    step_times, active = run["step_log_time"].values, run["own_active"].values
    steps = step_times >= min(0.0, step_times[-1])
    broken = np.flatnonzero(active < 1.0)
    settled = int(broken[-1]) + 1 if len(broken) else 0
    names = [str(name) for name in run if run[name].ndim == 0]
    saved = [str(name) for name in run if run[name].dims == ("save",)]
    return {
        **{name: run[name].item() for name in names},
        **{name: float(run[name][-1]) for name in saved},
        **{f"first_{name}": float(run[name][first]) for name in ("lam", "smallest", "difference")},
        "relative": float(run["deviation"][-1] / run["lam"][-1]),
        "worst_deviation": float(run["deviation"].values[late].max()),
        "worst_bias": float(run["bias"].max()),
        "worst_balance": float(run["balance"].max()),
        "worst_cluster_balance": float(run["cluster_balance"].values[steps].max()),
        "least_active": float(active[steps].min()),
        # eta T from which on all own-class pairs stay active, to within a step.
        "all_active_from": math.exp(step_times[settled]) if settled < len(active) else math.inf,
    }


def regime(k: int, full: bool) -> tuple[int, ...]:
    """2 to k; for k = 0 to 3, or to 4 in the full tier, which takes gigabytes and minutes."""
    return tuple(range(2, (k or (4 if full else 3)) + 1))


def against_d(labels: str, seeds: Sequence[int], progress: Progress = silent, only_largest: bool = False) -> xr.Dataset:
    """Numbers of the runs at the paper's time, n = SAMPLES and k = 10, for each d."""

    def measure(d: int, seed: int) -> dict[str, float]:
        return numbers(scaled_run(labels, d, SAMPLES, seed))

    return tabulate(measure, seeds, progress, d=DIMENSIONS[-1:] if only_largest else DIMENSIONS)


def in_regime(labels: str, seeds: Sequence[int], clusters: Sequence[int], progress: Progress = silent) -> xr.Dataset:
    """Numbers of the runs in the theorems' regime, for each k."""

    def measure(k: int, seed: int) -> dict[str, float]:
        return numbers(theorem_run(labels, k, seed))

    return tabulate(measure, seeds, progress, k=clusters)


def against_n(labels: str, seeds: Sequence[int], progress: Progress = silent) -> xr.Dataset:
    """Numbers of the runs at the paper's time, d = SIZES_D and k = 10, for each n."""

    def measure(n: int, seed: int) -> dict[str, float]:
        return numbers(scaled_run(labels, SIZES_D, n, seed))

    return tabulate(measure, seeds, progress, n=SIZES)


def sweep(
    labels: str, seeds: Sequence[int], clusters: Sequence[int], progress: Progress = silent
) -> dict[str, xr.Dataset]:
    """Numbers of all runs with these labels: tables against d, against n, and against k in the regime."""
    return {
        "d": against_d(labels, seeds, part(progress, 0.0, 0.3)),
        "n": against_n(labels, seeds, part(progress, 0.3, 0.6)),
        "k": in_regime(labels, seeds, clusters, part(progress, 0.6, 1.0)),
    }


def panels(values: Mapping[str, xr.DataArray], labels: str, label: str) -> tuple[Lines, ...]:
    """A quantity of `sweep` against d, against n, and against k in the theorems' regime."""
    clusters = values["k"]["k"].values.tolist()
    axes = {
        "d": (Axis("dimension d", log=True), f"n = {SAMPLES}, k = 10"),
        "n": (Axis("samples n", log=True), f"d = {SIZES_D:,}, k = 10"),
        "k": (Axis("clusters k", ticks=clusters), "d = k¹⁰, n = k⁷"),
    }
    drawn = []
    for name, (axis, title) in axes.items():
        curve = line(f"{labels} labels", values[name], ROLE[labels])
        drawn.append(Lines(axis, Axis(label, log=True), (curve,), title=title))
    return tuple(drawn)
