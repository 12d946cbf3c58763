"""The margin table: the MNIST network at losses from 10^-10 to 10^-881, attacked at every row.

A network of L layers has two normalized margins: min q / |theta|^L, the one that the documents
define, and min q / prod_l |theta_l|, which does not change when one layer is scaled up and another
down. The authors' published code (github.com/vfleaking/max-margin, models/simple_sequential.py)
logs both and starts from He's initialisation; the table does not say which one it prints.

Networks are trained in a folder of the data's `runs`. A claim that was killed continues there, to
the same bits; `--set passes=1` trains nothing more and shows the rows that are reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Role, Series
from featavg.machine import cores
from featavg.paper.engine.claim import Check, Context, Evidence, NotRun, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.margins.network.fit import CHECKPOINT, fit
from featavg.paper.margins.network.passes import module_of
from featavg.paper.margins.network.run import MarginCNN, MarginSettings, SupportRule, read_run
from featavg.progress import part
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model
from featavg.storage.cache import fingerprint, kept_values, note_saved
from featavg.storage.folders import folder_exists

FACTOR = 1.5
# Relative: a median of attacked radii moves by about this much when the attack's budget doubles.
ATTACK = 0.02
ATTACKED_PICTURES, BUDGET = 500, 60
RADII = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
LONGER = ("itcs-longer-helps", "csml-longer-helps")
TABLE = ("itcs-margin-table", "csml-margin-table", *LONGER)
LOSS_BASED = ("itcs-loss-based-rate", "csml-loss-based-rate")


class PublishedRow(NamedTuple):
    """One row of the published table (Lyu and Li 2020)."""

    model: int
    epochs: int
    log10_loss: float
    normalized_margin: float


PUBLISHED_MARGINS = (
    PublishedRow(1, 38, -10.04, 5.65e-5),
    PublishedRow(2, 75, -15.12, 9.50e-5),
    PublishedRow(3, 107, -20.07, 1.30e-4),
    PublishedRow(4, 935, -120.01, 4.61e-4),
    PublishedRow(5, 10000, -881.51, 1.18e-3),
)


@dataclass(frozen=True)
class MarginRow:
    """The network when its loss first fell below that of the published row `model`.

    `epoch` counts passes (or rounds over the support) that count; `radii` are the l2 radii that DDN
    finds for each test picture, pixels in [0,1].
    """

    model: int
    epoch: int
    log10_loss: float
    normalized_margin: float
    product_margin: float
    radii: tuple[float, ...]


@dataclass(frozen=True)
class MarginTable:
    """The rows that a run has reached, and the way there (an entry for some passes)."""

    data: str
    rows: tuple[MarginRow, ...]
    history: tuple[dict[str, Any], ...]
    settings: dict[str, Any]


def table_in(folder: Path, data: str, pictures: Images) -> MarginTable:
    """The rows that the run in `folder` has reached, attacked on `pictures`; radii are kept there."""
    rows = []
    for published in PUBLISHED_MARGINS:
        place = folder / f"row-{published.model}"
        if not folder_exists(place):
            continue
        run = read_run(place)

        def attacked(params: dict[str, ndarray] = run.params) -> dict[str, list[float]]:
            return {"radii": attack_radii(params, pictures, BUDGET).tolist()}

        key = fingerprint(list(run.params.values()), len(pictures), BUDGET)
        radii = kept_values(place.with_name(f"{place.name}-radii.json"), key, attacked)["radii"]
        names = "epoch", "log10_loss", "normalized_margin", "product_margin"
        entry = {name: run.history[-1][name] for name in names}
        rows.append(MarginRow(published.model, radii=tuple(radii), **entry))
    last = read_run(folder / CHECKPOINT)
    note_saved(last.seconds)
    # Enough for a curve; the run folder has every pass.
    thin = last.history[-1 :: -max(1, len(last.history) // 60)][::-1]
    return MarginTable(data, tuple(rows), tuple(thin), last.settings.plain())


def attack_radii(params: dict[str, ndarray], pictures: Images, budget: int) -> Float[ndarray, " n"]:
    """The l2 radius (pixels in [0,1]) that DDN finds for each picture; 0 where it is misclassified.

    The outputs of a network that was trained this long are in the hundreds; dividing them by their
    size changes no decision and keeps the attack's gradients alive.
    """
    import torch

    module = module_of(params)
    with torch.no_grad():
        size = float(module(torch.from_numpy(pictures.unit)).abs().mean())

    class Scaled(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            scaled: torch.Tensor = module(batch) / size
            return scaled

    model = torch_model(Scaled(), groups=np.arange(len(params["fc2.weight"])), batch=100)
    return attack_suite(model, pictures.unit, pictures.fine, "l2", ("ddn",), budget=budget).radii


def growth(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float]:
    """The median over pictures of the ratio of their radii, and its 95% interval.

    Pictures that both rows classify rightly, paired; the interval is a bootstrap over them.
    """
    old, new = np.asarray(before), np.asarray(after)
    both = (old > 0) & (new > 0)
    ratio = new[both] / old[both]
    draws = stream(0, "margin-bootstrap").integers(len(ratio), size=(1000, len(ratio)))
    low, high = np.quantile(np.median(ratio[draws], axis=1), [0.025, 0.975])
    return float(np.median(ratio)), float(low), float(high)


def figures(table: MarginTable) -> tuple[Figure, Figure]:
    """Both normalized margins against the loss with the published rows, and robust accuracy."""
    fitted = [entry for entry in table.history if entry["smallest_margin"] > 0]
    definitions: tuple[tuple[str, str, Role], ...] = (
        ("over the product of layer norms", "product_margin", "averaged"),
        ("over |θ|<sup>4</sup>", "normalized_margin", "decoupled"),
    )
    series = [
        Series(label, [-entry["log10_loss"] for entry in fitted], [entry[name] for entry in fitted], role)
        for label, name, role in definitions
    ]
    if table.data == "mnist":
        _, _, losses, margins = zip(*PUBLISHED_MARGINS[: max(3, len(table.rows))], strict=True)
        series.append(Series("published", -np.array(losses), margins, "published", "markers"))
    axes = Axis("log<sub>10</sub>(1/loss)"), Axis("normalized margin", log=True)
    robust = tuple(
        Series(f"row {row.model}", RADII,
               [100 * float(np.mean(np.asarray(row.radii) > radius)) for radius in RADII], "averaged",
               "line+markers", shade=(row.model + 1) / (len(PUBLISHED_MARGINS) + 1))
        for row in table.rows
    )  # fmt: skip
    robust_axes = Axis("radius", "l2, pixels in [0,1]"), Axis("robust accuracy", "percent")
    return (
        Figure("margin-table", "Normalized margin against training loss",
               f"The network of the margin table on {table.data}: the smallest margin over the product "
               "of the layers' norms and over the fourth power of the norm.",
               (Lines(*axes, tuple(series)),)),
        Figure("margin-robustness", "Robust accuracy of the checkpoints",
               f"Minimal-norm l2 attack (DDN) on {ATTACKED_PICTURES} test images or fewer.",
               (Lines(*robust_axes, robust),)),
    )  # fmt: skip


@claim(
    "margin-table", "Training longer raises the normalized margin, and with it robustness",
    theme="Margins", tier="full", minutes=200, needs=("torch", "mnist"), seeds=1,
    statements=(*TABLE, *LOSS_BASED), source="Talks, margin table (Lyu and Li 2020)",
    measured="min (f<sub>y</sub> - max other) over the training set, divided by |θ|<sup>4</sup> "
    "(the definition) and by the product of the layers' norms, pixels in [0,1], when the loss is "
    "first below each row's; radii by DDN, the same pictures paired",
)  # fmt: skip
def margin_table(
    run: Context, until: float = -20.07, passes: int = 100_000, channels: tuple[int, ...] = (32, 64), hidden: int = 1024
) -> Evidence:
    """An MNIST network of order 4 has normalized margins 5.65e-5, 9.50e-5 and 1.30e-4 at losses
    10<sup>-10.04</sup>, 10<sup>-15.12</sup> and 10<sup>-20.07</sup>: they rise with training, and
    its robust accuracy with them.
    """
    return evidence(_trained(run, "margin-table", "mnist", until, passes, channels, hidden))


@claim(
    "margin-table-support", "The margin goes on rising down to a loss of 10<sup>-881</sup>",
    theme="Margins", tier="full", minutes=75, needs=("torch", "mnist"), seeds=1, statements=TABLE,
    source="Talks, margin table, rows 4 and 5 (Lyu and Li 2020)",
    measured="the same for all five rows, reached by implicit steps over the samples that hold the "
    "loss instead of 10,000 passes of SGD; every row is of all 60,000 samples",
)  # fmt: skip
def margin_table_support(
    run: Context,
    until: float = -881.51,
    passes: int = 100_000,
    channels: tuple[int, ...] = (32, 64),
    hidden: int = 1024,
) -> Evidence:
    """At losses 10<sup>-120.01</sup> and 10<sup>-881.51</sup> the same network has normalized
    margins 4.61e-4 and 1.18e-3: they are still rising, and its robust accuracy with them.
    """
    size = until, passes, channels, hidden
    return evidence(_trained(run, "margin-table-support", "mnist", *size, SupportRule()))


@claim(
    "margin-digits", "On small digits: margin and robustness rise as the loss falls",
    theme="Margins", tier="full", minutes=10, needs=("torch",), seeds=3,
    statements=(*LONGER, *LOSS_BASED), source="Talks, margin and robustness (Lyu and Li 2020)",
    measured="normalized margin and DDN radii of the same network on scikit-learn's 8 x 8 "
    "digits, when the loss is first below 10<sup>-10.04</sup>, 10<sup>-15.12</sup> and "
    "10<sup>-20.07</sup>",
)  # fmt: skip
def margin_digits(
    run: Context, until: float = -20.07, passes: int = 100_000, channels: tuple[int, ...] = (32, 64), hidden: int = 1024
) -> Evidence:
    """Training longer raises the normalized margin of the network, and with it the robust accuracy.
    (The published numbers are for MNIST: see margin-table.)
    """
    tables, count = [], len(run.seeds)
    for i, seed in enumerate(run.seeds):
        one = replace(run, seeds=(seed,), progress=part(run.progress, i / count, (i + 1) / count))
        tables.append(_trained(one, "margin-digits", "digits", until, passes, channels, hidden))
    first, last = tables[0].rows[0], tables[0].rows[-1]
    check = _radii_rise(*tables)
    low, high = check.span
    return Evidence(
        *_rising(*tables),
        check,
        figures=figures(tables[0]),
        numbers={"runs": dict(zip(run.seeds, tables, strict=True))},
        finding=f"From a loss of 10^{first.log10_loss:.1f} to 10^{last.log10_loss:.1f} the normalized "
        f"margin goes from {first.normalized_margin:.2e} to {last.normalized_margin:.2e} (first run), and the "
        f"radius of a test picture by a factor of {check.measured:.3f} ({low:.3f} to {high:.3f}).",
    )


def _trained(
    run: Context,
    name: str,
    data: str,
    until: float,
    passes: int,
    channels: tuple[int, ...],
    hidden: int,
    rule: SupportRule | None = None,
) -> MarginTable:
    """Train (or continue) to log10 loss `until` or `passes`, then attack the checkpoints."""
    torch_needed()
    task = data_needed(data, run)
    size = task.shape[-1]
    # One thread: the number is part of what makes the bits, and every machine has one.
    published = MarginSettings(MarginCNN(size), threads=1, support=rule)
    network = MarginCNN(size, channels, hidden)
    settings = MarginSettings(network, seed=run.seeds[0], threads=1, support=rule)
    if settings != published:
        name = f"{name}-{fingerprint([], settings.plain())}"
    folder = run_folder(run) / name
    if folder_exists(folder / CHECKPOINT):  # an older run may have had other constants
        settings = read_run(folder / CHECKPOINT).settings
    fit(folder, settings, task.train, epochs=passes, until=until, workers=min(2, cores()), progress=run.progress)
    table = table_in(folder, data, task.test[slice(0, ATTACKED_PICTURES)])
    if not table.rows:
        here = table.history[-1] if table.history else {"log10_loss": 0.0, "epoch": 0}
        raise NotRun(
            f"The run in {folder} is at log10 loss {here['log10_loss']:.2f} after {here['epoch']} "
            "passes; row 1 is at -10.04: the same command with more passes continues it."
        )
    return table


def evidence(table: MarginTable) -> Evidence:
    """Checks and figures from a table of MNIST."""
    checks = list(_rising(table))
    unit = "rounds" if table.settings.get("support") else "passes"
    for row in table.rows:
        where = f"at log10 loss {row.log10_loss:.2f} after {row.epoch} {unit}"
        published, within = PUBLISHED_MARGINS[row.model - 1].normalized_margin, (1 / FACTOR, FACTOR)
        ratio, other = row.normalized_margin / published, row.product_margin / published
        checks += [
            Check(f"row {row.model}: margin over |θ|<sup>4</sup> / published", ratio, "within", within,
                  note=f"{where}; the documents' definition"),
            Check(f"row {row.model}: margin over the product of layer norms / published", other,
                  "within", within, role="note", note=where),
        ]  # fmt: skip
    if len(table.rows) > 1:
        checks.append(_radii_rise(table))
    here = table.history[-1]
    return Evidence(
        *checks,
        figures=figures(table),
        numbers=table,
        finding=f"Row {row.model} of 5: log10 loss {row.log10_loss:.2f} after {row.epoch} {unit}. By "
        f"the documents' definition, min q/|θ|<sup>4</sup>, the margin is {row.normalized_margin:.2e}, "
        f"{ratio:.3f} of the published one; over the product of the layers' norms it is "
        f"{row.product_margin:.2e}, {other:.2f} of it. The authors' code starts from the same "
        f"initialisation and logs both, so the table most likely prints the second. The run stands at "
        f"{here['epoch']} {unit}, log10 loss {here['log10_loss']:.2f}. {protocol(table)}",
    )


def protocol(table: MarginTable) -> str:
    """How the rows were reached, in a sentence or two."""
    rule, samples = table.settings.get("support"), table.history[-1].get("samples")
    if not rule:
        return "SGD with batches of 100 and the loss-based rate throughout, as published."
    # On average over MNIST's 60,000.
    visits = f" ({samples / 60_000:.0f} visits of the data in all)" if samples else ""
    return (
        f"Not as published: SGD at a constant rate to a loss of 10^{rule['first_until']:g}, then implicit "
        "steps over the samples that hold the loss with the loss-based rate, taken back where the loss "
        f"rose{visits}; the loss and the margin of every row are those of all samples."
    )


def _rising(*tables: MarginTable) -> tuple[Check, ...]:
    """Each row's margin against that of the one before, in every run."""
    reached = min(len(table.rows) for table in tables)
    margins = np.array([[row.normalized_margin for row in table.rows[:reached]] for table in tables])
    return tuple(
        Check(f"row {after.model}: normalized margin / that of row {before.model}",
              np.squeeze(margins[:, i + 1] / margins[:, i]), ">=", 1.0)
        for i, (before, after) in enumerate(pairwise(tables[0].rows[:reached]))
    )  # fmt: skip


def _radii_rise(*tables: MarginTable) -> Check:
    """The radius of the same picture, last row over first; the attack is a heuristic.

    The interval of one run is over its pictures, that of several is over runs.
    """
    first, last = tables[0].rows[0], tables[0].rows[-1]
    medians, low, high = np.array([growth(table.rows[0].radii, table.rows[-1].radii) for table in tables]).T
    alone = len(tables) == 1
    return Check(
        f"row {last.model} over row {first.model}: median ratio of a picture's radii",
        np.squeeze(medians), ">=", 1.0 - ATTACK, interval=(low[0], high[0]) if alone else None,
        note=f"{'95% bootstrap over pictures' if alone else 'deviation of the runs'}; the attack is good to about "
        f"{ATTACK:.0%}",
    )  # fmt: skip
