"""Ilyas et al. (2019): are single features robust, and is their average not?"""

from __future__ import annotations

import math

import numpy as np

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.measures.usefulness import (
    Feature,
    measured_usefulness,
    robust_usefulness,
    vanishing_radius,
)

# Between √(d/k) = 0.316 √d, where the average must break, and √d / 2.
SHARE = 0.4


def features_of(task: MultiCluster) -> dict[str, Feature]:
    """The first feature and the average of all, each as a linear feature and as a detector.

    A detector of a single feature fires half-way to it, like a neuron of the biased robust network;
    the average's fires at zero, like the sign of the averaged network.
    """
    single, average = np.eye(task.k)[0], task.cluster_labels.astype(float)
    half = task.alpha * float(task.gram_matrix[0, 0]) / 2
    return {
        "single, linear": Feature(task, single),
        "average, linear": Feature(task, average),
        "single, detector": Feature(task, single, half),
        "average, detector": Feature(task, average, 0.0),
    }


def useful(settings: ClaimSettings, k: int = 10, d: int = 3072, n: int = 20_000) -> Evidence:
    """Usefulness and robust usefulness, in closed form and measured."""
    task = MultiCluster(k=k, d=d)
    root = math.sqrt(d)
    features = features_of(task)
    eps = np.linspace(0.0, 0.7, 15)
    closed = {name: [robust_usefulness(f, e * root) for e in eps] for name, f in features.items()}
    measured, surprise = {}, 0.0
    for i, (name, feature) in enumerate(features.items()):
        settings.progress(i / len(features), name)
        rows = []
        for seed in settings.seeds:
            found, errors = measured_usefulness(feature, eps * root, n, seed)
            # A detector that no sample point contradicts has no sampling error at all.
            off = np.abs(found - closed[name]) / np.maximum(errors, 1 / n)
            surprise = max(surprise, float(off.max()))
            rows.append(found)
        measured[name] = np.median(rows, axis=0)
    at = {name: robust_usefulness(f, SHARE * root) for name, f in features.items()}
    every = [
        robust_usefulness(Feature(task, y * one), SHARE * root)
        for y, one in zip(task.cluster_labels, np.eye(k), strict=True)
    ]
    at["single, linear"] = max(every)
    fine = np.linspace(0.0, 0.7, 141)
    curves = {name: [robust_usefulness(f, e * root) for e in fine] for name, f in features.items()}
    plain = {name: robust_usefulness(f) for name, f in features.items()}
    vanish = {name: vanishing_radius(f, 2 * root) / root for name, f in features.items()}
    kept = {"single": 1 - SHARE, "average": 1 - SHARE * math.sqrt(k)}
    where = f"ε = {SHARE:g} √d"
    checks = (
        Check("every feature is useful: smallest ρ", min(plain.values()), ">=", 0.1),
        Check(f"best single ⟨μ<sub>j</sub>,x⟩, to the letter: γ at {where}", at["single, linear"],
              ">=", 0.0, note="the adversary may move every point"),
        Check(f"average, to the letter: γ at {where}", at["average, linear"], "<=", 0.0),
        Check(f"single, on the points that carry it: share of ⟨μ<sub>j</sub>,x⟩ left at {where}",
              kept["single"], ">=", 0.5),
        Check(f"average, on the same points: share left at {where}", kept["average"], "<=", 0.0),
        Check(f"single, as a detector: γ/ρ at {where}",
              at["single, detector"] / plain["single, detector"], ">=", 0.9),
        Check(f"average, as a detector: γ at {where}", at["average, detector"], "<=", 0.0),
        Check("measured against closed form, in standard errors", surprise, "<=", 5.0,
              essential=False, note=f"{len(eps) * len(features) * len(settings.seeds)} comparisons"),
    )  # fmt: skip
    reversed_ = vanish["single, linear"] < vanish["average, linear"]
    finding = (
        f"On the points that carry it, and as a detector, a single feature outlives {where} and the "
        f"average does not. To the letter of the definition the order is "
        f"{'reversed' if reversed_ else 'kept'}: ⟨μ<sub>j</sub>,x⟩ stops being robustly useful at "
        f"{vanish['single, linear']:.2f} √d and the average at {vanish['average, linear']:.2f} √d, "
        f"because {k - 1} of {k} points do not carry the feature and can be pushed along it; a "
        f"detector with a threshold ignores them and lasts to {vanish['single, detector']:.2f} √d."
    )
    return Evidence(
        checks,
        (_figure(fine, curves, eps, measured, k),),
        {"rho": plain, "gamma": at, "gamma_of_every_single": every, "eps": SHARE,
         "vanishing_radius_over_sqrt_d": vanish,
         "largest_surprise_in_standard_errors": surprise},
        finding,
    )  # fmt: skip


def _figure(
    fine: np.ndarray,
    closed: dict[str, list[float]],
    eps: np.ndarray,
    measured: dict[str, np.ndarray],
    k: int,
) -> Figure:
    panels = []
    for kind, title in (("linear", "Linear: ⟨w,x⟩"), ("detector", "Detector: is ⟨w,x⟩ large?")):
        series = []
        for name, role in (("single", "decoupled"), ("average", "averaged")):
            key = f"{name}, {kind}"
            series += [
                Series(f"{name}, closed form", fine, closed[key], role),  # type: ignore[arg-type]
                Series(f"{name}, measured", eps, measured[key], role, "markers"),  # type: ignore[arg-type]
            ]
        rules = (Rule(0.0), Rule(k**-0.5, "x", "√(d/k)"))
        panels.append(
            Lines(
                Axis("ε / √d"),
                Axis("robust usefulness γ", range=(-1.6, 1.1)),
                tuple(series),
                title=title,
                rules=rules,
            )
        )
    return Figure(
        "usefulness",
        "Which features survive an adversary?",
        "Robust usefulness E[inf y f] of a single feature and of the average against the length of "
        "the perturbation. As linear functions the average outlives the single feature; as detectors "
        "with a threshold the single feature outlives the average.",
        tuple(panels),
    )


CLAIMS = (
    Claim(
        id="connections-robust-features",
        title="Single features are robust features, their average is not",
        theme="Connections",
        statement="By the definitions of Ilyas et al., each ⟨μ<sub>j</sub>,x⟩ is useful and robustly "
        "useful, and the average of the features is useful but not robustly useful, under l2 "
        "perturbations longer than √(d/k).",
        source="Talk, 'Connection to nonrobust features'; Ilyas et al. 2019, section 2",
        measured="ρ = E[y f] and γ = E[inf<sub>|u|≤ε</sub> y f(x+u)] of features normalised to mean 0 "
        "and variance 1, in closed form and on 20,000 points a seed, for a single feature and the "
        "average, linear and with a threshold; k = 10, d = 3072, ε = 0.4 √d",
        run=useful,
        minutes=0.01,
    ),
)
