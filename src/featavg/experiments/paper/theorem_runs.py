"""Runs that several claims look at: one network on one sample, summed up in a few numbers.

The theorems ask for small steps (eta = O(d^-2)) and small initial weights, so these runs follow the
gradient flow, over the paper's time (100 steps of 0.001 at d = 3072) scaled to the dimension: what
matters is time times d. The initial weights shrink like 1/d, as sigma_w^2 = O(eta k^-5) asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.measures.accuracy import accuracy
from featavg.measures.alignment import neuron_signs
from featavg.measures.decomposition import projected_coefficients
from featavg.measures.dynamics import Activations, LossBalance
from featavg.nets.two_layer import TwoLayer
from featavg.training.steppers.flow import GradientFlow
from featavg.training.train import Recipe, train

PAPER_D, PAPER_TIME, PAPER_SIGMA_W, PAPER_SIGMA_B = 3072, 0.1, 1e-5, 1e-5


@dataclass(frozen=True)
class RunSummary:
    """What is left of a run when its arrays are gone.

    Attributes:
        lam: the common coefficient lambda, the best fit over all neurons.
        smallest, largest: of the coefficients lambda_{r,j} that the theorem says are lambda.
        within: largest ratio of a neuron's coefficients inside its class (1 for a grouped network).
        across: largest |coefficient| on a feature that the neuron should not know, relative to lam.
        deviation: max over neurons of sqrt(d) |w - lambda sum mu/|mu|^2|.
        bias: largest |b|.
        balance: largest ratio of loss derivatives inside a label, at any time.
        cluster_ratio: largest ratio of cluster sizes inside a class.
        active: share of own-class pairs that are active at the start, after the first step, at the end.
        errors, tests: fresh points that were decided wrongly, of how many.
    """

    lam: float
    smallest: float
    largest: float
    within: float
    across: float
    deviation: float
    bias: float
    balance: float
    cluster_ratio: float
    active: tuple[float, float, float]
    errors: int
    tests: int
    log_time: float


def scaled_recipe(labels: str, d: int, m: int = 5, h: int = 1) -> Recipe:
    """The paper's training as a gradient flow, at dimension d."""
    return Recipe(
        labels=labels,
        m=m,
        h=h,
        sigma_w=PAPER_SIGMA_W * PAPER_D / d,
        sigma_b=PAPER_SIGMA_B * PAPER_D / d,
        stepper=GradientFlow(),
        time=PAPER_TIME * PAPER_D / d,
        steps=5000,
    )


def theorem_recipe(labels: str, k: int) -> Recipe:
    """Assumption 3 with all its constants set to one: d = k^10, n = k^7, m = k, eta = d^-2.

    The flow runs to the time eta T = k^8 from which Theorem 4 speaks (Theorem 1 from 1 on).
    """
    scale = k**-2.5 / k**10
    return Recipe(
        labels=labels,
        m=k,
        h=1,
        sigma_w=scale,
        sigma_b=scale,
        stepper=GradientFlow(),
        time=float(k**8),
        steps=5000,
    )


@cache
def scaled_run(
    labels: str, d: int, n: int, seed: int, k: int = 10, tests: int = 1000
) -> RunSummary:
    """The paper's setting at another d or n."""
    return _summary(MultiCluster(k=k, d=d), scaled_recipe(labels, d), n, seed, tests)


@cache
def theorem_run(labels: str, k: int, seed: int, tests: int = 1000) -> RunSummary:
    """A run in the theorems' own regime."""
    return _summary(MultiCluster(k=k, d=k**10), theorem_recipe(labels, k), k**7, seed, tests)


def _summary(task: MultiCluster, recipe: Recipe, n: int, seed: int, tests: int) -> RunSummary:
    data = draw(task, n, recipe.neurons(task.k), seed)
    active, balance = Activations(data), LossBalance(data)
    run = train(data, recipe, recorders=(active, balance))
    knows = _should_know(task, run.net)
    lambdas, _ = projected_coefficients(run.net.weights, run.initial.weights, data)
    own = lambdas[knows]
    lam = float(own.mean())
    features = data.features / np.diag(task.gram_matrix)[:, None]
    off = np.linalg.norm(run.net.weights - lam * knows @ features, axis=-1)
    sizes = np.bincount(data.clusters, minlength=task.k)
    fresh = accuracy(run.net, task.sample(tests, seed))
    return RunSummary(
        lam=lam,
        smallest=float(own.min()),
        largest=float(own.max()),
        within=float(_ratio(lambdas, knows)),
        across=float(np.abs(lambdas[~knows]).max() / lam),
        deviation=float(math.sqrt(task.d) * off.max()),
        bias=float(np.abs(run.net.biases).max()),
        balance=float(balance["ratio"].max()),
        cluster_ratio=_cluster_ratio(sizes, task, run.net.outputs),
        active=(float(active["own"][0]), float(active["own"][1]), float(active["own"][-1])),
        errors=round((1 - fresh.value) * fresh.n),
        tests=fresh.n,
        log_time=float(run.log_times[-1]),
    )


def _should_know(task: MultiCluster, net: TwoLayer) -> Bool[ndarray, "M k"]:
    """Which features the theorem puts into which neuron: those of its class, or its own one."""
    if net.outputs == 1:
        return neuron_signs(net)[:, None] == task.cluster_labels[None, :]
    return (net.head != 0).T


def _ratio(lambdas: Float[ndarray, "M k"], knows: Bool[ndarray, "M k"]) -> float:
    high = np.where(knows, lambdas, -np.inf).max(axis=1)
    low = np.where(knows, lambdas, np.inf).min(axis=1)
    return float((high / low).max())


def _cluster_ratio(sizes: Int[ndarray, " k"], task: MultiCluster, outputs: int) -> float:
    if outputs > 1:
        return 1.0
    parts = [sizes[task.class_clusters(sign)] for sign in (1, -1)]
    return float(max(part.max() / part.min() for part in parts))


def slope(x: list[float], y: list[float]) -> float:
    """The exponent of the power law y ~ x^slope, by least squares on logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
