"""Arrays from an npz file of the user's: plain numbers that fit into memory, and never code."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.data.memory import require
from featavg.errors import InputError


def read_npz(path: Path, example: str, argument: str = "data") -> dict[str, ndarray]:
    """All arrays of a file by name.

    The sizes are read from the headers first: a file of kilobytes can unpack to more than the
    machine has. Objects are refused, because unpickling them could run code.

    Args:
        example: what the file should hold, as arguments of `numpy.savez`.
    """
    try:
        # Anything but a plain file (a pipe, say) could be waited for in vain.
        if not path.is_file():
            missing = "is not a file" if path.exists() else "cannot be read (no such file)"
            raise _bad(argument, path, missing, "name an npz file")
        with zipfile.ZipFile(path) as archive:
            require(_unpacked_bytes(archive), argument, "give fewer or smaller arrays")
        # Opened here, because np.load leaves a file that is not what it seems open.
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except InputError:
        raise
    except OSError as error:
        cause = (error.strerror or "damaged").lower()
        raise _bad(argument, path, f"cannot be read ({cause})", "name an npz file") from None
    except (ValueError, AttributeError, TypeError, EOFError, KeyError, zipfile.BadZipFile):
        remedy = f"write it with numpy.savez(file, {example})"
        raise _bad(argument, path, "is not an npz file of plain arrays", remedy) from None


def _unpacked_bytes(archive: zipfile.ZipFile) -> int:
    total = 0
    for member in archive.infolist():
        with archive.open(member) as stream:
            total += _array_bytes(stream)
    return total


def _array_bytes(stream: Any) -> int:
    """The size that the header of an npy file announces."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    return math.prod(shape) * dtype.itemsize


def _bad(argument: str, path: Path, problem: str, remedy: str) -> InputError:
    return InputError(argument, f"({path}) {problem}", remedy)
