"""How robust KKT points are: exact radii, the universal direction, and the Lipschitz bound."""

from __future__ import annotations

import math

import numpy as np

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.data.clusters import MultiCluster
from featavg.experiments.margins.kkt_runs import CLUSTERS, D, reached
from featavg.experiments.margins.lipschitz import lipschitz_radii
from featavg.figures.figure import Axis, Bar, Bars, Figure, Lines, Role, Series
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.radii import radii

TESTS = 40
FLIPPED = 0.99
_FREI = "Talks, properties of KKT points (Vardi et al. 2022; Frei et al. 2023, Theorem 4.2)"


def universal_length(net: TwoLayer, task: MultiCluster, seed: int) -> float:
    """The shortest z = eta sum_j y_j mu_j that flips all but 1% of 1000 fresh points."""
    sample = task.sample(1000, seed)
    x = sample.coordinates(net.dimension)
    direction = task.cluster_labels @ task.features_in(net.dimension)
    size = float(np.linalg.norm(direction))
    low, high = 0.0, 8.0 * math.sqrt(task.d / task.k)
    for _ in range(40):
        middle = (low + high) / 2
        z = middle / size * direction
        score = sample.y * net(x - sample.y[:, None] * z)[:, 0]
        low, high = (low, middle) if np.mean(score <= 0) >= FLIPPED else (middle, high)
    return high


def radius_claim(settings: ClaimSettings) -> Evidence:
    """Exact radii and the universal direction, for several k."""
    ratios, lengths = [], []
    for i, k in enumerate(CLUSTERS):
        # One k has every seed, the others two: the order in k is what they are for.
        seeds = settings.seeds if k == CLUSTERS[-1] else settings.seeds[:2]
        near, far = [], []
        for seed in seeds:
            settings.progress(i / len(CLUSTERS), f"k = {k}, seed {seed}")
            one = reached(k, seed)
            found = radii(one.nets[-1], one.task.sample(TESTS, seed), jobs=1)
            near.append(float(np.median(found.certified)) / math.sqrt(D / k))
            far.append(universal_length(one.nets[-1], one.task, seed) / math.sqrt(4 * D / k))
        ratios.append(near)
        lengths.append(far)
    figure = Figure(
        "radius",
        "KKT points are as fragile as averages",
        "Exact median radius and the universal direction's length, in units of their formulas.",
        (
            Bars(
                tuple(f"k = {k}" for k in CLUSTERS),
                (
                    _bar("median radius / √(d/k)", ratios, "averaged"),
                    _bar("length that flips 99% / √(d/(c²k))", lengths, "reference"),
                ),
                Axis("ratio"),
            ),
        ),
    )
    every = [value for near in ratios for value in near]
    reach = [value for far in lengths for value in far]
    return Evidence(
        checks=(
            Check("smallest median radius / √(d/k)", min(every), "within", (0.5, 2.0)),
            Check("largest median radius / √(d/k)", max(every), "within", (0.5, 2.0)),
            Check("longest universal direction / √(d/(c²k))", max(reach), "<=", 1.0),
        ),
        figures=(figure,),
        numbers={"radius": ratios, "universal": lengths, "k": list(CLUSTERS)},
        finding=f"Median radii are {min(every):.2f} to {max(every):.2f} times √(d/k) for k = 4, 6, 10; "
        f"one direction of {max(reach):.2f} times √(d/(c²k)) flips 99% of fresh points.",
        headlines=(Headline(f"{np.mean(every):.2f} √(d/k)", "radius of KKT points", "averaged"),),
    )


def _bar(label: str, values: list[list[float]], role: Role) -> Bar:
    means = [float(np.median(one)) for one in values]
    return Bar(label, means, role, [min(v) for v in values], [max(v) for v in values])


def lipschitz_claim(settings: ClaimSettings) -> Evidence:
    """q / beta beside the exact radius."""
    above, tight, pairs = -math.inf, [], []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        one = reached(CLUSTERS[-1], seed)
        sample = one.task.sample(TESTS, seed)
        net = one.nets[-1]
        bound = lipschitz_radii(net, sample.coordinates(net.dimension), sample.y)
        exact = radii(net, sample, jobs=1).certified
        above = max(above, float(((bound - exact) / exact.max()).max()))
        tight.append(float(np.median(bound[exact > 0] / exact[exact > 0])))
        pairs.append((bound, exact))
    bound, exact = pairs[0]
    line = np.array([0.0, float(exact.max())])
    figure = Figure(
        "lipschitz",
        "The Lipschitz bound beside the exact radius",
        "Fresh points of one seed; every point lies below the diagonal.",
        (
            Lines(
                Axis("exact radius", "l2"),
                Axis("q/β", "l2"),
                (
                    Series("points", exact, bound, "averaged", "markers"),
                    Series("exact", line, line, "reference", "dashed"),
                ),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("largest excess of q/β over the exact radius", above, "<=", 1e-9),
            Check("smallest median tightness", min(tight), ">=", 0.1, essential=False),
        ),
        figures=(figure,),
        numbers={"tightness": tight},
        finding=f"The bound is never above the exact radius and has {np.median(tight):.0%} of it.",
    )


CLAIMS = (
    Claim(
        id="margin-kkt-radius",
        title="KKT points have radius of order √(d/k)",
        theme="Margins",
        statement="Every KKT point is at most O(√(d/k))-robust, and one direction z = η Σ y<sub>j</sub>"
        "μ<sub>j</sub> of length O(√(d/(c²k))) flips all but ε of the points.",
        source=_FREI,
        measured="exact radii and the shortest such z that flips 99% of 1000 fresh points, k = 4, 6, 10",
        run=radius_claim,
        minutes=0.15,
    ),
    Claim(
        id="margin-lipschitz",
        title="Robustness is at least margin over Lipschitz constant",
        theme="Margins",
        statement="If q is β-Lipschitz, the radius is at least q/β.",
        source="Talks, margin and robustness (Sokolic et al. 2017)",
        measured="q/β beside the exact radius for fresh points of the KKT networks",
        run=lipschitz_claim,
        minutes=0.02,
    ),
)
