"""Sabotage of the paper's claims: networks that do not average, wrong labels, wrong exponents."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from tests.claims.sabotage import Sabotage, everywhere, setting, together

from featavg.data.clusters import MultiCluster
from featavg.measures.alignment import neuron_signs
from featavg.measures.decomposition import Coefficients
from featavg.nets.grouped import grouped
from featavg.nets.ideal import biased_robust, feature_averaging, feature_decoupling
from featavg.paper.figures import claim_radii as radius_claims
from featavg.paper.figures import (
    clean_errors,
    figure2_cosines,
    figure3_curves,
    linf,
    radius_scaling,
    universal,
)
from featavg.paper.theorems import (
    biased_average,
    dead_neurons,
    initialisation,
    paper_runs,
    radius_runs,
    steepness,
    theorem_runs,
    theorem_sweeps,
    unequal_sizes,
)
from featavg.paper.theorems import claim_decoupling as decoupling_claims
from featavg.paper.theorems import claim_theorem_scale as scale_claims
from featavg.paper.theorems import claim_theorems as theorem_claims
from featavg.paper.theorems.packed_runs import ScaleRun, TheoremScale
from featavg.training.train import Recipe, train

Patch = pytest.MonkeyPatch


# Small sizes.


def small_theorems(patch: Patch) -> None:
    everywhere(patch, theorem_sweeps, "DIMENSIONS", (10**3, 10**6))
    everywhere(patch, theorem_sweeps, "SAMPLES", 150)
    everywhere(patch, theorem_sweeps, "SIZES", (100, 200))
    everywhere(patch, theorem_runs, "SAMPLES_POWER", 6)
    patch.setattr(theorem_runs, "FLOW_TOLERANCE", 1e-3)
    # A note of Theorem 1 that no sabotage is about.
    patch.setattr(theorem_claims, "descent_against_flow", lambda seed: np.array([4.0, 2.0, 1.0]))


def small_radii(patch: Patch) -> None:
    everywhere(patch, radius_runs, "RADIUS_DIMENSIONS", (3_162, 100_000))
    everywhere(patch, radius_runs, "RADIUS_CLUSTERS", (4, 20))
    everywhere(patch, radius_scaling, "POINTS", 12)
    everywhere(patch, radius_scaling, "IDEAL_POINTS", 12)
    for name, value in (("POINTS", 16), ("ATTACKED", 6), ("BRACKETED", 2)):
        everywhere(patch, figure3_curves, name, value)
    everywhere(patch, figure3_curves, "AT", tuple(np.linspace(10.0, 42.0, 17).tolist()))
    everywhere(patch, radius_runs, "N_TRAIN", 300)


def small_paper_run(patch: Patch) -> None:
    patch.setattr(paper_runs, "N_TRAIN", 200)
    patch.setattr(paper_runs, "STEPS", 30)


def small_figure2(patch: Patch) -> None:
    patch.setattr(figure2_cosines, "N_TRAIN", 1000)


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
    if net.outputs == 1:
        weights = single_feature(weights, task, neuron_signs(net))
    else:
        weights = class_average(weights, task)
    return replace(run, parameters=run.parameters | {"weights": weights})


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


def networks_are(make, module=radius_runs) -> object:
    return lambda patch: everywhere(patch, module, "networks", make)


def with_recipe(**changes) -> object:
    """Runs in the regime start or end otherwise."""

    def mutate(patch: Patch) -> None:
        honest = theorem_runs.theorem_recipe
        patch.setattr(
            theorem_runs, "theorem_recipe", lambda *args: replace(honest(*args), **changes)
        )

    return mutate


def unequal_regime(patch: Patch) -> None:
    """One cluster of the larger class has nine times as many samples as the other."""

    def task(k: int, d: int) -> MultiCluster:
        shares = {3: (1 / 3, 0.6, 0.2 / 3)}.get(k)
        return MultiCluster(k=k, d=d, probabilities=shares)

    patch.setattr(theorem_runs, "MultiCluster", task)


class PrintedQuotient(Coefficients):
    """The recursion as the lecture notes print it: divided by |mu|^2 where it multiplies."""

    def see(self, view) -> None:
        before, self.rebuild = self._lambdas[-1], False
        super().see(view)
        step = self._lambdas[-1] - before
        self._lambdas[-1] = before + step / self._feature_squares**2
        self._errors.append(self._error(view.params[0]))


def large_start(patch: Patch) -> None:
    """The talks' initialisation at the paper's setting."""
    patch.setattr(paper_runs, "Recipe", partial(Recipe, sigma_w=1.0, sigma_b=1.0))


def always_on(data, recipe):
    """Initial weights that begin on their own cluster."""
    weights = data.unit_weights.copy()
    weights[..., np.arange(data.task.k), np.arange(data.task.k)] = 10.0
    return grouped(recipe.sigma_w * weights, data.task.k)


def pgd_sees_all(case, readout, seeds, points, at):
    """PGD that finds every flip there is."""
    return radius_runs.measured_radii(case, readout, seeds, figure3_curves.POINTS).robust_accuracy(
        np.array(at)
    )[1]


small_unequal = setting(unequal_sizes, N_TRAIN=200, PARTITIONS=(2, 5))
small_start = setting(initialisation, N_TRAIN=200, START_LONG_STEPS=50, SCALES=(1.0, 5.5e-4))
small_dead = setting(dead_neurons, DRAWS=40, SIZES=(20, 40), TRAINED=3)
small_grid = setting(biased_average, THRESHOLDS=(-4.0, 0.0, 0.6), POINTS=12)
small_linf = setting(linf, LINF_DIMENSIONS=(60, 120), TRAINING=100, POINTS=2)


def deviations(power: float):
    """Runs up to k = 5 are made up: they would take gigabytes. The distance falls like k^-power."""

    def made(k, precision):
        off = 1.2 * float(k) ** -power
        numbers = (15.0, 14.9, 15.1, 0.1, off, 15.0 * off, 1e-5)
        return ScaleRun(k, k**10, k**7, 0, precision, *numbers, 0, 2000, 900, 60.0, 10**9, 10**9)

    study = TheoremScale(tuple(made(k, "single") for k in (3, 4, 5)), made(4, "double"))
    return setting(scale_claims, theorem_scale=lambda **_: study)


ROWS = (
    Sabotage(
        "theorem-1-scale",
        "the distance does not depend on k",
        deviations(0.0),
        deviations(2.0),
    ),
    Sabotage(
        "figure-2a-averaged",
        "each neuron keeps one feature of its class",
        no_averaging(figure2_cosines),
        small_figure2,
    ),
    Sabotage(
        "figure-2b-decoupled",
        "each group takes up its class's other features",
        no_averaging(figure2_cosines),
        small_figure2,
    ),
    Sabotage(
        "theorem-2-clean",
        "six times the noise",
        setting(clean_errors, MultiCluster=partial(MultiCluster, sigma=6.0)),
        setting(clean_errors, POINTS=2000),
    ),
    Sabotage(
        "theorem-1-averaging",
        "each neuron keeps one feature of its class",
        no_averaging(theorem_runs),
        small_theorems,
    ),
    Sabotage(
        "theorem-1-coefficients",
        "each neuron keeps one feature of its class",
        no_averaging(theorem_runs),
        small_theorems,
    ),
    Sabotage(
        "theorem-4-decoupling",
        "each group takes up its class's other features",
        no_averaging(theorem_runs),
        small_theorems,
    ),
    Sabotage(
        "lemma-1-2-decomposition",
        "the recursion divides by the squared norm, as printed",
        setting(paper_runs, Coefficients=PrintedQuotient),
        small_paper_run,
    ),
    Sabotage(
        "lemma-3-activation",
        "initial biases that switch neurons off for good",
        with_recipe(sigma_b=1e3),
        together(small_theorems, small_paper_run),
    ),
    Sabotage(
        "lemma-4-updates", "a start so large that neurons stay off", large_start, small_paper_run
    ),
    Sabotage(
        "lemma-5-balance", "one cluster is nine times the other", unequal_regime, small_theorems
    ),
    Sabotage(
        "step-3-contraction", "one cluster is nine times the other", unequal_regime, small_theorems
    ),
    Sabotage(
        "lemma-6-7-9-bounds",
        "a start as large as the weights learned",
        with_recipe(sigma_w=0.05),
        small_theorems,
    ),
    Sabotage(
        "theorem-5-inequalities",
        "each group takes up its class's other features",
        no_averaging(theorem_runs),
        small_theorems,
    ),
    Sabotage(
        "lemma-12-epsilon",
        "n = k^5 only",
        lambda patch: patch.setattr(
            decoupling_claims,
            "epsilon_exponent",
            partial(decoupling_claims.epsilon_exponent, n_power=5.0),
        ),
    ),
    Sabotage(
        "decoupling-dead-neurons",
        "neurons begin active on their cluster",
        setting(dead_neurons, initial_net=always_on),
        small_dead,
    ),
    Sabotage(
        "assumption-2-unequal",
        "each neuron keeps one feature of its class",
        no_averaging(unequal_sizes),
        small_unequal,
    ),
    Sabotage(
        "talk-initialisation",
        "the paper's start in place of the talks'",
        setting(initialisation, SCALES=(5.5e-4, 5.5e-4), N_TRAIN=1000),
        small_start,
        improves=True,
    ),
    Sabotage(
        "average-any-bias",
        "three times the signal",
        setting(biased_average, MultiCluster=partial(MultiCluster, alpha=3.0)),
        small_grid,
    ),
    Sabotage(
        "averaged-gradient-norm",
        "the trained networks are robust solutions",
        networks_are(robust_networks),
        small_radii,
    ),
    Sabotage(
        "robust-one-neuron",
        "the construction without its biases",
        setting(steepness, biased_robust=feature_decoupling),
        small_radii,
    ),
    Sabotage(
        "theorem-1-non-robust",
        "the trained networks are robust solutions",
        networks_are(robust_networks),
        small_radii,
    ),
    Sabotage(
        "theorem-3-f-fa",
        "f_FA is the robust solution",
        setting(radius_scaling, feature_averaging=biased_robust),
        small_radii,
    ),
    Sabotage(
        "robust-solution-exists",
        "the construction is the average",
        setting(radius_scaling, biased_robust=feature_averaging),
        small_radii,
    ),
    Sabotage(
        "theorem-4-robust",
        "the labels of the clusters are shuffled",
        networks_are(shuffled_networks),
        together(small_radii, setting(radius_claims, CERTIFIED_POINTS=4)),
    ),
    Sabotage(
        "figure-3-left",
        "cluster labels make averages as well",
        networks_are(averaged_networks),
        small_radii,
    ),
    Sabotage(
        "readout-matters",
        "PGD that finds every flip",
        lambda patch: everywhere(patch, radius_runs, "pgd_accuracy", pgd_sees_all),
        small_radii,
    ),
    Sabotage(
        "gap-against-k",
        "cluster labels make averages as well",
        networks_are(averaged_networks),
        small_radii,
    ),
    Sabotage(
        "remark-attack-vector",
        "f_FA is the robust solution",
        setting(universal, feature_averaging=biased_robust),
    ),
    Sabotage(
        "universal-vector",
        "the trained networks are robust solutions",
        networks_are(robust_networks),
    ),
    Sabotage(
        "linf-averaging",
        "cluster labels make averages as well",
        setting(linf, NETWORKS={"averaged": ("coarse", "sum"), "decoupled": ("coarse", "sum")}),
        small_linf,
    ),
)
