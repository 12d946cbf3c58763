"""Files: written under a temporary name and renamed, so that nothing is ever half-written."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from featavg.errors import InputError


def write(path: Path, content: str | bytes, argument: str = "out") -> Path:
    """Write `content` to `path` in one step; trouble with the disk becomes one sentence."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        raise _trouble(argument, path, error) from error
    finally:
        if temporary.exists():
            temporary.unlink()
    return path


def usable_folder(folder: Path, argument: str = "out") -> Path:
    """`folder`, made if need be, after a trial file was written there and removed again."""
    probe = folder / f".probe.{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(bytes(1 << 16))
        probe.unlink()
    except OSError as error:
        raise _trouble(argument, folder, error) from error
    return folder


def dumps(value: object) -> str:
    """Strictly valid JSON: it refuses NaN, which `strict` has turned into strings before."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _trouble(argument: str, path: Path, error: OSError) -> InputError:
    if error.errno == errno.ENOSPC:
        return InputError(argument, f"({path}) is on a full disk", "free space or choose another")
    cause = (error.strerror or str(error)).lower()
    return InputError(argument, f"({path}) cannot be written ({cause})", "choose another folder")
