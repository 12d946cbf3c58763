"""Where finer labels pay on images: the table of labels, and what explains its border (full tier)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.images.label_protocol import (
    NETWORKS,
    PRESET_ATTACKED,
    PRESET_TRAINED,
    PROTOCOLS,
    TRAININGS,
)
from featavg.paper.images.label_study import GUESSING, LabelRow, LabelTable, label_table

# Fixed before the first run, from a trial on other networks: plain training gains on digits and MNIST,
# and once the gradient is controlled finer labels change the radius by no more than this.
CONTROLLED = 0.15
CNNS, RESNET = ("narrow CNN", "wide CNN"), "narrow ResNet-18"
# CIFAR-10 costs the most: one network, and two trainings.
PARTS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (("digits", "mnist"), tuple(NETWORKS), TRAININGS),
    (("cifar10",), ("wide CNN",), ("cross-entropy", "adversarial")),
    # By-products, added after the first record: the statement is of small CNNs.
    (("digits", "mnist", "cifar10"), (RESNET,), ("cross-entropy",)),
)


def tables(settings: Context) -> LabelTable:
    """All of digits and MNIST, the small CNN on CIFAR-10, and a narrow ResNet-18 on each."""
    torch_needed()
    data_needed("mnist", settings)
    data_needed("cifar10", settings)
    folder = run_folder(settings) / "label-table"
    parts = [
        label_table(
            data,
            networks,
            trainings,
            folder=folder,
            data_dir=settings.data_dir,
            progress=settings.progress,
        )
        for data, networks, trainings in PARTS
    ]
    return LabelTable(tuple(row for part in parts for row in part.rows))


def _described() -> str:
    small = "; ".join(
        f"{data}: {p.train} training images, {p.epochs} epochs, {p.attacked} attacked"
        for data, p in PROTOCOLS.items()
    )
    return (
        f"{small}; the narrow ResNet-18 on cifar10 by the preset cifar10-quick: {PRESET_TRAINED} training "
        f"images, {PRESET_ATTACKED} attacked"
    )


@claim(
    "finer-labels-border",
    "Where finer labels pay on images",
    theme="Real data",
    source="Ours: a table that the documents leave open; arXiv 2410.10322, Section 5, shows one cell",
    measured="median l2 radius and robust accuracy under the strongest attack with 60 gradients per image, "
    "shared gradient, collapse and gradient noise, over data, network, training and labels, same "
    f"budget for both labels; five seeds on digits, three elsewhere. {_described()}",
    tier="full",
    minutes=90,
    needs=("torch", "mnist", "cifar10"),
)
def border(settings: Context) -> Evidence:
    """On digits and MNIST finer labels push the decision boundary of small convolutional networks
    farther from images when they are trained with cross-entropy alone, and change little once the
    gradient is controlled.
    """
    table = tables(settings)
    plain = [r for r in table.pick(training="cross-entropy") if _small_cnn(r)]
    controlled = [
        r
        for t in ("gradient penalty", "adversarial")
        for r in table.pick(training=t)
        if _small_cnn(r)
    ]
    seconds = sum(
        cell.train_seconds + cell.attack_seconds
        for row in table.rows
        for cell in (*row.coarse, *row.fine)
    )
    return Evidence(
        Check(
            "gain of small CNNs under cross-entropy, smallest",
            float(np.nanmin([r.gain for r in plain])),
            ">=",
            1.0,
            note="median radius with fine labels over that with coarse ones, mean over seeds",
            role="main",
        ),
        Check(
            "the same cells: smallest radius with fine labels minus largest with coarse ones",
            float(np.nanmin([r.gap for r in plain])),
            ">=",
            0.0,
            note="no overlap between seeds",
        ),
        Check(
            "with a gradient penalty or adversarial training: largest |gain - 1|",
            float(np.nanmax([abs(r.gain - 1) for r in controlled])),
            "<=",
            CONTROLLED,
            note="small CNNs",
        ),
        *_by_products(table),
        figures=(table.figure(), table.gain_figure()),
        numbers=table.to_json(),
        finding=_finding(table),
        seeds=tuple(range(max(len(row.coarse) for row in table.rows))),
        seconds=seconds,
    )


def _by_products(table: LabelTable) -> list[Check]:
    """What was measured beside: other data and trainings, and the explanations."""
    checks = [
        Check(f"gain with {training} on {data}, {network}", rows[0].gain, ">=", 1.0, role="note")
        for data, network, training in (
            ("digits", "two-layer", "cross-entropy"),
            ("cifar10", "wide CNN", "cross-entropy"),
            ("digits", "narrow CNN", "1-Lipschitz"),
            ("digits", RESNET, "cross-entropy"),
            ("mnist", RESNET, "cross-entropy"),
            ("cifar10", RESNET, "cross-entropy"),
        )
        if (rows := table.pick(data, network, training)) and rows[0].gains
    ]
    checks += [
        Check(
            f"explanation, {each.name}: p of its rank correlation with the gain",
            each.p,
            "<=",
            0.05,
            note=f"Spearman {each.correlation:+.2f} over {each.rows} rows",
            role="note",
        )
        for each in table.explanations()
        if not np.isnan(each.p)  # too few rows to rank
    ]
    return checks


def _small_cnn(row: LabelRow) -> bool:
    return row.network in CNNS and row.data in ("digits", "mnist")


def _finding(table: LabelTable) -> str:
    gains = []
    for data in dict.fromkeys(row.data for row in table.rows):
        each = [
            f"{training} {_span(rows)}"
            for training in TRAININGS
            if (rows := table.pick(data, training=training))
        ]
        gains.append(f"{data}: {', '.join(each)}")
    causes = ", ".join(
        f"{each.name} {each.correlation:+.2f} (p {each.p:.2f})" for each in table.explanations()
    )
    shapes = ", ".join(
        f"{each.name} times {each.ratio:.2f} (larger in {each.larger} of {each.rows})"
        for each in table.contrasts()
    )
    return (
        f"Gain of finer labels in median radius, smallest to largest over networks: {'; '.join(gains)}. "
        f"Rank correlation of the gain with properties of the coarse network: {causes}. Gains by {shapes}."
        + _residual(table)
        + _left_out(table)
    )


def _residual(table: LabelTable) -> str:
    """The narrow ResNet-18, pair by pair: the network of the paper's Figure 3."""
    rows = [
        f"{row.data} {row.gain:.2f} ({', '.join(f'{gain:.2f}' for gain in row.gains)})"
        for row in table.pick(network=RESNET, training="cross-entropy")
        if row.gains
    ]
    return f" The narrow ResNet-18 under cross-entropy, by seed: {'; '.join(rows)}." if rows else ""


def _left_out(table: LabelTable) -> str:
    rows = [f"{row.left_out} of {row.name}" for row in table.rows if row.left_out]
    if not rows:
        return ""
    limit = f"below {GUESSING:.0%}"
    return (
        f" Pairs left out because a network did not learn its classes ({limit}): {', '.join(rows)}."
    )


def _span(rows: Sequence[LabelRow]) -> str:
    gains = [row.gain for row in rows if row.gains]
    return f"{min(gains):.2f} to {max(gains):.2f}" if len(gains) > 1 else f"{gains[0]:.2f}"
