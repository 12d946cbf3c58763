"""Reads files that are given to featavg, which may hold anything.

Only regular files (a pipe would hang, a device never end), of bounded size; whatever is wrong with
what is in them becomes one sentence that names the file.

>>> from pathlib import Path
>>> read_json(Path("/dev/null"))
Traceback (most recent call last):
    ...
featavg.errors.InputError: /dev/null is not a regular file: give a file.
"""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError

# Far above any text or table that makes sense here; far below what makes a machine unusable.
TEXT_LIMIT, ARRAY_LIMIT = 1 << 28, 1 << 34
DEPTH_LIMIT = 100


def is_folder(path: Path) -> bool:
    """Whether it is one; a name that no file can have is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether it is a regular file; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, limit: int = TEXT_LIMIT) -> bytes:
    """The whole file."""
    with opened(path, limit) as file:
        return file.read(limit + 1)


def read_text(path: Path, limit: int = TEXT_LIMIT) -> str:
    """The whole file, which is UTF-8; Windows puts a mark of three bytes before it."""
    try:
        return read_bytes(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(str(path), f"is not text ({error.reason})", "save it as UTF-8") from error


def read_json(path: Path, limit: int = TEXT_LIMIT) -> Any:
    """The value that the file holds."""
    with _parsed(path, "JSON", "correct it or write it again"):
        return json.loads(read_text(path, limit))


def read_toml(path: Path) -> dict[str, Any]:
    """The table that the file holds."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    with _parsed(path, "TOML", "correct it"):
        return tomllib.loads(read_text(path))


@contextmanager
def _parsed(path: Path, language: str, remedy: str) -> Iterator[None]:
    """What is wrong with a text, as one sentence."""
    try:
        yield
    except InputError:
        raise
    except RecursionError as error:
        problem = "is nested too deeply"
        raise InputError(str(path), problem, f"use at most {DEPTH_LIMIT} levels") from error
    except ValueError as error:
        problem = f"is not valid {language} ({_short(error)})"
        raise InputError(str(path), problem, remedy) from error


def read_arrays(path: Path, limit: int = ARRAY_LIMIT) -> dict[str, ndarray]:
    """The arrays of a .npz file by name, or the one array of a .npy file under the name "".

    No pickled objects. What an archive unpacks to is added up first, so that a small file cannot fill
    the memory.
    """
    try:
        with opened(path, limit) as file:
            if zipfile.is_zipfile(file):
                _check_unpacked(path, file, limit)
            file.seek(0)
            found = np.load(file, allow_pickle=False)
            arrays = {"": found} if isinstance(found, ndarray) else dict(found)
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(str(path), "does not fit into memory", "give fewer numbers") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OverflowError) as error:
        problem = f"is a damaged archive ({_short(error)})"
        raise InputError(str(path), problem, "save it again with numpy.savez") from error
    except Exception as error:  # a header is a Python literal, and can be wrong in every way
        problem = f"is not a NumPy file ({_numpy_problem(error)})"
        raise InputError(str(path), problem, "save it with numpy.savez or numpy.save") from error
    strange = [name for name, array in arrays.items() if not isinstance(array, ndarray)]
    if strange:
        problem = f"is not a NumPy file ({strange[0][:60]!r} in it is no array)"
        raise InputError(str(path), problem, "save it with numpy.savez")
    return arrays


def read_safetensors(path: Path, limit: int = ARRAY_LIMIT) -> dict[str, ndarray]:
    """The arrays of a safetensors file by name."""
    from safetensors.numpy import load_file

    with opened(path, limit):
        pass
    try:
        return load_file(str(path))
    except Exception as error:  # of Rust, of NumPy, of the file system
        problem = f"is not a safetensors file ({_short(error)})"
        raise InputError(str(path), problem, "write it again") from error


@contextmanager
def opened(path: Path, limit: int = ARRAY_LIMIT) -> Iterator[io.BufferedReader]:
    """The file, open. What it is, is asked of the open file, so that it cannot be swapped in between."""
    try:
        # Without O_NONBLOCK opening a pipe would wait for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _BINARY)
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        raise _cannot_read(path, error) from error
    try:
        _check_regular(path, os.fstat(handle), limit)
    except InputError:
        os.close(handle)
        raise
    with os.fdopen(handle, "rb") as file:
        try:
            yield file
        except OSError as error:
            raise _cannot_read(path, error) from error


def _check_regular(path: Path, about: os.stat_result, limit: int) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise InputError(str(path), "is a folder", "give a file")
    if not stat.S_ISREG(about.st_mode):
        raise InputError(str(path), "is not a regular file", "give a file")
    if about.st_size > limit:
        problem = f"has {about.st_size:,} bytes, over the limit of {limit:,}"
        raise InputError(str(path), problem, "give a smaller file")


_BINARY: int = getattr(os, "O_BINARY", 0)


def _check_unpacked(path: Path, file: io.BufferedReader, limit: int) -> None:
    with zipfile.ZipFile(file) as archive:
        promised = sum(member.file_size for member in archive.infolist())
    if promised > limit:
        problem = f"unpacks to {promised:,} bytes, over the limit of {limit:,}"
        raise InputError(str(path), problem, "give fewer numbers")


def _numpy_problem(error: Exception) -> str:
    """NumPy takes whatever is not its own for a pickle, and suggests to allow it."""
    if "allow_pickle" not in str(error):
        return _short(error)
    if "Object arrays" in str(error):
        return "it holds objects, and unpickling them could run code"
    return "it does not begin like one"


def _cannot_read(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(str(path), "is not there", "check the name")
    cause = getattr(error, "strerror", None) or str(error)
    return InputError(str(path), f"cannot be read ({cause.lower()})", "check its name and rights")


def _short(error: Exception) -> str:
    """The first line of what went wrong: libraries quote whole headers."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
