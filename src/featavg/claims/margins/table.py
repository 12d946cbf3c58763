"""The margin table: the MNIST network at losses from 10^-10 to 10^-881 (full tier).

A network of L layers has two normalized margins: min q / |theta|^L, and min q / prod_l |theta_l|,
which does not change when one layer is scaled up and another down. The table does not say which it
prints. It cannot be the first: at a loss of 10^-10.04 min q is about 18, so that 5.65e-5 would need
|theta| = 24, and He initialisation starts at 47.5. Both are measured here; the second is compared.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, NotRun
from featavg.claims.requirements import data_needed, run_folder, torch_needed
from featavg.figures.figure import Axis, Figure, Lines, Series

FOLDER, DIGITS_FOLDER = "margin-table", "margin-digits"
FACTOR = 1.5
PICTURES, BUDGET = 500, 60
RADII = (0.5, 1.0, 1.5, 2.0, 2.5)


@dataclass(frozen=True)
class Row:
    """One published row (reference/figures.json)."""

    model: int
    epochs: int
    log10_loss: float
    normalized_margin: float


PUBLISHED = (
    Row(1, 38, -10.04, 5.65e-5),
    Row(2, 75, -15.12, 9.50e-5),
    Row(3, 107, -20.07, 1.30e-4),
    Row(4, 935, -120.01, 4.61e-4),
    Row(5, 10000, -881.51, 1.18e-3),
)
# The rows that a claim trains for; the others are the same command left running longer.
TRAINED = 3


def table_claim(settings: ClaimSettings) -> Evidence:
    """The published rows."""
    return evidence(_trained(settings, "mnist", FOLDER))


def digits_claim(settings: ClaimSettings) -> Evidence:
    """The same network on scikit-learn's digits: what rises, not by how much."""
    found = _trained(settings, "digits", DIGITS_FOLDER)
    first, last = found["rows"][0], found["rows"][-1]
    return Evidence(
        checks=(Check("rows reached", len(found["rows"]), ">=", TRAINED), *_rising(found["rows"])),
        figures=(_growth(found["history"], published=False), _robustness(found["rows"])),
        numbers=found,
        finding=f"From a loss of 10^{first['log10_loss']:.1f} to 10^{last['log10_loss']:.1f} the "
        f"normalized margin goes from {first['normalized_margin']:.2e} to "
        f"{last['normalized_margin']:.2e} and the median radius from {first['median_radius']:.3f} "
        f"to {last['median_radius']:.3f}.",
    )


def _trained(settings: ClaimSettings, data: str, name: str) -> dict[str, Any]:
    """Train (or go on) to row 3, then attack the checkpoints."""
    torch_needed()
    task = data_needed(data, settings)
    from featavg.nets.torch.margin_cnn import MarginCNN
    from featavg.training.margin_network.fit import fit
    from featavg.training.margin_network.run import MarginRun, MarginSettings

    goal = PUBLISHED[TRAINED - 1].log10_loss

    def told(run: MarginRun, counted: bool) -> None:
        share = 0.9 * min(1.0, max(run.log10_loss / goal, 0.0))
        settings.progress(share, f"pass {run.epoch}, log10 loss {run.log10_loss:.2f}")

    folder = run_folder(settings) / name
    # One thread: the number is part of what makes the bits, and every machine has one.
    chosen = MarginSettings(network=MarginCNN(size=task.shape[-1]), threads=1)
    fit(
        folder,
        chosen,
        task.train,
        epochs=100_000,
        until=goal,
        progress=told,
        workers=min(2, os.cpu_count() or 1),
    )
    return summary(folder, task.test[slice(0, PICTURES)])


def summary(folder: Path, pictures: Any) -> dict[str, Any]:
    """All rows that a run folder has, attacked, and its history; attacks already made are kept."""
    from featavg.experiments.margins.image_radii import attack_radii, robust_accuracy
    from featavg.storage.cache import kept_values, note_saved
    from featavg.training.checkpoint import fingerprint
    from featavg.training.margin_network.fit import CHECKPOINT
    from featavg.training.margin_network.run import read_run

    rows = []
    for row in PUBLISHED:
        place = folder / f"row-{row.model}"
        if not place.exists():
            continue
        run = read_run(place)

        def attacked(params: dict[str, Any] = run.params) -> dict[str, Any]:
            radii = attack_radii(params, pictures, BUDGET)
            shares = robust_accuracy(radii, (0.0, *RADII)).tolist()
            return {
                "accuracy": shares[0],
                "robust_accuracy": shares[1:],
                "median_radius": float(sorted(radii)[len(radii) // 2]),
                "pictures": len(radii),
                "radii": [float(radius) for radius in radii],
            }

        key = fingerprint(list(run.params.values()), len(pictures), BUDGET, RADII)
        path = folder / f"row-{row.model}-radii.json"
        rows.append({"model": row.model, **run.history[-1], **kept_values(path, key, attacked)})
    last = read_run(folder / CHECKPOINT)
    note_saved(last.seconds)
    # Enough for a curve; the run folder has every pass.
    thin = last.history[-1 :: -max(1, len(last.history) // 60)][::-1]
    return {"rows": rows, "history": thin, "settings": last.settings.plain()}


def evidence(found: dict[str, Any]) -> Evidence:
    """Checks and figures from what `summary` returned."""
    rows, history = found["rows"], found["history"]
    if not rows:
        last = history[-1] if history else {"log10_loss": 0.0, "epoch": 0}
        raise NotRun(
            f"The run is at log10 loss {last['log10_loss']:.2f} after {last['epoch']} passes; row 1 is "
            "at -10.04: `featavg margins resume` goes on."
        )
    published = {row.model: row for row in PUBLISHED}
    checks = [
        Check(
            f"row {row['model']}: margin over {words} / published",
            row[name] / published[row["model"]].normalized_margin,
            "within",
            (1 / FACTOR, FACTOR),
            note=f"at log10 loss {row['log10_loss']:.2f} after {row['epoch']} passes",
            essential=name == "product_margin",
        )
        for name, words in (
            ("product_margin", "the product of layer norms"),
            ("normalized_margin", "|theta|^4"),
        )
        for row in rows
    ]
    checks.append(Check("rows reached", len(rows), ">=", TRAINED))
    checks += [check for check in _rising(rows) if "radius" in check.name]
    last = rows[-1]
    return Evidence(
        checks=tuple(checks),
        figures=(_growth(history), _robustness(rows)),
        numbers=found,
        finding=f"Row {last['model']} of 5 was reached: log10 loss {last['log10_loss']:.2f} after "
        f"{last['epoch']} passes, min q over the product of the layers' norms "
        f"{last['product_margin']:.2e}, over |theta|^4 {last['normalized_margin']:.2e}. The published "
        "column can only be the first: |theta|^4 would need a norm below that of the initialisation. "
        f"The run stands at pass {history[-1]['epoch']}, log10 loss {history[-1]['log10_loss']:.2f}.",
    )


def _rising(rows: list[dict[str, Any]]) -> list[Check]:
    """Each row against the one before: margin and median radius."""
    return [
        Check(
            f"row {after['model']}: {words} / that of row {before['model']}",
            after[name] / before[name],
            ">=",
            1.0,
        )
        for before, after in pairwise(rows)
        for name, words in (
            ("normalized_margin", "normalized margin"),
            ("median_radius", "median radius"),
        )
    ]


def _growth(history: list[dict[str, Any]], published: bool = True) -> Figure:
    fitted = [entry for entry in history if entry["normalized_margin"] > 0]
    name = "product_margin" if published else "normalized_margin"
    measured = Series(
        "measured",
        [-entry["log10_loss"] for entry in fitted],
        [entry[name] for entry in fitted],
        "averaged",
    )
    table = Series(
        "published",
        [-row.log10_loss for row in PUBLISHED[:TRAINED]],
        [row.normalized_margin for row in PUBLISHED[:TRAINED]],
        "published",
        "markers",
    )
    return Figure(
        "margin-table",
        "Normalized margin against training loss",
        "The MNIST network under SGD with the loss-based rate: "
        + (
            "min q over the product of the layers' norms, and the published rows."
            if published
            else "min q over the fourth power of the norm, on 8 x 8 digits."
        ),
        (
            Lines(
                Axis("log<sub>10</sub>(1/loss)"),
                Axis("normalized margin", log=True),
                (measured, table) if published else (measured,),
            ),
        ),
    )


def _robustness(rows: list[dict[str, Any]]) -> Figure:
    series = tuple(
        Series(
            f"row {row['model']}",
            (0.0, *RADII),
            [100 * row["accuracy"], *(100 * share for share in row["robust_accuracy"])],
            "averaged",
            "line+markers",
            shade=0.4 + 0.2 * i,
        )
        for i, row in enumerate(rows)
    )
    return Figure(
        "margin-robustness",
        "Robust accuracy of the checkpoints",
        f"Minimal-norm l2 attack (DDN) on {rows[0]['pictures']} test images.",
        (Lines(Axis("radius", "l2, pixels in [0,1]"), Axis("robust accuracy", "percent"), series),),
    )


CLAIMS = (
    Claim(
        id="margin-table",
        title="Training longer raises the normalized margin, and with it robustness",
        theme="Margins",
        statement="An MNIST network of order 4 has normalized margins 5.65e-5, 9.50e-5 and 1.30e-4 at "
        "losses 10<sup>-10.04</sup>, 10<sup>-15.12</sup> and 10<sup>-20.07</sup>, and its robust "
        "accuracy rises with them.",
        source="Talks, margin table (Lyu and Li 2020)",
        measured="min (f<sub>y</sub> - max other) over the training set, divided by the product of the "
        "layers' norms and by |θ|<sup>4</sup>, pixels in [0,1], when the loss is first below each "
        "row's; robust accuracy by DDN",
        run=table_claim,
        tier="full",
        minutes=200,
        needs=("torch", "mnist"),
    ),
    Claim(
        id="margin-digits",
        title="On small digits: margin and robustness rise as the loss falls",
        theme="Margins",
        statement="Training longer raises the normalized margin of the network, and with it the "
        "robust accuracy. (The published numbers are for MNIST: see margin-table.)",
        source="Talks, margin and robustness (Lyu and Li 2020)",
        measured="normalized margin and DDN radii of the same network on scikit-learn's 8 x 8 "
        "digits, when the loss is first below 10<sup>-10.04</sup>, 10<sup>-15.12</sup> and "
        "10<sup>-20.07</sup>",
        run=digits_claim,
        tier="full",
        minutes=10,
        needs=("torch",),
    ),
)
