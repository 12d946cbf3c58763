"""One vector for all points: how short it can be and still fool almost all of them."""

from __future__ import annotations

import math

import numpy as np
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.clusters import MultiCluster
from featavg.experiments.paper.radius_runs import DIMENSIONS, Case, fresh, networks
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.witness import margins


def universal_vector(settings: ClaimSettings) -> Evidence:
    """One vector that fools almost all points, and how short it can be."""
    seeds = settings.seeds
    lengths = np.linspace(0.0, 2.0, 81)
    shares: dict[str, list[ndarray]] = {"coarse": [], "fine": []}
    d = DIMENSIONS[1]
    for labels, rows in shares.items():
        case = Case(labels, d=d, paper=False)
        for net, seed in zip(networks(case, seeds), seeds, strict=True):
            rows.append(_fooled(case.task, net, seed, lengths))
    coarse, fine = np.array(shares["coarse"]), np.array(shares["fine"])
    shortest = [float(lengths[np.flatnonzero(row >= 0.99)[0]]) for row in coarse if row[-1] >= 0.99]
    worst = max(shortest) if len(shortest) == len(seeds) else math.inf
    at = int(np.searchsorted(lengths, 1.25))
    return Evidence(
        checks=(
            Check(
                "length that fools 99% of the points, in units of √(d/k)",
                worst,
                "<=",
                1.5,
                note="the worst seed; the theorem says O(√(d/k))",
            ),
            Check("averaged: share fooled at 1.25 √(d/k)", float(coarse[:, at].min()), ">=", 0.95),
            Check(
                "decoupled: share fooled by the same vector at 1.25 √(d/k)",
                float(fine[:, at].max()),
                "<=",
                0.01,
                essential=False,
            ),
        ),
        figures=(
            Figure(
                "fooled",
                "One vector for all points",
                f"Share of correctly decided points that x − y z fools, z along Σ yⱼ μⱼ, d = {d:,}, k = 10, "
                "against its length; band: seeds.",
                (
                    Lines(
                        Axis("|z| / √(d/k)"),
                        Axis("share fooled"),
                        (
                            Series.over_seeds("averaged", lengths, coarse, "averaged"),
                            Series.over_seeds(
                                "decoupled (probability)", lengths, fine, "decoupled"
                            ),
                        ),
                    ),
                ),
            ),
        ),
        numbers={
            "lengths": lengths.tolist(),
            "averaged": coarse.tolist(),
            "decoupled": fine.tolist(),
        },
        finding=(
            f"A vector of length {worst:.2f} √(d/k) fools 99% of the points of every averaged network, "
            f"little longer than what each point needs by itself; at 1.25 √(d/k) it fools "
            f"{fine[:, at].max():.1%} of the decoupled network's."
        ),
    )


def _fooled(task: MultiCluster, net: TwoLayer, seed: int, lengths: ndarray) -> ndarray:
    """For each length the share of correctly decided points that the universal vector fools."""
    test = fresh(task, 200, seed)
    x = test.coordinates(net.dimension)
    way = task.cluster_labels @ task.features_in(net.dimension)
    way *= math.sqrt(task.d / task.k) / np.linalg.norm(way)
    mask = task.positive_clusters if net.outputs > 1 else None
    right = margins(net, x, test.y, mask, "probability") > 0
    x, y = x[right], test.y[right]
    moved = [x - length * y[:, None] * way for length in lengths]
    return np.array([np.mean(margins(net, one, y, mask, "probability") <= 0) for one in moved])


CLAIMS = (
    Claim(
        id="universal-vector",
        title="One vector fools almost all points",
        theme="Exact robustness",
        statement=(
            "There is one z along Σ y<sub>j</sub>μ<sub>j</sub> with |z| = O(√(d/k)) such that x − y z is "
            "decided otherwise than x for almost all points."
        ),
        source="Talk at CSML 2024, theorem 4.2 (Frei et al.); lecture notes, remark after Theorem 3",
        measured="the share of fresh points fooled against |z|, and the shortest |z| for 99%",
        run=universal_vector,
        minutes=0.1,
    ),
)
