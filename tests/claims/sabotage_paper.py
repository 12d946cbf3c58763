"""Sabotage of the paper's claims: networks that do not average, wrong labels, wrong exponents."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.claims.sabotage import Sabotage, everywhere, setting, together

from featavg.data.clusters import MultiCluster
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import biased_robust, feature_averaging, feature_decoupling, grouped
from featavg.paper.figures import clean_error, cosines, figure3, fragility, linf, networks, universal
from featavg.paper.theorems import assumptions, lemmas, proof, runs, scale, weights
from featavg.paper.theorems.recorders import Coefficients
from featavg.training.recipe import Recipe
from featavg.training.train import train

Patch = pytest.MonkeyPatch

# Small sizes.

small_theorems = together(
    setting(runs, DIMENSIONS=(10**3, 10**6), SAMPLES=150, SIZES=(100, 200), SAMPLES_POWER=6),
    # A note of Theorem 1 that no sabotage is about.
    setting(weights, descent_against_flow=lambda seed: np.array([4.0, 2.0, 1.0])),
)
small_radii = setting(networks, POINTS=12, IDEAL_POINTS=12)
small_curves = setting(figure3, ATTACKED=6, BRACKETED=2, AT=tuple(np.linspace(10.0, 42.0, 17).tolist()))
CURVES = {"n": 300, "points": 16}
GROWTH = {"dimensions": (3_162, 100_000), "clusters": (4, 20)}
STEPS = {"n": 200, "steps": 30}


# Networks that are not what training makes of them.


def single_feature(weights: np.ndarray, task: MultiCluster, signs: np.ndarray) -> np.ndarray:
    """Every neuron of a binary network keeps one feature of its class and forgets the others."""
    mutated = weights.copy()
    for r, sign in enumerate(signs):
        mine = task.class_clusters(int(sign))
        kept = mine[r % len(mine)]
        for cluster in mine:
            if cluster != kept:
                mutated[..., r, cluster] = 0.0
    return mutated


def class_average(weights: np.ndarray, task: MultiCluster) -> np.ndarray:
    """Every group of a grouped network takes up the other features of its class."""
    mutated = weights.copy()
    for r in range(task.k):
        for cluster in task.class_clusters(int(task.cluster_labels[r])):
            mutated[..., r, cluster] = weights[..., r, r]
    return mutated


def mutated_train(*args, **changes):
    """Training whose result does the opposite of what the labels make it do."""
    run = train(*args, **changes)
    task = args[0] if isinstance(args[0], MultiCluster) else args[0].task
    weights = run.parameters["weights"]
    net = run.net
    binary = net.outputs == 1
    other = single_feature(weights, task, neuron_signs(net)) if binary else class_average(weights, task)
    return replace(run, parameters=run.parameters | {"weights": other})


def robust_networks(case, seeds):
    """One neuron for each cluster and biases, whatever was asked for."""
    return (biased_robust(case.task),) * len(seeds)


def averaged_networks(case, seeds):
    """Averages, whatever was asked for: as a grouped network if cluster labels were."""
    if case.labels == "coarse":
        return (feature_averaging(case.task),) * len(seeds)
    features = case.task.features
    sums = [features[case.task.cluster_labels == sign].sum(axis=0) for sign in (1, -1)]
    weights = np.array([sums[0] if sign > 0 else sums[1] for sign in case.task.cluster_labels])
    return (grouped(weights / case.task.d, case.task.k),) * len(seeds)


def shuffled_networks(case, seeds):
    """Every output sees the feature of a cluster of the other class: shuffled labels."""
    weights = np.roll(case.task.features, case.task.k // 2, axis=0)
    return (grouped(20.0 * weights / case.task.d, case.task.k),) * len(seeds)


# Mutations.


def no_averaging(module) -> object:
    return lambda patch: patch.setattr(module, "train", mutated_train)


def networks_are(make) -> object:
    return lambda patch: everywhere(patch, networks, "networks", make)


def with_recipe(**changes) -> object:
    """Runs in the regime start or end otherwise."""

    def mutate(patch: Patch) -> None:
        honest = runs.theorem_recipe
        patch.setattr(runs, "theorem_recipe", lambda *args: replace(honest(*args), **changes))

    return mutate


def unequal_regime(patch: Patch) -> None:
    """One cluster of the larger class has nine times as many samples as the other."""

    def task(k: int, d: int) -> MultiCluster:
        shares = {3: (1 / 3, 0.6, 0.2 / 3)}.get(k)
        return MultiCluster(k=k, d=d, probabilities=shares)

    patch.setattr(runs, "MultiCluster", task)


class PrintedQuotient(Coefficients):
    """The recursion as the lecture notes print it: divided by |mu|^2 where it multiplies."""

    def see(self, view) -> None:
        before, self.rebuild = self._lambdas[-1], False
        super().see(view)
        step = self._lambdas[-1] - before
        self._lambdas[-1] = before + step / self._feature_squares**2
        self._errors.append(self._error(view.params[0]))


def always_on(data, recipe):
    """Initial weights that begin on their own cluster."""
    weights = data.unit_weights.copy()
    weights[..., np.arange(data.task.k), np.arange(data.task.k)] = 10.0
    return grouped(recipe.sigma_w * weights, data.task.k)


def pgd_sees_all(case, readout, seeds, points, at):
    """PGD that finds every flip there is."""
    exact = networks.measured_radii(case, readout, seeds, CURVES["points"])
    return exact.robust_accuracy(np.array(at))[1]


def few_samples(d_power, n_power):
    return honest_exponent(d_power, 5.0)


def paper_start(watched, scale, steps):
    return honest_end(watched, 5.5e-4, steps)


honest_exponent, honest_end = proof.epsilon_exponent, assumptions.ended


def deviations(power: float):
    """Runs up to k = 5 are made up: they would take gigabytes. The distance falls like k^-power."""

    def made(k, precision):
        off = 1.2 * float(k) ** -power
        numbers = (15.0, 14.9, 15.1, 0.1, off, 15.0 * off, 1e-5)
        sizes = (0, 2000, 900, 60.0, 10**9, 10**9)
        return scale.ScaleRun(k, k**10, k**7, 0, precision, *numbers, *sizes)

    study = [made(k, "single") for k in (3, 4, 5)], made(4, "double"), made(3, "single")
    return setting(scale, theorem_scale=lambda *_: study)


AVERAGING = "each neuron keeps one feature of its class"
DECOUPLING = "each group takes up its class's other features"
NINE = "one cluster is nine times the other"
ROBUST = "the trained networks are robust solutions"
AVERAGES = "cluster labels make averages as well"

ROWS = (
    Sabotage("theorem-1-scale", "the distance does not depend on k", deviations(0.0), deviations(2.0)),
    Sabotage("figure-2a-averaged", AVERAGING, no_averaging(cosines)),
    Sabotage("figure-2b-decoupled", DECOUPLING, no_averaging(cosines)),
    Sabotage(
        "theorem-2-clean",
        "six times the noise",
        setting(clean_error, MultiCluster=partial(MultiCluster, sigma=6.0)),
        given={"points": 2000},
    ),
    Sabotage(
        "theorem-1-averaging, theorem-1-coefficients, theorem-4-decoupling, theorem-5-inequalities",
        "training ends in the opposite of what the labels make of it",
        no_averaging(runs),
        small_theorems,
    ),
    Sabotage(
        "lemma-1-2-decomposition",
        "the recursion divides by the squared norm, as printed",
        setting(lemmas, Coefficients=PrintedQuotient),
        given=STEPS,
    ),
    Sabotage(
        "lemma-3-activation",
        "initial biases that switch neurons off for good",
        with_recipe(sigma_b=1e3),
        small_theorems,
        given=STEPS,
    ),
    Sabotage(
        "lemma-4-updates",
        "a start so large that neurons stay off",
        setting(lemmas, Recipe=partial(Recipe, sigma_w=1.0, sigma_b=1.0)),
        given=STEPS,
    ),
    Sabotage("lemma-5-balance, step-3-contraction", NINE, unequal_regime, small_theorems),
    Sabotage(
        "lemma-6-7-9-bounds", "a start as large as the weights learned", with_recipe(sigma_w=0.05), small_theorems
    ),
    Sabotage("lemma-12-epsilon", "n = k^5 only", setting(proof, epsilon_exponent=few_samples)),
    Sabotage(
        "decoupling-dead-neurons",
        "neurons begin active on their cluster",
        setting(assumptions, initial_net=always_on),
        given={"sizes": (20, 40), "draws": 40, "trained": 3},
    ),
    Sabotage("assumption-2-unequal", AVERAGING, no_averaging(assumptions), given={"n": 200, "positive": (2, 5)}),
    Sabotage(
        "talk-initialisation",
        "the paper's start in place of the talks'",
        setting(assumptions, ended=paper_start),
        given={"scales": (1.0, 5.5e-4), "long_steps": 50},
        improves=True,
    ),
    Sabotage(
        "average-any-bias",
        "three times the signal",
        setting(fragility, MultiCluster=partial(MultiCluster, alpha=3.0)),
        given={"thresholds": (-4.0, 0.0, 0.6), "points": 12},
    ),
    Sabotage("averaged-gradient-norm", ROBUST, networks_are(robust_networks), given={"clusters": (4, 20)}),
    Sabotage(
        "robust-one-neuron",
        "the construction without its biases",
        setting(fragility, biased_robust=feature_decoupling),
        given={"clusters": (4, 20)},
    ),
    Sabotage("theorem-1-non-robust", ROBUST, networks_are(robust_networks), small_radii, given=GROWTH),
    Sabotage(
        "theorem-3-f-fa",
        "f_FA is the robust solution",
        setting(networks, feature_averaging=biased_robust),
        small_radii,
        given=GROWTH,
    ),
    Sabotage(
        "robust-solution-exists",
        "the construction is the average",
        setting(networks, biased_robust=feature_averaging),
        small_radii,
        given=GROWTH,
    ),
    Sabotage(
        "theorem-4-robust",
        "the labels of the clusters are shuffled",
        networks_are(shuffled_networks),
        given={"last": 100_000, "points": 4},
    ),
    Sabotage("figure-3-left", AVERAGES, networks_are(averaged_networks), small_curves, given=CURVES),
    Sabotage(
        "readout-matters",
        "PGD that finds every flip",
        setting(figure3, pgd_accuracy=pgd_sees_all),
        small_curves,
        given=CURVES,
    ),
    Sabotage("gap-against-k", AVERAGES, networks_are(averaged_networks), small_radii, given={"clusters": (4, 20)}),
    Sabotage(
        "remark-attack-vector", "f_FA is the robust solution", setting(universal, feature_averaging=biased_robust)
    ),
    Sabotage("universal-vector", ROBUST, networks_are(robust_networks)),
    Sabotage(
        "linf-averaging",
        AVERAGES,
        setting(linf, NETWORKS={"averaged": ("coarse", "sum"), "decoupled": ("coarse", "sum")}),
        given={"dimensions": (60, 120), "n": 100, "points": 2},
    ),
)
