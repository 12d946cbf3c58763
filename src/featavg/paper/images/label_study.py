"""Where do finer labels pay? Data x network x training x labels, one protocol, several seeds (torch)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.images.label_cell import CellResult, label_cell
from featavg.paper.images.label_protocol import (
    KINDS,
    LABELS,
    NETWORKS,
    PROTOCOLS,
    TRAININGS,
    CellProtocol,
    LabelCell,
)
from featavg.paper.images.sharing import SharingRow
from featavg.progress import Progress, part

# How many seeds a data set gets unless told otherwise.
SEEDS = {"digits": 5, "mnist": 3, "cifar10": 3}
# Below this accuracy a network of two classes has not learnt them: its radii are those of a guess, and
# the pair that it belongs to is left out of the gains, and counted.
GUESSING = 0.55
# Short names of the trainings, for the ticks of a figure.
TICKS = dict(zip(TRAININGS, ("plain", "penalty", "1-Lipschitz", "adversarial"), strict=True))
# What might explain where finer labels pay, as fields of the coarse network's cell.
EXPLANATIONS = {
    "collapse (same-class cosine)": "same_class_cosine",
    "collapse (NC1 of sub-classes)": "nc1",
    "gradient noise": "noise",
    "shared gradient": "shared",
}


@dataclass(frozen=True, eq=False)
class LabelRow:
    """Both labels of one data set, network and training; one result per seed, in the same order."""

    data: str
    network: str
    training: str
    coarse: tuple[CellResult, ...]
    fine: tuple[CellResult, ...]

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.data}, {self.network}, {self.training}"

    @property
    def protocol(self) -> CellProtocol:
        """How its networks were trained and attacked."""
        return self.coarse[0].cell.protocol

    @property
    def learnt(self) -> tuple[tuple[CellResult, CellResult], ...]:
        """The pairs (coarse, fine) of seeds in which neither network guesses."""
        pairs = zip(self.coarse, self.fine, strict=True)
        return tuple(p for p in pairs if min(cell.accuracy for cell in p) >= GUESSING)

    @property
    def left_out(self) -> int:
        """How many pairs have a network that guesses."""
        return len(self.coarse) - len(self.learnt)

    @property
    def gains(self) -> tuple[float, ...]:
        """Median radius with fine labels over that with coarse ones, pair by pair."""
        return tuple(fine.median / max(coarse.median, 1e-12) for coarse, fine in self.learnt)

    @property
    def gain(self) -> float:
        """The mean over pairs; NaN if there are none."""
        return float(np.mean(self.gains)) if self.gains else float("nan")

    @property
    def gap(self) -> float:
        """Smallest median radius with fine labels minus the largest with coarse ones."""
        if not self.learnt:
            return float("nan")
        coarse, fine = zip(*self.learnt, strict=True)
        return min(c.median for c in fine) - max(c.median for c in coarse)

    def mean(self, field: str, labels: str) -> float:
        """The mean of a field of `CellResult` over seeds."""
        cells: tuple[CellResult, ...] = getattr(self, labels)
        return float(np.mean([getattr(cell, field) for cell in cells]))

    def sharing(self) -> SharingRow:
        """The shared gradient of both labels."""
        layers = dict.fromkeys(cell.layer for cell in (*self.coarse, *self.fine))
        return SharingRow(
            self.name,
            tuple(cell.shared for cell in self.coarse),
            tuple(cell.shared for cell in self.fine),
            tuple(cell.null for cell in (*self.coarse, *self.fine)),
            ", ".join(layers),
            self.data,
            self.network,
        )


@dataclass(frozen=True)
class Explanation:
    """Whether a property of the coarse network goes with the gain of finer labels.

    Attributes:
        correlation: Spearman's, over rows, between the property and the gain; NaN if either is the
            same in all rows, or with fewer than three.
        p: share of random orders of the rows with as large a correlation, either sign.
        rows: how many.
    """

    name: str
    correlation: float
    p: float
    rows: int


@dataclass(frozen=True)
class Contrast:
    """Gains of two kinds of network on the same data and training.

    Attributes:
        ratio: the gain of the second over that of the first, geometric mean over shared rows.
        larger: in how many rows the second gains more.
        rows: of how many.
    """

    name: str
    ratio: float
    larger: int
    rows: int


@dataclass(frozen=True, eq=False, repr=False)
class LabelTable(Result):
    """The whole table.

    Returned by `fa.label_table`, which has an example.
    """

    rows: tuple[LabelRow, ...]

    def pick(
        self, data: str | None = None, network: str | None = None, training: str | None = None
    ) -> tuple[LabelRow, ...]:
        """Rows with these properties."""
        wanted = {"data": data, "network": network, "training": training}
        given = {name: value for name, value in wanted.items() if value is not None}
        return tuple(
            row for row in self.rows if all(getattr(row, n) == v for n, v in given.items())
        )

    def explanations(self) -> tuple[Explanation, ...]:
        """Properties of the coarse networks against the gain, over all rows."""
        gains = np.array([row.gain for row in self.rows])
        return tuple(
            _correlated(name, np.array([row.mean(field, "coarse") for row in self.rows]), gains)
            for name, field in EXPLANATIONS.items()
        )

    def contrasts(self) -> tuple[Contrast, ...]:
        """Depth (two layers, a CNN, a ResNet) and width (narrow against wide)."""
        pairs = {
            "depth": ("two-layer", "narrow CNN"),
            "width": ("narrow CNN", "wide CNN"),
            "residual depth": ("wide CNN", "narrow ResNet-18"),
        }
        return tuple(
            contrast
            for name, (first, second) in pairs.items()
            if (contrast := self._contrast(name, first, second)) is not None
        )

    def _contrast(self, name: str, first: str, second: str) -> Contrast | None:
        ratios = [
            other[0].gain / row.gain
            for row in self.pick(network=first)
            if (other := self.pick(row.data, second, row.training))
            and other[0].protocol == row.protocol  # not more images for one of them
            and np.isfinite(other[0].gain / row.gain)
        ]
        if not ratios:
            return None
        larger = sum(ratio > 1 for ratio in ratios)
        title = f"{name}: {second} over {first}"
        return Contrast(title, float(np.exp(np.mean(np.log(ratios)))), larger, len(ratios))

    def figure(self) -> Figure:
        """Median radius of every network, seed by seed, a panel per data set and network."""
        kinds = dict.fromkeys((row.data, row.network) for row in self.rows)
        panels = tuple(self._panel(data, network) for data, network in kinds)
        return Figure(
            "label-table",
            "Where finer labels pay",
            "Median l2 radius of the coarse decision in pixels in [0, 1] under the strongest attack, one "
            "mark per seed, of networks trained with coarse and with fine labels: plainly (cross-entropy), "
            "with a gradient penalty, with 1-Lipschitz layers, adversarially. A mark at 0, or a missing one, "
            "is a network that did not learn its classes.",
            panels,
        )

    def _panel(self, data: str, network: str) -> Lines:
        rows = self.pick(data, network)
        names = tuple(TICKS[row.training] for row in rows)
        series = []
        looks: tuple[tuple[str, Role, float], ...] = (
            ("coarse", "averaged", -0.12),
            ("fine", "decoupled", 0.12),
        )
        for labels, role, shift in looks:
            x, y = [], []
            for i, row in enumerate(rows):
                cells: tuple[CellResult, ...] = getattr(row, labels)
                x += [i + shift] * len(cells)
                y += [cell.median if np.isfinite(cell.median) else np.nan for cell in cells]
            series.append(Series(f"{labels} labels", x, y, role, "markers"))
        ticks = Axis("", ticks=list(range(len(rows))), tick_labels=names)
        title = f"{data}, {network}"
        return Lines(ticks, Axis("median radius", "l2"), tuple(series), title=title)

    def gain_figure(self) -> Figure:
        """The gain of every row, seed by seed, against what the coarse network shares."""
        series = []
        roles: dict[str, Role] = {"digits": "averaged", "mnist": "decoupled", "cifar10": "neutral"}
        for data in dict.fromkeys(row.data for row in self.rows):
            rows = self.pick(data=data)
            x = [row.mean("same_class_cosine", "coarse") for row in rows]
            series.append(Series(data, x, [row.gain for row in rows], roles[data], "markers"))
        panel = Lines(
            Axis("cosine of sub-class means, coarse network"),
            Axis("gain of finer labels"),
            tuple(series),
            rules=(Rule(1.0, label="no gain"),),
        )
        return Figure(
            "label-gain",
            "Does collapse say where finer labels pay?",
            "Median radius with fine over that with coarse labels, mean over seeds, against how far the "
            "sub-classes have collapsed in the coarse network; one mark per network and training.",
            (panel,),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values; radii image by image stay in the cells' own files."""
        return {
            "protocols": {d: asdict(PROTOCOLS[d]) for d in {row.data for row in self.rows}},
            "networks": {name: list(about) for name, about in KINDS.items()},
            "rows": [_plain_row(row) for row in self.rows],
            "explanations": [_plain_values(asdict(each)) for each in self.explanations()],
            "contrasts": [_plain_values(asdict(each)) for each in self.contrasts()],
        }

    def summary(self) -> str:
        """A line for each row."""
        lines = [
            f"{'data, network, training':40} {'radius':>13}  {'gain':>4} {'(range)':>13}  "
            f"{'robust %':>9}  {'clean %':>9}  {'A':>9}"
        ]
        lines += [_line(row) for row in self.rows]
        lines += [
            f"{each.name}: Spearman {each.correlation:+.2f} (p = {each.p:.2f}, {each.rows} rows)"
            for each in self.explanations()
        ]
        lines += [
            f"{each.name}: gain times {each.ratio:.2f}, larger in {each.larger} of {each.rows}"
            for each in self.contrasts()
        ]
        return "\n".join(lines)


def label_table(
    data: Sequence[str] = ("digits",),
    networks: Sequence[str] = tuple(NETWORKS),
    trainings: Sequence[str] = TRAININGS,
    seeds: Mapping[str, int] | None = None,
    folder: str | Path | None = None,
    data_dir: str | Path | None = None,
    progress: Progress | None = None,
) -> LabelTable:
    """Train and attack every cell; what is finished is kept in `folder`, and a killed table goes on.

    Args:
        data: names of `PROTOCOLS`: digits, mnist, cifar10.
        networks: names of `NETWORKS`, or `narrow ResNet-18`, which on CIFAR-10 a preset trains on
            all images when the training is cross-entropy: its networks lie beside `folder`.
        trainings: names of `TRAININGS`.
        seeds: how many per data set, counted from 0; see `SEEDS`.
        folder: one small JSON file per cell.
        data_dir: where data sets are.
        progress: called with the share done and a note.

    >>> import featavg as fa  # needs half a minute
    >>> small = {"networks": ["two-layer"], "trainings": ["cross-entropy"]}
    >>> table = fa.label_table(**small, seeds={"digits": 1})
    """
    from featavg.data.image_sets.loading import load_images

    counts = SEEDS | dict(seeds or {})
    names = [one_of("data", name, PROTOCOLS) for name in data]
    networks = [one_of("networks", name, KINDS) for name in networks]
    trainings = [one_of("trainings", name, TRAININGS) for name in trainings]
    if not names or not networks or not trainings:
        raise InputError("data", "or networks or trainings are none", "name at least one of each")
    if min(counts[name] for name in names) < 1:
        raise InputError("seeds", "are none", "give at least one")
    kinds = [(n, network, t) for n in names for network in networks for t in trainings]
    for kind in kinds:  # refuse what cannot be trained before hours are spent on the rest
        LabelCell(*kind, "coarse", 0)
    total = sum(2 * counts[name] for name, _, _ in kinds)
    tasks = {
        name: load_images(name, data_dir=None if data_dir is None else Path(data_dir))
        for name in names
    }
    kept_in = None if folder is None else Path(folder)
    rows, done = [], 0
    for name, network, training in kinds:
        results: dict[str, list[CellResult]] = {labels: [] for labels in LABELS}
        # Both labels of a seed one after the other: a table that was killed has whole pairs.
        for seed in range(counts[name]):
            for labels in LABELS:
                cell = LabelCell(name, network, training, labels, seed)
                if progress is not None:
                    progress(done / total, cell.file.removesuffix(".json"))
                told = part(progress, done / total, (done + 1) / total)
                results[labels].append(label_cell(cell, tasks[name], kept_in, told))
                done += 1
        rows.append(
            LabelRow(name, network, training, tuple(results["coarse"]), tuple(results["fine"]))
        )
    return LabelTable(tuple(rows))


def _correlated(name: str, x: np.ndarray, y: np.ndarray, draws: int = 2000) -> Explanation:
    """Spearman's correlation, and how often chance does as well."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = _ranks(x[finite]), _ranks(y[finite])
    if len(x) < 3 or np.std(x) == 0 or np.std(y) == 0:
        return Explanation(name, float("nan"), float("nan"), len(x))
    x, y = ((v - v.mean()) / np.linalg.norm(v - v.mean()) for v in (x, y))
    correlation = float(x @ y)
    orders = stream(0, "explanation").permuted(np.tile(x, (draws, 1)), axis=1)
    # Equal sums in another order differ in their last bits, and count as equal.
    as_large = np.abs(orders @ y) >= abs(correlation) - 1e-12
    return Explanation(name, correlation, float(as_large.mean()), len(x))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks, equal values sharing theirs."""
    return np.array([(values < v).sum() + 0.5 * (values == v).sum() for v in values], dtype=float)


def _plain_row(row: LabelRow) -> dict[str, Any]:
    fields = (
        *("accuracy", "median", "robust_accuracy", "shared", "null", "noise", "nc1"),
        *("same_class_cosine", "train_seconds", "attack_seconds"),
    )
    about: dict[str, Any] = {n: getattr(row, n) for n in ("data", "network", "training")}
    about |= {"gains": [_number(g) for g in row.gains], "layer": row.sharing().layer}
    about["pairs_left_out"] = row.left_out
    for labels in LABELS:
        cells: tuple[CellResult, ...] = getattr(row, labels)
        values: dict[str, Any] = {f: [_number(getattr(c, f)) for c in cells] for f in fields}
        # By these a recorded cell is known again, see `restore_cells`.
        values |= {f: [getattr(c, f) for c in cells] for f in ("layer", "key", "commit")}
        about[labels] = values
    return about


def _plain_values(described: dict[str, Any]) -> dict[str, Any]:
    return {n: _number(v) if isinstance(v, float) else v for n, v in described.items()}


def _number(value: float) -> float | None:
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _line(row: LabelRow) -> str:
    def both(field: str, form: str, scale: float = 1.0) -> str:
        coarse, fine = (scale * row.mean(field, labels) for labels in LABELS)
        return f"{coarse:{form}} {fine:{form}}"

    span = f"({min(row.gains):.2f} {max(row.gains):.2f})" if row.gains else ""
    return (
        f"{row.name:40} {both('median', '6.3f'):>13}  {row.gain:4.2f} {span:>13}  "
        f"{both('robust_accuracy', '.0f', 100):>9}  {both('accuracy', '.1f', 100):>9}  "
        f"{both('shared', '.2f'):>9}"
    )
