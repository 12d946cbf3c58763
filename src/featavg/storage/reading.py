"""Reading what somebody else may have written: one boundary for every file that is given to featavg.

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
    text = read_text(path, limit)
    try:
        return json.loads(text)
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError as error:
        problem = f"is not valid JSON ({_short(error)})"
        raise InputError(str(path), problem, "correct it or write it again") from error


def read_toml(path: Path) -> dict[str, Any]:
    """The table that the file holds."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep(path) from error
    except ValueError as error:
        problem = f"is not valid TOML ({_short(error)})"
        raise InputError(str(path), problem, "correct it") from error


def read_arrays(path: Path, limit: int = ARRAY_LIMIT) -> dict[str, ndarray]:
    """The arrays of a .npz file by name, or the one array of a .npy file under the name "".

    No pickled objects. The sizes that the headers promise are added up before anything is unpacked,
    so that a small file cannot ask for all of the memory.
    """
    try:
        with opened(path, limit) as file:
            if not zipfile.is_zipfile(file):
                file.seek(0)
                return {"": _array(file, os.fstat(file.fileno()).st_size)}
            with zipfile.ZipFile(file) as archive:
                return _members(path, archive, limit)
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(str(path), "does not fit into memory", "give fewer numbers") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OverflowError) as error:
        problem = f"is a damaged archive ({_short(error)})"
        raise InputError(str(path), problem, "save it again with numpy.savez") from error
    except Exception as error:  # a header is a Python literal, and can be wrong in every way
        problem = f"is not a NumPy file ({_short(error)})"
        raise InputError(str(path), problem, "save it with numpy.savez or numpy.save") from error


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
        # Without O_NONBLOCK opening a pipe would wait for somebody who writes into it.
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


def _members(path: Path, archive: zipfile.ZipFile, limit: int) -> dict[str, ndarray]:
    promised = sum(member.file_size for member in archive.infolist())
    if promised > limit:
        problem = f"unpacks to {promised:,} bytes, over the limit of {limit:,}"
        raise InputError(str(path), problem, "give fewer numbers")
    arrays = {}
    for member in archive.infolist():
        with archive.open(member) as file:
            arrays[member.filename.removesuffix(".npy")] = _array(file, member.file_size)
    return arrays


def _array(file: Any, size: int) -> ndarray:
    """One array, after its header was held against the bytes that are there."""
    start = file.read(1 << 16)
    header = io.BytesIO(start)
    version = np.lib.format.read_magic(header)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else _header_2
    shape, _, dtype = read(header)
    count = 1
    for length in shape:
        count *= length
    if dtype.hasobject:
        raise ValueError("it holds objects, and unpickling them could run code")
    if count * dtype.itemsize > size:
        raise ValueError("its header promises more than it holds")
    whole = np.lib.format.read_array(_Joined(start, file), allow_pickle=False)
    return np.asarray(whole)


def _header_2(header: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    return np.lib.format.read_array_header_2_0(header)


class _Joined(io.RawIOBase):
    """What was read already, and then the rest: members of an archive cannot be wound back."""

    def __init__(self, start: bytes, rest: Any) -> None:
        super().__init__()
        self._start, self._rest = io.BytesIO(start), rest

    def read(self, count: int = -1) -> bytes:
        """As of any file."""
        head = self._start.read(count)
        if count < 0 or len(head) < count:
            head += self._rest.read(count - len(head) if count >= 0 else -1)
        return head


def _too_deep(path: Path) -> InputError:
    return InputError(str(path), "is nested too deeply", f"use at most {DEPTH_LIMIT} levels")


def _cannot_read(path: Path, error: Exception) -> InputError:
    if isinstance(error, FileNotFoundError):
        return InputError(str(path), "is not there", "check the name")
    cause = getattr(error, "strerror", None) or str(error)
    return InputError(str(path), f"cannot be read ({cause.lower()})", "check its name and rights")


def _short(error: Exception) -> str:
    """The first line of what went wrong: libraries quote whole headers."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")[:120]
