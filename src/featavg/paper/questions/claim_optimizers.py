"""Next check 3: is averaging a bias of gradient descent, or of every optimizer?

The tolerances were written before the first run. That Adam and sign descent decouple is what
arXiv 2505.24022 reports of three clusters in the plane; nobody has reported radii.
"""

from __future__ import annotations

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.questions.optimizers import COORDINATE_WISE, optimizer_study


@claim(
    "question-optimizers",
    "Descent averages in all its forms; Adam and sign descent decouple",
    theme="Open questions",
    source="Summary of arXiv 2410.10322, next check 3; arXiv 2505.24022 for Adam and sign descent",
    measured="averaging index and exact l2 radii at the same training loss, k = 10, d = 500, features "
    "along the axes and in random directions",
    tier="full",
    minutes=1,
    statements=("summary-check-3",),
)
def optimizers(settings: Context) -> Evidence:
    """Momentum, mini-batches, weight decay, schedules, warm-up and smoothed labels average as
    gradient descent does, and cluster labels gain √(k/2) with each; Adam and sign descent
    decouple with class labels alone and are more robust for it.
    """
    study = optimizer_study(settings.seeds, progress=settings.progress)
    index, radius = study.column("index"), study.column("averaged")
    typical_gain = np.median(study.of(study.gain, False), axis=-1) / study.theory_gain
    plain, wise = study.of(index, False), study.of(index, True)
    more = study.of(radius, True) / radius[:, :1]
    typical = {
        name: np.median(index[:, study.optimizers.index(name)], axis=-1) for name in COORDINATE_WISE
    }
    named = "; ".join(f"{name} {v[0]:.2f} and {v[1]:.2f}" for name, v in typical.items())
    return Evidence(
        Check(
            "smallest index of descent and its relatives, both orientations",
            plain.min(axis=(0, 1)),
            ">=",
            0.5,
            role="main",
        ),
        Check("their gain / √(k/2), smallest (median over seeds)", typical_gain.min(), ">=", 0.8),
        Check("their gain / √(k/2), largest (median over seeds)", typical_gain.max(), "<=", 1.2),
        Check(
            "largest index of Adam, AdamW and sign descent, both orientations",
            wise.max(axis=(0, 1)),
            "<=",
            0.5,
            note="they would decouple",
        ),
        Check(
            "their radius with class labels over that of gradient descent, smallest",
            more.min(axis=(0, 1)),
            ">=",
            1.2,
            note="and gain from it",
        ),
        figure=study.figure(),
        numbers=study.to_json(),
        finding=f"Gradient descent, momentum, mini-batches, weight decay, schedules, warm-up and smoothed "
        f"labels all average (index {plain.min():.2f} to {plain.max():.2f}). Index with features along "
        f"axes and in random directions: {named}. With class labels these have "
        f"{np.median(more[0]):.2f} and {np.median(more[1]):.2f} times the radius of gradient descent.",
    )
