"""Writing files: under a temporary name and then renamed, so that nothing is ever half-written.

The temporary name is random and must be new (`O_EXCL`), so that no symbolic link can be put in its way.
Devices and pipes such as /dev/null and /dev/stdout are written through; a link to a file is refused.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.machine import readable

_NAME, _PATH = 255, 4095  # bytes, on every file system in use


def write(path: Path, content: str | bytes, argument: str = "out") -> Path:
    """Write `content` to `path` in one step; trouble with the disk becomes one sentence."""
    data = content.encode() if isinstance(content, str) else content
    temporary = None
    try:
        if is_stream(path, argument):
            with path.open("ab") as stream:
                stream.write(data)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".featavg-{os.urandom(8).hex()}"
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # minus the umask
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
        logging.getLogger(__name__).debug("wrote %s, %d bytes", path, len(data))
    except OSError as error:
        raise cannot_write(argument, path, error) from error
    finally:
        if temporary is not None:
            # Gone already if all went well; and a disk that is full still lets files be removed.
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return path


def is_stream(path: Path, argument: str = "out") -> bool:
    """Whether `path` is a device, a pipe or a link to one; a link to anything else is refused."""
    try:
        own = path.lstat().st_mode
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not path.is_symlink():
            return False
        raise InputError(argument, f"({path}) is a broken link", "name a file") from None
    if stat.S_ISCHR(mode) or stat.S_ISFIFO(mode):
        return True
    if stat.S_ISLNK(own):
        if path.parent == Path("/dev"):  # /dev/stdout, redirected to a file
            return True
        if not stat.S_ISDIR(mode):
            raise InputError(argument, f"({path}) is a link", "name the file that it points to")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(argument, f"({path}) is neither a file nor a folder", "name a file")
    return False


def check_writable(path: Path, argument: str = "out", size: float = 0.0) -> Path:
    """`path`, after checking that it could be written, as a folder or a file.

    Called before hours of work. It makes nothing and leaves nothing behind: the trial file has no
    name, and a folder that is not there yet is tried at the nearest one above it that is.

    Args:
        path: the folder or file to come.
        argument: who asked for it, for the sentence.
        size: the bytes that will be written.
    """
    try:
        if is_stream(path, argument):
            return path
        target = path.resolve()
        above = next(folder for folder in (target, *target.parents) if folder.exists())
        if above != target and not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{above} is a file")
        folder = above if above.is_dir() else above.parent
        with tempfile.TemporaryFile(dir=folder, prefix=".featavg-") as trial:
            trial.write(bytes(1 << 16))
            trial.flush()
        free = shutil.disk_usage(folder).free
    except (OSError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise cannot_write(argument, path, error) from error
    if free < size:
        problem = f"({path}) has {readable(free)} free and the result takes about {readable(size)}"
        raise InputError(argument, problem, "free space or choose another folder")
    return path


def usable_folder(folder: Path, argument: str = "out") -> Path:
    """`folder`, which is one or can be made one; it is made when the first file is written."""
    check_writable(folder, argument)
    if folder.exists() and not folder.is_dir():
        raise InputError(argument, f"({folder}) is a file", "name a folder")
    return folder


def usable_file(path: Path, argument: str = "json") -> Path:
    """`path`, which can be written as a file."""
    check_writable(path, argument)
    if path.is_dir():
        raise InputError(argument, f"({path}) is a folder", "name a file")
    return path


def dumps(value: object) -> str:
    """Strictly valid JSON: it refuses NaN, which `strict` has turned into strings before."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def cannot_write(argument: str, path: Path, error: BaseException) -> InputError:
    """The one sentence about a file or folder that could not be written."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT):
        return InputError(argument, f"({path}) is on a full disk", "free space or choose another")
    if number == errno.ENAMETOOLONG:
        return InputError(argument, "has a name that is too long", "give a shorter one")
    cause = (getattr(error, "strerror", None) or str(error)).rstrip(".")
    problem = f"({path}) cannot be written ({cause[:1].lower()}{cause[1:]})"
    return InputError(argument, problem, "choose a folder with room and rights")


def strict_json(value: Any) -> object:
    """`value` with arrays, tables and dataclasses made plain and non-finite numbers made strings.

    An xarray Dataset becomes its coordinates and variables by name, those with axes as
    `{"dims": ..., "values": ...}`.

    >>> import numpy as np
    >>> strict_json({"a": np.float64("nan"), "b": (np.int64(3), float("-inf"))})
    {'a': 'nan', 'b': [3, '-inf']}
    """
    if hasattr(value, "data_vars"):  # an xarray Dataset, which is a Mapping of the variables alone
        return strict_json({name: _variable(value[name]) for name in value.variables})
    if is_dataclass(value) and not isinstance(value, type):
        return strict_json({item.name: getattr(value, item.name) for item in fields(value)})
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset, range)):
        return [strict_json(item) for item in value]
    if hasattr(value, "tolist"):  # an array, or a number of NumPy's
        return strict_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def _variable(array: Any) -> object:
    """A variable of a Dataset: its values, with the names of its axes where it has several."""
    if array.ndim == 0:
        return array.item()
    plain = array.values.tolist()
    return plain if array.dims == (array.name,) else {"dims": list(array.dims), "values": plain}


def check_file_name(argument: str, path: str | os.PathLike[str]) -> None:
    """Refuse a zero byte, and what is too long.

    >>> check_file_name("out", "a" * 300)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: out has a name that is too long: give a shorter one.
    """
    try:
        data = os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(argument, "has a letter that no file name can have", "give plain letters") from None
    if b"\0" in data:
        raise InputError(argument, "has a zero byte", "give the name of a file or folder")
    if len(data) > _PATH or max(map(len, data.split(b"/"))) > _NAME:
        raise InputError(argument, "has a name that is too long", "give a shorter one")
