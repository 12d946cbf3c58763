"""Measured arrays of a sweep: one safetensors file per run and measure, beside the index.

A file is written before the row that it belongs to is added to the index, so a row in the index has its
arrays; a file without a row, left by a kill, is written again with the same bytes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.storage.files import write
from featavg.storage.index import Row

FOLDER = "arrays"


def path_of(store: Path, run_id: str) -> Path:
    """Where the arrays of a run are; folders of a 256th keep listings short."""
    return store / FOLDER / run_id[:2] / f"{run_id}.safetensors"


def keep_arrays(store: Path, row: Row) -> None:
    """Write the arrays of a row, if it has any."""
    if row.arrays:
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(array) for name, array in row.arrays.items()}
        write(path_of(store, row.id), save(arrays))


def load_arrays(store: Path, run_id: str) -> dict[str, ndarray]:
    """The arrays of a run by name; none if its measure has none."""
    path = path_of(store, run_id)
    if not path.exists():
        return {}
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(path.read_bytes()))
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            "store", f"has a damaged file ({path}: {error})", "delete it and run the sweep again"
        ) from error
