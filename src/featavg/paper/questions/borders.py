r"""Where is the border? Maps of the averaging index and of the exact gain over two settings at a time.

All maps train by the paper's gradient descent at d = 1000, k = 10, m = 5, n = 120 unless an axis says
otherwise, for the time rate * steps = 1 (the product with d is what counts, so the rate falls like
1/d where d varies). Every cell is the median over its seeds, every run is one of `featavg.sweep`.

What to expect. With n/k samples a cluster, a neuron that is the sum of its class's samples has the
signal (n/k)^2 d k/2 and the noise sigma^2 d n/2 in its squared length, so the share of it in the span
of the features, which bounds the index, is

    share = 1 / (1 + k sigma^2 / n):        averaging ends where k sigma^2 = n.

An initial weight of squared length sigma_w^2 d stays beside what is learned, lambda^2 k / (2 d), and
lambda + e^lambda - 1 = d p t / m; the lazy regime begins where both are equal,

    sigma_w = lambda sqrt(k/2) / d.

Neither d nor the number of neurons is in the first formula, and the rate is in neither.

The tolerances were written before any map was run; a dozen single cells had been seen (σ from 0.3 to 5
with k = 4, 10 and 40; m = 12 and 20 with k = 10 and 30), which is how the sizes were chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Contour, Figure, Heatmap, Plane
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import run_folder
from featavg.paper.theorems.assumptions import predicted_coefficients
from featavg.simulate.sweep.run import sweep

K, D, N, M, SIGMA, TIME, STEPS, TEST_POINTS = 10, 1000, 120, 5, 1.0, 1.0, 100, 8
COMMON: Mapping[str, Any] = {
    "theme": "Open questions",
    "source": "Asked by this project: where does the averaging of arXiv 2410.10322 end?",
    "tier": "full",
    "minutes": 4,
}
CELLS = ", 400 cells of 5 seeds, by `featavg sweep`'s own runs"
LABELS = {
    "k": "clusters k",
    "d": "dimension d",
    "n": "samples n",
    "m": "neurons per class m",
    "sigma": "noise σ",
    "sigma_w": "initial weights σ<sub>w</sub>",
    "lr": "learning rate η",
}
EVEN = ("k", "m")  # Axes that are not logarithmic.


def _whole(low: float, high: float) -> tuple[int, ...]:
    return tuple(dict.fromkeys(round(float(v)) for v in np.geomspace(low, high, 20)))


def _log(low: float, high: float) -> tuple[float, ...]:
    return tuple(float(f"{v:.4g}") for v in np.geomspace(low, high, 20))


CLUSTERS, NEURONS = tuple(range(4, 24)), tuple(range(1, 21))
NOISES, DIMENSIONS, SAMPLES = _log(0.1, 10), _whole(30, 10**6), _whole(10, 400)
RATES, STARTS = _log(2e-3, 1.0), _log(1e-4, 1.0)


@claim(
    "question-border-noise", "Averaging ends where noise outweighs the samples of a cluster",
    measured="index and exact gain over σ from 0.1 to 10 and k from 4 to 23" + CELLS, **COMMON,
    statements=("summary-mechanism-1", "itcs-model", "csml-model", "summary-limitations",),
)  # fmt: skip
def noise(run: Context, k: tuple[int, ...] = CLUSTERS, sigma: tuple[float, ...] = NOISES) -> Evidence:
    """With class labels the averaging index falls below one half where kσ² exceeds n, and cluster
    labels gain √(k/2) on the near side of that border.
    """
    table = border_map(run, ("k", k), ("sigma", sigma))
    index, gain = table["index"], table["relative_gain"]
    expected = signal_share(table["k"], table["sigma"], N)
    noisy = gain.where(table["k"] * table["sigma"] ** 2 > N)
    quiet = gain.where(table["k"] * table["sigma"] ** 2 <= N / 10)
    return Evidence(
        Check("share of cells that lie on the side of index ½ that kσ² = n says",
              ((index >= 0.5) == (expected >= 0.5)).mean(), ">=", 0.85),
        Check("gain / √(k/2) where kσ² ≤ n/10, median of the cells", gain.where(expected >= 1 / 1.1).median(),
              "within", (0.85, 1.15)),
        Check("|share in the span − 1/(1 + kσ²/n)|, median of the cells",
              abs(table["share"] - expected).median(skipna=False), "<=", 0.1),
        Check("share of cells with a radius to compare", gain.notnull().mean(), ">=", 0.5, role="note"),
        _complete(table),
        figure=figure("noise", table, ("kσ² = n", expected, 0.5)),
        numbers=table.round(4),
        finding=f"Averaging ends about where kσ² = n. The gain of cluster labels is "
        f"{quiet.median():.2f}·√(k/2) where kσ² ≤ n/10 and {noisy.median():.2f}·√(k/2) beyond the "
        "border, as far as anything is classified there.",
    )  # fmt: skip


@claim(
    "question-border-samples", "Averaging needs samples, not dimensions",
    measured="index and exact gain over n from 10 to 400 and d from 30 to 10⁶" + CELLS, **COMMON,
    statements=("summary-mechanism-1", "notes-assumption-3-discussion", "summary-limitations",),
)  # fmt: skip
def samples(run: Context, d: tuple[int, ...] = DIMENSIONS, n: tuple[int, ...] = SAMPLES) -> Evidence:
    """Five samples a cluster and five dimensions a cluster are enough to average; more dimensions
    change nothing, and cluster labels gain √(k/2).
    """
    table = border_map(run, ("d", d), ("n", n), _as_in_the_theorems)
    index, high, count = table["index"], table["d"] >= 1000, table["n"]
    above, paid = index.sel(d=high), table["relative_gain"].where(high & (count >= 100)).median()
    # NaN must reach the checks, where it never passes; a gain may be missing.
    spread = above.max("d", skipna=False) - above.min("d", skipna=False)
    enough = index.sel(d=table["d"] >= 50, n=count >= 50)
    few, many = (above.sel(n=part).median(skipna=False) for part in (count <= 12, count >= 300))
    share = signal_share(K, SIGMA, count).broadcast_like(index)
    return Evidence(
        Check("share of cells with n ≥ 5k and d ≥ 5k whose index is at least ½", (enough >= 0.5).mean(),
              ">=", 0.95),
        Check("range of the index over d from 1000 to 10⁶, median over n",
              spread.median(skipna=False), "<=", 0.1,
              note="the border is one of samples, not of dimensions"),
        Check("gain / √(k/2) where n ≥ 10k and d ≥ 1000, median of the cells", paid, "within", (0.85, 1.15)),
        _complete(table),
        figure=figure("samples", table, ("kσ² = n", share, 0.5)),
        numbers=table.round(4),
        finding=f"For d ≥ 1000 the index rises from {few:.2f} at a sample a cluster to {many:.2f} at "
        f"thirty, whatever d is; cluster labels pay {paid:.2f}·√(k/2) there.",
    )  # fmt: skip


@claim(
    "question-border-initialisation",
    "The lazy regime begins where initial weights outweigh what is learned",
    measured="index and exact gain over σ<sub>w</sub> from 10⁻⁴ to 1 and rates from 0.002 to 1 at equal time" + CELLS,
    **COMMON,
    statements=("summary-mechanism-1", "notes-assumption-3-discussion", "summary-limitations"),
)
def initialisation(run: Context, lr: tuple[float, ...] = RATES, sigma_w: tuple[float, ...] = STARTS) -> Evidence:
    """Averaging ends where σ<sub>w</sub> = λ√(k/2)/d, whatever the learning rate, and in the lazy
    regime beyond cluster labels pay less.
    """
    table = border_map(run, ("lr", lr), ("sigma_w", sigma_w), _for_equal_time)
    places, gain, start = crossing(table["index"]), table["relative_gain"], table["sigma_w"]
    slow, known, border = (places[table["lr"].values <= 0.1], places[~np.isnan(places)], lazy_border())
    beyond = start.copy(data=np.log(border / start.values)).broadcast_like(table["index"])
    return Evidence(
        Check("σ<sub>w</sub> where the index is ½ over λ√(k/2)/d, rates ≤ 0.1, mean of the logarithm",
              math.exp(np.mean(np.log(slow))) / border, "within", (0.5, 2.0)),
        Check("largest over smallest such σ<sub>w</sub> among rates ≤ 0.1", slow.max() / slow.min(),
              "<=", 1.5, note="the rate does not move the border"),
        Check("gain / √(k/2) in the lazy corner (σ<sub>w</sub> ≥ 0.3, rates ≤ 0.1)",
              gain.where((table["lr"] <= 0.1) & (start >= 0.3)).median(), "<=", 0.8,
              note="fine labels pay less there"),
        _complete(table),
        figure=figure("initialisation", table, ("λ√(k/2)/d", beyond, 0.0)),
        numbers=table.round(4),
        finding=f"The lazy regime begins at σ<sub>w</sub> from {known.min():.2g} to {known.max():.2g} "
        f"(predicted {border:.2g}). Cluster labels gain {gain.where(start < 1e-3).median():.2f}·√(k/2) "
        f"below it and {gain.where(start >= 0.3).median():.2f}·√(k/2) far above it.",
    )  # fmt: skip


@claim(
    "question-border-neurons", "More neurons neither cause averaging nor cure it",
    measured="index and exact gain over 1 to 20 neurons per class and k from 4 to 23" + CELLS, **COMMON,
    statements=("summary-mechanism-1", "notes-assumption-3-discussion",),
)  # fmt: skip
def neurons(run: Context, k: tuple[int, ...] = CLUSTERS, m: tuple[int, ...] = NEURONS) -> Evidence:
    """The averaging index and the gain of cluster labels depend on k and not on the number of
    neurons per class.
    """
    table = border_map(run, ("k", k), ("m", m))
    index, gain = table["index"], table["relative_gain"]
    one, most = index.isel(m=0), index.isel(m=-1)
    return Evidence(
        Check("share of cells with n ≥ 10k whose index is at least ½",
              (index.sel(k=table["k"] <= N / 10) >= 0.5).mean(), ">=", 0.95),
        Check("|index at m = 20 − at m = 1|, median over k", abs(most - one).median(skipna=False), "<=", 0.15),
        Check("gain / √(k/2), m ≥ 2, median of the cells", gain.isel(m=slice(1, None)).median(),
              "within", (0.85, 1.15)),
        _complete(table),
        figure=figure("neurons", table),
        numbers=table.round(4),
        finding=f"Neurons hardly matter: over all k the index is {one.median():.2f} with one neuron "
        f"per class and {most.median():.2f} with twenty; it falls from {index.isel(k=0).median():.2f} "
        f"at k = 4 to {index.isel(k=-1).median():.2f} at k = 23, where a cluster has five samples. The "
        f"gain is {gain.median():.2f}·√(k/2).",
    )  # fmt: skip


def _complete(table: xr.Dataset) -> Check:
    return Check("runs that failed", table["failed"], "<=", 0, role="note")


def _usual(_: Any) -> dict[str, Any]:
    return {"d": D, "lr": TIME / STEPS}


def _as_in_the_theorems(d: int) -> dict[str, Any]:
    """Everything that is multiplied with d falls like 1/d."""
    return {"lr": TIME * D / d / STEPS, "sigma_w": 1e-2 / d, "sigma_b": 1e-2 / d}


def _for_equal_time(lr: float) -> dict[str, Any]:
    return {"d": D, "steps": max(1, round(TIME / lr))}


def border_map(
    run: Context,
    rows: tuple[str, Sequence[Any]],
    columns: tuple[str, Sequence[Any]],
    tied: Callable[[Any], Mapping[str, Any]] = _usual,
) -> xr.Dataset:
    """Medians over the seeds at every value of two fields of a setting, a sweep for each row.

    The index and its share in the span are those of class labels; the gain is the median exact radius of
    cluster labels (`max`) over that of class labels, NaN where most seeds have none. `tied` gives the
    fields that follow the value of the row. What an earlier run finished is taken over.
    """
    (field, values), (across, _) = rows, columns
    tables = []
    for i, value in enumerate(values):
        run.progress(i / len(values), f"{field} = {value}")
        given: dict[str, Any] = {"k": K, "n": N, "m": M, "steps": STEPS, "n_test": TEST_POINTS}
        given |= {**tied(value), field: value}
        given.pop(across, None)
        store, measures = run_folder(run) / "sweeps", ("index", "gain")
        options: dict[str, Any] = {"measures": measures, "seeds": run.seeds, "engine": "serial"}
        tables.append(sweep(dict([columns]), store, **options, **given))
    names = {"index": "index_coarse", "share": "span_share_coarse", "gain": "gain"}
    cells = {name: np.stack([each.cells(column) for each in tables]) for name, column in names.items()}
    dims, coords = (field, across, "seed"), {field: list(values), across: list(columns[1])}
    each_seed = xr.Dataset({name: (dims, array) for name, array in cells.items()}, coords)
    counted = each_seed.notnull().sum("seed") > len(run.seeds) / 2
    table = each_seed.where(counted, 0.0).median("seed").where(counted)
    k = table["k"] if "k" in table.coords else K
    table["relative_gain"] = table["gain"] / np.sqrt(k / 2)
    table["seeds"] = len(run.seeds)
    table["failed"] = sum(int(np.count_nonzero(each.columns["error"] != "")) for each in tables)
    return table


def signal_share(k: Any, sigma: Any, n: Any) -> Any:
    """1 / (1 + k sigma^2 / n), what noise leaves of a neuron for the features.

    >>> signal_share(10, 1.0, 30)
    0.75
    """
    return 1.0 / (1.0 + k * sigma**2 / n)


def lazy_border() -> float:
    """sigma_w = lambda sqrt(k/2) / d at which the initial weights are as long as what is learned."""
    lam = float(predicted_coefficients(np.array([1.0 / K]), D * TIME / M)[0])
    return lam * math.sqrt(K / 2) / D


def crossing(index: xr.DataArray) -> Float[ndarray, " r"]:
    """For each row the value of the column's field at which the index falls below one half.

    Between two columns by a straight line over the logarithm; NaN where it does not cross.
    """
    values, places = np.log(index[index.dims[1]].values), []
    for row in index.values:
        below = np.flatnonzero((row[1:] < 0.5) & (row[:-1] >= 0.5))
        if not len(below):
            places.append(math.nan)
            continue
        i = int(below[0])
        part = (row[i] - 0.5) / (row[i] - row[i + 1])
        places.append(math.exp(values[i] + part * (values[i + 1] - values[i])))
    return np.array(places)


def figure(name: str, table: xr.Dataset, border: tuple[str, xr.DataArray, float] | None = None) -> Figure:
    """Both maps, and the measured and the predicted border as lines."""
    index, gain = table["index"], table["relative_gain"]
    rows, columns = index.dims
    heats = tuple(
        Heatmap(
            values.values[::-1],
            tuple(_tick(v) for v in table[rows].values[::-1].tolist()),
            tuple(_tick(v) for v in table[columns].values.tolist()),
            label=label,
            limit=limit,
            row_label=LABELS[str(rows)],
            column_label=LABELS[str(columns)],
            title=label,
        )
        for label, values, limit in (("averaging index", index, 1.0), ("gain / √(k/2)", gain, 2.0))
    )
    (x, across), (y, up) = (_axis(str(side), table[side].values) for side in (columns, rows))
    middle = np.nan_to_num(index.values)
    contours = [Contour("index ½, measured", x, y, middle, "averaged", (0.5,))]
    if border is not None:
        label, field, level = border
        z = field.transpose(rows, columns).values
        contours.append(Contour(label, x, y, z, "reference", (level,)))
    return Figure(
        f"border-{name}",
        f"Averaging over {LABELS[str(columns)]} and {LABELS[str(rows)]}",
        f"Median over {int(table['seeds'])} seeds in each of {index.size} cells. Left: the "
        "averaging index with class labels. Middle: the exact gain in radius of cluster labels over "
        "the theory's √(k/2); empty where half of the points are misclassified with class labels. "
        "Right: where the index is one half, measured and as predicted.",
        (*heats, Plane(across, up, contours=tuple(contours), equal=False, title="borders")),
    )


def _axis(name: str, values: ndarray) -> tuple[list[float], Axis]:
    """The places of the values on the axis of a field, as a list: two axes may differ in length."""
    if name in EVEN:
        return values.tolist(), Axis(LABELS[name])
    return np.log10(values).tolist(), Axis(f"log₁₀ {LABELS[name]}")


def _tick(value: float) -> str:
    """Two digits, below 0.01 one, which is what fits below a cell.

    >>> _tick(0.6952), _tick(1e-4), _tick(23), _tick(144000), _tick(10**6)
    ('0.7', '1e-4', '23', '140k', '1M')
    """
    rounded = float(f"{value:.2g}")
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if rounded >= size:
            return f"{rounded / size:g}{unit}"
    if rounded >= 0.01:
        return f"{rounded:g}"
    return f"{value:.0e}".replace("e-0", "e-")
