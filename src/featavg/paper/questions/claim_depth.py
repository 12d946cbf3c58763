"""Open question 2: what depth changes. Tolerances are those of the claims on two layers, or stated.

Networks here are small (10 neurons in every hidden layer, 300 points) so that radii are exact. The
paper's own claim asks for an index of 0.9 with 1000 points; 300 leave two layers near 0.93, and what
is asked of deeper ones is 0.8. Radii may differ by a third from the theory: points of unequal classes
already do by a quarter (see `universal-vector`).
"""

from __future__ import annotations

import math

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.questions.depth_exponents import depth_scaling
from featavg.paper.questions.depth_index import DepthAveraging, depth_averaging
from featavg.paper.questions.depth_kkt import depth_margin
from featavg.paper.questions.depth_layers import depth_probe
from featavg.paper.questions.depth_networks import Learned
from featavg.storage.places import results_folder

K = 10
AVERAGED, DECOUPLED_COSINE, DECOUPLED_INDEX = 0.8, 0.9, 0.1
RADIUS = (0.75, 4 / 3)
SOURCE = (
    "Open question 2 and next check 2 of the summary of arXiv 2410.10322: deeper networks, three "
    "layers and residual ones"
)
STATEMENTS = ("summary-open-2", "summary-check-2")


def _kinds(study: DepthAveraging) -> dict[tuple[int, bool], list[Learned]]:
    """The deep rows by depth and kind: in each, the first or all layers are trained."""
    kinds: dict[tuple[int, bool], list[Learned]] = {}
    for row in study.deep:
        kinds.setdefault((row.architecture.depth, row.architecture.residual), []).append(row)
    return kinds


def _told(depth: int, residual: bool) -> str:
    return f"{depth} layers, {'residual' if residual else 'plain'}"


@claim(
    "question-depth-averages",
    "Deeper networks average too",
    theme="Open questions",
    source=SOURCE,
    measured="the averaging index of the mean gradient over each cluster, first or all layers trained, "
    "several starts and widths; k = 10, d = 3072",
    tier="full",
    minutes=3,
    statements=STATEMENTS,
)
def averages(settings: Context) -> Evidence:
    """Trained on class labels, networks of 3, 4 and 6 layers, plain and residual, look in every
    cluster for the average of the features of its class.
    """
    study = depth_averaging(
        "coarse", tuple(settings.seeds), progress=settings.progress, keep=results_folder("depth")
    )
    kinds = _kinds(study)
    checks = [
        Check(
            f"averaging index, {_told(*kind)}",
            np.mean([row.index for row in rows], axis=0),
            ">=",
            AVERAGED,
            note=f"random directions: {rows[0].null:.2f}; two layers: "
            f"{np.mean([row.index for row in study.shallow]):.2f}",
        )
        for kind, rows in kinds.items()
    ]
    for row in study.varied:
        start = row.architecture
        checks.append(
            Check(
                f"averaging index, {_told(start.depth, start.residual)}: {start.neurons} neurons, first "
                f"layer {start.sigma_w:g}, inner layers {start.inner_scale:g}",
                row.index,
                ">=",
                AVERAGED,
                role="note",
            )
        )
    for kind, rows in kinds.items():
        ends = (
            float(np.mean([row.certified for row in rows])),
            float(np.mean([row.attack for row in rows])),
        )
        checks.append(
            Check(
                f"median radius / √(d/k) at the paper's d, {_told(*kind)}",
                None,
                "within",
                RADIUS,
                interval=ends,
                role="note",
                note="the interval is what the budget of 100 programs for each point left open",
            )
        )
    means = {kind: float(np.mean([row.index for row in rows])) for kind, rows in kinds.items()}
    worst = min(means, key=lambda kind: means[kind])
    accuracy = min(float(row.accuracy.min()) for row in study.deep)
    return Evidence(
        *tuple(checks),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"The mean index is {means[3, False]:.2f} (plain) and {means[3, True]:.2f} (residual) at 3 "
        f"layers, {means[4, False]:.2f} and {means[4, True]:.2f} at 4, {means[6, False]:.2f} and "
        f"{means[6, True]:.2f} at 6, against {np.mean([r.index for r in study.shallow]):.2f} at 2; "
        f"lowest for {_told(*worst)}. Clean accuracy is at least {accuracy:.1%}.",
    )


@claim(
    "question-depth-radius",
    "Depth leaves the radius at √(d/k)",
    theme="Open questions",
    source=SOURCE,
    measured="exact l2 radii of fresh points, networks of 2 to 4 layers, d from 10³ to 10⁶ and k "
    "from 4 to 16",
    tier="full",
    minutes=3,
    statements=STATEMENTS,
)
def radius(settings: Context) -> Evidence:
    """Networks of more than two layers trained on class labels are as fragile as those of two: their
    radius grows like √(d/k).
    """
    seeds = tuple(settings.seeds)
    study = depth_scaling(seeds, progress=settings.progress, keep=results_folder("depth"))
    checks = []
    for i, shape in enumerate(study.shapes):
        if shape.depth == 2:
            continue
        told = _told(shape.depth, shape.residual)
        checks += [
            Check(f"exponent of d, {told}", study.slopes_d(i).tolist(), "within", (0.45, 0.55)),
            Check(f"exponent of k, {told}", study.slopes_k(i).tolist(), "within", (-0.6, -0.4)),
            Check(
                f"radius / √(d/k), mean over d and k, {told}",
                study.ratios(i).tolist(),
                "within",
                RADIUS,
            ),
        ]
    slopes = [float(study.slopes_d(i).mean()) for i in range(len(study.shapes))]
    falls = [float(study.slopes_k(i).mean()) for i in range(len(study.shapes))]
    ratios = [float(study.ratios(i).mean()) for i in range(len(study.shapes))]
    return Evidence(
        *tuple(checks),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"The exponent of d is {min(slopes[1:]):.2f} to {max(slopes[1:]):.2f} with more than two "
        f"layers ({slopes[0]:.2f} with two), that of k {min(falls[1:]):.2f} to {max(falls[1:]):.2f} "
        f"({falls[0]:.2f}), and the radius is {min(ratios[1:]):.2f} to {max(ratios[1:]):.2f} √(d/k) "
        f"({ratios[0]:.2f}).",
    )


@claim(
    "question-depth-fine",
    "Cluster labels decouple at any depth",
    theme="Open questions",
    source=SOURCE,
    measured="cosine of each output's mean gradient with its own feature, averaging index, and exact "
    "l2 radii (read-out max) against those with class labels",
    tier="full",
    minutes=4,
    statements=STATEMENTS,
)
def fine_labels(settings: Context) -> Evidence:
    """Trained on cluster labels, every output of a deeper network looks for its own feature only,
    and the network is more robust than with class labels.
    """
    seeds = tuple(settings.seeds)
    fine = depth_averaging("fine", seeds, progress=settings.progress, keep=results_folder("depth"))
    coarse = depth_averaging(
        "coarse", seeds, progress=settings.progress, keep=results_folder("depth")
    )
    checks = []
    gains = {}
    theirs = _kinds(coarse)
    for kind, rows in _kinds(fine).items():
        scale = math.sqrt(K / 2)
        low = (
            scale * np.mean([r.certified for r in rows]) / np.mean([r.attack for r in theirs[kind]])
        )
        high = (
            scale * np.mean([r.attack for r in rows]) / np.mean([r.certified for r in theirs[kind]])
        )
        gains[kind] = (float(low), float(high))
        checks += [
            Check(
                f"cosine with the own feature, {_told(*kind)}",
                np.mean([row.own for row in rows], axis=0),
                ">=",
                DECOUPLED_COSINE,
            ),
            Check(
                f"averaging index, {_told(*kind)}",
                np.mean([row.index for row in rows], axis=0),
                "<=",
                DECOUPLED_INDEX,
            ),
            Check(
                f"radius over that of class labels, {_told(*kind)}",
                None,
                ">=",
                1.5,
                interval=gains[kind],
                note=f"theory for two layers: √(k/2) = {scale:.2f}; the interval is what the budget of "
                "100 programs for each point left open",
            ),
        ]
    own = {kind: float(np.mean([r.own for r in rows])) for kind, rows in _kinds(fine).items()}
    two = float(np.mean([row.own for row in fine.shallow]))
    return Evidence(
        *tuple(checks),
        figure=fine.figure(),
        numbers=fine.to_json(),
        finding=f"The cosine of an output's effective weight with its own feature is {own[3, False]:.2f} "
        f"(plain) and {own[3, True]:.2f} (residual) at 3 layers, {own[4, False]:.2f} and "
        f"{own[4, True]:.2f} at 4, {own[6, False]:.2f} and {own[6, True]:.2f} at 6, against {two:.2f} at "
        f"2: random inner layers mix the features. At 3 residual layers cluster labels gain "
        f"{gains[3, True][0]:.2f} to {gains[3, True][1]:.2f} in the radius, not {math.sqrt(K / 2):.2f}.",
    )


@claim(
    "question-depth-inner",
    "No inner layer knows the clusters",
    theme="Open questions",
    source=SOURCE,
    measured="linear probes of every hidden layer for the cluster, the class being known, and evenness "
    "of the neurons' mean activations",
    tier="full",
    minutes=1,
    statements=STATEMENTS,
)
def inner_layers(settings: Context) -> Evidence:
    """A deep network trained on class labels tells the clusters of a class apart in none of its
    hidden layers.
    """
    study = depth_probe(
        tuple(settings.seeds), progress=settings.progress, keep=results_folder("depth")
    )
    best = {
        kind: np.max([rows.max(axis=1) for rows in study.accuracy[kind]], axis=0)
        for kind in study.accuracy
    }
    even = np.min([rows.min(axis=1) for rows in study.evenness["coarse"]], axis=0)
    return Evidence(
        Check(
            "clusters of a class named by a probe of the best hidden layer, class labels",
            best["coarse"],
            "<=",
            2 * study.chance,
            note=f"chance: {study.chance:.2f}",
        ),
        Check(
            "evenness of activations over the clusters of a class, least even layer",
            even,
            ">=",
            AVERAGED,
        ),
        Check(
            "the same probe on networks trained with cluster labels",
            best["fine"],
            ">=",
            0.9,
            role="note",
        ),
        Check("the same probe on untrained networks", best["untrained"], "<=", 1.0, role="note"),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"The best hidden layer of any network trained on class labels names {best['coarse'].mean():.0%} "
        f"of the clusters (chance {study.chance:.0%}), of untrained ones {best['untrained'].mean():.0%}, "
        f"with cluster labels {best['fine'].mean():.0%}; activations are even to {even.mean():.2f} in "
        "the least even layer.",
    )


@claim(
    "question-depth-margin",
    "The margin does not save deeper networks",
    theme="Open questions",
    source=SOURCE + "; margin half: Theorem 4.2 of the talk at iTCS 2024 for two layers",
    measured="exact l2 radii of fresh points and KKT residuals at a loss of e⁻⁴⁰ for 2, 3 and 4 layers",
    tier="full",
    minutes=2,
    statements=STATEMENTS,
)
def margin(settings: Context) -> Evidence:
    """Deep homogeneous networks trained on class labels towards the largest margin keep a radius of
    √(d/k).
    """
    study = depth_margin(
        tuple(settings.seeds), progress=settings.progress, keep=results_folder("depth")
    )
    checks = []
    for depth in study.depths[1:]:
        checks.append(
            Check(
                f"median radius / √(d/k), {depth} layers, loss e⁻⁴⁰",
                study.radius(depth).tolist(),
                "within",
                RADIUS,
            )
        )
    for depth in study.depths:
        checks.append(
            Check(
                f"stationarity of the KKT conditions, {depth} layers",
                study.stationarity(depth).tolist(),
                "<=",
                0.1,
                role="note",
            )
        )
    means = {depth: float(study.radius(depth).mean()) for depth in study.depths}
    return Evidence(
        *tuple(checks),
        figure=study.figure(),
        numbers=study.to_json(),
        finding="Trained to a loss of e⁻⁴⁰, all layers, without biases, homogeneous networks have a median "
        "radius of "
        + ", ".join(f"{value:.2f} √(d/k) with {depth} layers" for depth, value in means.items())
        + f"; KKT residual at most {max(study.stationarity(d).max() for d in study.depths):.2f}.",
    )
