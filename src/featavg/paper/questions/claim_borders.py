"""Where is the border? Four maps of index and exact gain, 20 x 20 cells with five seeds each.

The tolerances were written before any map was run; a dozen single cells had been seen (σ from 0.3 to 5
with k = 4, 10 and 40; m = 12 and 20 with k = 10 and 30), which is how the sizes were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from featavg.paper.engine.claim import Check, Claim, Context, Evidence
from featavg.paper.engine.requirements import run_folder
from featavg.paper.questions.borders import BorderMap, border_map, lazy_border


def _judged(
    name: str,
    checks: Callable[[BorderMap], tuple[Check, ...]],
    finding: Callable[[BorderMap], str],
    settings: Context,
) -> Evidence:
    """Run a map (what an earlier run has finished is taken over) and hold it to its checks."""
    store = run_folder(settings) / "sweeps"
    result = border_map(name, settings.seeds, store, progress=settings.progress)
    complete = Check("runs that failed", result.failed, "<=", 0, role="note")
    return Evidence(
        *checks(result),
        complete,
        figure=result.figure(),
        numbers=result.to_json(),
        finding=finding(result),
    )


def _noise_checks(result: BorderMap) -> tuple[Check, ...]:
    index, predicted = result.middle(result.index), result.predicted_share
    agree = float(np.mean((index >= 0.5) == (predicted >= 0.5)))
    clear = predicted >= 1 / 1.1
    share = np.abs(result.middle(result.share) - predicted)
    return (
        Check(
            "share of cells that lie on the side of index ½ that kσ² = n says",
            agree,
            ">=",
            0.85,
            role="main",
        ),
        Check(
            "gain / √(k/2) where kσ² ≤ n/10, median of the cells",
            float(np.nanmedian(result.relative_gain[clear])),
            "within",
            (0.85, 1.15),
        ),
        Check(
            "|share in the span − 1/(1 + kσ²/n)|, median of the cells",
            float(np.median(share)),
            "<=",
            0.1,
        ),
        Check(
            "share of cells with a radius to compare",
            float(np.mean(np.isfinite(result.relative_gain))),
            ">=",
            0.5,
            role="note",
        ),
    )


def _noise_finding(result: BorderMap) -> str:
    k, sigma = result.field("k"), result.field("sigma")
    noisy = (k * sigma**2 > result.field("n")) & np.isfinite(result.relative_gain)
    quiet = np.nanmedian(result.relative_gain[k * sigma**2 <= 12])
    loud = np.nanmedian(result.relative_gain[noisy]) if noisy.any() else math.nan
    return (
        f"Averaging ends about where kσ² = n. The gain of cluster labels is {quiet:.2f}·√(k/2) where "
        f"kσ² ≤ n/10 and {loud:.2f}·√(k/2) beyond the border, as far as anything is classified there."
    )


def _sample_checks(result: BorderMap) -> tuple[Check, ...]:
    index, n, d = result.middle(result.index), result.field("n"), result.field("d")
    enough, high = (n >= 50) & (d >= 50), d >= 1000
    spread = [float(np.ptp(index[high[:, j], j])) for j in range(index.shape[1])]
    return (
        Check(
            "share of cells with n ≥ 5k and d ≥ 5k whose index is at least ½",
            float(np.mean(index[enough] >= 0.5)),
            ">=",
            0.95,
            role="main",
        ),
        Check(
            "range of the index over d from 1000 to 10⁶, median over n",
            float(np.median(spread)),
            "<=",
            0.1,
            note="the border is one of samples, not of dimensions",
        ),
        Check(
            "gain / √(k/2) where n ≥ 10k and d ≥ 1000, median of the cells",
            float(np.nanmedian(result.relative_gain[(n >= 100) & high])),
            "within",
            (0.85, 1.15),
        ),
    )


def _sample_finding(result: BorderMap) -> str:
    index, n, d = result.middle(result.index), result.field("n"), result.field("d")
    high = d >= 1000
    few, many = index[high & (n <= 12)], index[high & (n >= 300)]
    return (
        f"For d ≥ 1000 the index rises from {np.median(few):.2f} at a sample a cluster to "
        f"{np.median(many):.2f} at thirty, whatever d is; cluster labels pay "
        f"{np.nanmedian(result.relative_gain[high & (n >= 100)]):.2f}·√(k/2) there."
    )


def _lazy_checks(result: BorderMap) -> tuple[Check, ...]:
    slow = np.array(result.diagram.rows[1]) <= 0.1
    crossing = result.crossing()[slow]
    return (
        Check(
            "σ<sub>w</sub> where the index is ½ over λ√(k/2)/d, rates ≤ 0.1, mean of the logarithm",
            float(np.exp(np.mean(np.log(crossing)))) / lazy_border(),
            "within",
            (0.5, 2.0),
            role="main",
        ),
        Check(
            "largest over smallest such σ<sub>w</sub> among rates ≤ 0.1",
            float(crossing.max() / crossing.min()),
            "<=",
            1.5,
            note="the rate does not move the border",
        ),
        Check(
            "gain / √(k/2) in the lazy corner (σ<sub>w</sub> ≥ 0.3, rates ≤ 0.1)",
            float(
                np.nanmedian(
                    result.relative_gain[slow][:, np.array(result.diagram.columns[1]) >= 0.3]
                )
            ),
            "<=",
            0.8,
            note="fine labels pay less there",
        ),
    )


def _lazy_finding(result: BorderMap) -> str:
    crossing = result.crossing()
    known = crossing[np.isfinite(crossing)]
    gain, columns = result.relative_gain, np.array(result.diagram.columns[1])
    rich, lazy = np.nanmedian(gain[:, columns < 1e-3]), np.nanmedian(gain[:, columns >= 0.3])
    return (
        f"The lazy regime begins at σ<sub>w</sub> from {known.min():.2g} to {known.max():.2g} "
        f"(predicted {lazy_border():.2g}). Cluster labels gain {rich:.2f}·√(k/2) below it and "
        f"{lazy:.2f}·√(k/2) far above it."
    )


def _neuron_checks(result: BorderMap) -> tuple[Check, ...]:
    index, k = result.middle(result.index), result.field("k")
    change = np.abs(index[:, -1] - index[:, 0])
    return (
        Check(
            "share of cells with n ≥ 10k whose index is at least ½",
            float(np.mean(index[k <= 12] >= 0.5)),
            ">=",
            0.95,
            role="main",
        ),
        Check("|index at m = 20 − at m = 1|, median over k", float(np.median(change)), "<=", 0.15),
        Check(
            "gain / √(k/2), m ≥ 2, median of the cells",
            float(np.nanmedian(result.relative_gain[:, 1:])),
            "within",
            (0.85, 1.15),
        ),
    )


def _neuron_finding(result: BorderMap) -> str:
    index = result.middle(result.index)
    return (
        f"Neurons hardly matter: over all k the index is {np.median(index[:, 0]):.2f} with one neuron "
        f"per class and {np.median(index[:, -1]):.2f} with twenty; it falls from "
        f"{np.median(index[0]):.2f} at k = 4 to {np.median(index[-1]):.2f} at k = 23, where a cluster "
        f"has five samples. The gain is {np.nanmedian(result.relative_gain):.2f}·√(k/2)."
    )


def _claim(
    name: str, title: str, statement: str, measured: str, *parts: Callable[..., object]
) -> Claim:
    return Claim(
        id=f"question-border-{name}",
        title=title,
        theme="Open questions",
        statement=statement,
        source="Asked by this project: where does the averaging of arXiv 2410.10322 end?",
        measured=measured + ", 400 cells of 5 seeds, by `featavg sweep`'s own runs",
        run=partial(_judged, name, *parts),  # type: ignore[arg-type]
        tier="full",
        minutes=4,
        statements=("summary-mechanism-1",),
    )


CLAIMS = (
    _claim(
        "noise",
        "Averaging ends where noise outweighs the samples of a cluster",
        "With class labels the averaging index falls below one half where kσ² exceeds n, and cluster "
        "labels gain √(k/2) on the near side of that border.",
        "index and exact gain over σ from 0.1 to 10 and k from 4 to 23",
        _noise_checks,
        _noise_finding,
    ),
    _claim(
        "samples",
        "Averaging needs samples, not dimensions",
        "Five samples a cluster and five dimensions a cluster are enough to average; more dimensions "
        "change nothing, and cluster labels gain √(k/2).",
        "index and exact gain over n from 10 to 400 and d from 30 to 10⁶",
        _sample_checks,
        _sample_finding,
    ),
    _claim(
        "initialisation",
        "The lazy regime begins where initial weights outweigh what is learned",
        "Averaging ends where σ<sub>w</sub> = λ√(k/2)/d, whatever the learning rate, and in the lazy "
        "regime beyond cluster labels pay less.",
        "index and exact gain over σ<sub>w</sub> from 10⁻⁴ to 1 and rates from 0.002 to 1 at equal time",
        _lazy_checks,
        _lazy_finding,
    ),
    _claim(
        "neurons",
        "More neurons neither cause averaging nor cure it",
        "The averaging index and the gain of cluster labels depend on k and not on the number of "
        "neurons per class.",
        "index and exact gain over 1 to 20 neurons per class and k from 4 to 23",
        _neuron_checks,
        _neuron_finding,
    ),
)
