"""KKT points on multi-cluster data: are they reached, and do they average?"""

from __future__ import annotations

import numpy as np

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.claims.margins.homogeneous import final_net
from featavg.experiments.margins.homogeneous_flow import flow
from featavg.experiments.margins.kkt_runs import CLUSTERS, DEPTHS, POINTS_A_CLUSTER, reached
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.averaging import averaging_index
from featavg.measures.kkt import kkt

_FREI = "Talks, properties of KKT points (Vardi et al. 2022; Frei et al. 2023, Theorem 4.2)"


def residual_claim(settings: ClaimSettings) -> Evidence:
    """Stationarity and complementarity, apart."""
    runs = []
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / (len(settings.seeds) + 1), f"seed {seed}")
        runs.append(reached(CLUSTERS[-1], seed))
    late = np.array([one.stationarity for one in runs])
    # Weights keep what they started with, so a limit is seen early only from a small start.
    both = flow(2, settings.seeds, scale=0.005)
    middle = int(np.argmax(np.all(both.log_loss < -DEPTHS[2], axis=1)))
    found = np.array(
        [
            [kkt(final_net(both, s, at), both.x[s], both.y[s]).stationarity for at in (middle, -1)]
            for s in range(len(settings.seeds))
        ]
    )
    figure = Figure(
        "residuals",
        "The flow reaches a KKT point",
        "Relative stationarity residual of the theory's network (k = 10, d = 3072) along the flow.",
        (
            Lines(
                Axis("log(1/loss)", log=True),
                Axis("relative stationarity", log=True),
                (Series.over_seeds("first layer trained", DEPTHS, late, "averaged"),),
            ),
        ),
    )
    worst = float(late[:, -1].max())
    return Evidence(
        checks=(
            Check("first layer trained: largest stationarity", worst, "<=", 1e-3),
            Check(
                "first layer trained: largest late/early ratio",
                float((late[:, -1] / late[:, 2]).max()),
                "<=",
                0.5,
            ),
            Check("both layers trained: largest stationarity", found[:, 1].max(), "<=", 1e-3),
            Check(
                "both layers trained: largest late/early ratio",
                float((found[:, 1] / found[:, 0]).max()),
                "<=",
                0.5,
            ),
            Check(
                "largest complementarity",
                max(one.complementarity for one in runs),
                "<=",
                1e-2,
                essential=False,
            ),
            Check(
                "deepest relative fall of the smoothed margin, kinks and all",
                max(one.fall for one in runs),
                "<=",
                1e-12,
                essential=False,
            ),
        ),
        figures=(figure,),
        numbers={
            "stationarity": late.tolist(),
            "both_layers": found.tolist(),
            "support": [one.support for one in runs],
            "kinks": [one.kinks for one in runs],
        },
        finding=f"At a loss of e^-500 the residual is at most {worst:.1e} and falls like 1/log(1/loss);"
        f" {min(one.support for one in runs)} of {POINTS_A_CLUSTER * CLUSTERS[-1]} points or more are "
        f"support vectors, and up to {max(one.kinks for one in runs)} pairs (neuron, point) slide on "
        "their kink.",
    )


def averaging_claim(settings: ClaimSettings) -> Evidence:
    """The averaging index from the fit to the KKT point."""
    runs = [reached(CLUSTERS[-1], seed) for seed in settings.seeds]
    index = np.array(
        [
            # Evenness alone: few points a cluster leave noise in the weights, which is no averaging.
            [float(averaging_index(net, one.task).neuron_evenness.min()) for net in one.nets]
            for one in runs
        ]
    )
    figure = Figure(
        "averaging",
        "Training longer keeps the average",
        "The smallest averaging index of any neuron; 1 is a perfect average, 0 a single feature.",
        (
            Lines(
                Axis("log(1/loss)", log=True),
                Axis("averaging index", range=(0.0, 1.05)),
                (Series.over_seeds("smallest of all neurons", DEPTHS, index, "averaged"),),
            ),
        ),
    )
    return Evidence(
        checks=(
            Check("smallest averaging index at the KKT point", index[:, -1].min(), ">=", 0.9),
            Check(
                "largest loss of it since the fit", (index[:, 0] - index[:, -1]).max(), "<=", 0.05
            ),
        ),
        figures=(figure,),
        numbers={"index": index.tolist(), "depths": list(DEPTHS)},
        finding=f"From a loss of e^-2 to e^-500 the index of every neuron stays above "
        f"{index.min():.2f}: the limit averages as the beginning does.",
    )


CLAIMS = (
    Claim(
        id="margin-kkt-residual",
        title="Gradient flow ends in a KKT point of the max-margin problem",
        theme="Margins",
        statement="The direction converges, and its limit satisfies the KKT conditions.",
        source="Talks, max-margin problem (P) (Lyu and Li 2020; Ji and Telgarsky 2020)",
        measured="relative stationarity with non-negative least-squares multipliers, data known, for "
        "two-layer networks with the first layer trained (k = 10, d = 3072) and with both",
        run=residual_claim,
        minutes=0.2,
    ),
    Claim(
        id="margin-kkt-averaging",
        title="Training longer keeps the average",
        theme="Margins",
        statement="The KKT point that training from a small start tends to still averages features.",
        source=_FREI,
        measured="the averaging index of every neuron from a loss of e^-2 to e^-500",
        run=averaging_claim,
        minutes=0.02,
    ),
)
