"""Cells of a recorded table of labels, put back to where a new table looks for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from featavg.paper.images.label_cell import CellResult
from featavg.paper.images.label_protocol import LABELS, LabelCell
from featavg.storage.cache import kept_values

# What a record has of each cell; of the radii it has the median alone.
MEASURED = (
    *("accuracy", "robust_accuracy", "shared", "null", "noise", "nc1", "same_class_cosine"),
    *("train_seconds", "attack_seconds"),
)


def restore_cells(numbers: Mapping[str, Any], commit: str, folder: str | Path) -> int:
    """Write the cells of a recorded table into `folder`; how many were written.

    A cell counts as done only if the key in the record is the one that a table asks for: the same data,
    protocol, network, attack and seed. Whatever lies in `folder` already is left alone. A restored cell
    says which commit measured it.

    Args:
        numbers: what `LabelTable.to_json` wrote.
        commit: of the record, for cells that do not name one.
    """
    written = 0
    for key, cell in _cells(numbers, commit):
        path = Path(folder) / cell.cell.file
        if not path.exists():
            kept_values(path, key, cell.to_json)
            written += 1
    return written


def _cells(numbers: Mapping[str, Any], commit: str) -> Iterator[tuple[str, CellResult]]:
    for row in numbers["rows"]:
        for labels in LABELS:
            told = row[labels]
            for seed, key in enumerate(told.get("key", ())):
                cell = LabelCell(row["data"], row["network"], row["training"], labels, seed)
                yield key, CellResult.from_json(_described(cell, told, seed, commit))


def _described(cell: LabelCell, told: Mapping[str, Any], seed: int, commit: str) -> dict[str, Any]:
    values = {name: told[name][seed] for name in MEASURED}
    return values | {
        "cell": asdict(cell),
        "radii": None,
        "recorded_median": told["median"][seed],
        "layer": told["layer"][seed],
        "commit": told["commit"][seed] or commit,
    }
