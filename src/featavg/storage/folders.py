"""Results on disk: safetensors and JSON in a folder that is either whole or not there."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError

ARRAYS, META = "arrays.safetensors", "meta.json"


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder that takes the name `path` when the block ends well, and vanishes if not.

    An older folder of that name stays until the new one is complete.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        _open_to_readers(temporary)
        old = temporary.with_name(temporary.name + ".old")
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _open_to_readers(folder: Path) -> None:
    """Temporary names are private; results are for sharing."""
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def write_text(path: Path, text: str) -> None:
    """Write a file under a temporary name and rename it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)  # mkstemp makes private files; results are for sharing
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise _cannot_write(path, error) from error


def check_writable(path: Path) -> None:
    """Say before hours of work that its result could not be written."""
    _temporary(path).rmdir()


def write_folder(path: Path, arrays: Mapping[str, ndarray], meta: Mapping[str, Any]) -> None:
    """Write arrays and plain values as one folder."""
    with new_folder(path) as folder:
        fill_folder(folder, arrays, meta)


def fill_folder(folder: Path, arrays: Mapping[str, ndarray], meta: Mapping[str, Any]) -> None:
    """Put arrays and plain values into an open `new_folder`, perhaps beside other files."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    # Not np.ascontiguousarray: it would turn a number without axes into an array of one.
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(whole, str(folder / ARRAYS))
    except SafetensorError as error:  # how it reports a full disk
        raise OSError(errno.ENOSPC, str(error)) from error
    (folder / META).write_text(json.dumps(meta, indent=1, allow_nan=False) + "\n")


def read_folder(path: Path) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """Read what `write_folder` wrote; a damaged folder is named, never half believed."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_dir():
        raise InputError(str(path), "is not a folder", "give the folder of a saved result")
    try:
        meta = json.loads((path / META).read_text(encoding="utf-8"))
        arrays = load_file(str(path / ARRAYS))
    except FileNotFoundError as error:
        missing = Path(str(error.filename or ARRAYS)).name
        raise InputError(
            str(path), f"has no {missing}", "give the folder of a saved result"
        ) from error
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(str(path), f"is damaged ({error})", "write the result again") from error
    if not isinstance(meta, dict):
        raise InputError(str(path), "is damaged (meta.json is not a table)", "write it again")
    return arrays, meta


def _temporary(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_dir():
            raise InputError(str(path), "is a file", "name a folder that may be written")
        return Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise _cannot_write(path, error) from error


def _cannot_write(path: Path, error: OSError) -> InputError:
    return InputError(
        str(path), f"cannot be written ({error.strerror})", "choose a folder with room and rights"
    )
