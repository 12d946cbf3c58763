"""Arrays from an npz file of the user's: plain numbers that fit into memory, and never code."""

from __future__ import annotations

from pathlib import Path

from numpy import ndarray

from featavg.data.memory import available_bytes
from featavg.errors import InputError
from featavg.storage.reading import ARRAY_LIMIT, read_arrays


def read_npz(path: Path, example: str, argument: str = "data") -> dict[str, ndarray]:
    """All arrays of a file by name.

    The sizes are read from the headers first: a file of kilobytes can unpack to more than the
    machine has. Objects are refused, because unpickling them could run code.

    Args:
        example: what the file should hold, as arguments of `numpy.savez`.
    """
    remedy = f"write it with numpy.savez(file, {example})"
    try:
        arrays = read_arrays(path, available_bytes() or ARRAY_LIMIT)
    except InputError as error:
        raise InputError(argument, f"({path}) {error.problem}", remedy) from None
    if set(arrays) == {""}:
        raise InputError(argument, f"({path}) is one array without a name", remedy)
    return arrays
