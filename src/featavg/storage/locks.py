"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from featavg.errors import InputError
from featavg.storage.files import cannot_write

if sys.platform != "win32":
    import fcntl


@contextlib.contextmanager
def locked(folder: Path, argument: str = "out") -> Iterator[None]:
    """Nobody else writes to `folder` while the block runs; who comes second gets one sentence.

    The lock is the operating system's, on a file beside the folder: it ends with its process,
    however that ends, and nothing has to be cleaned up after a kill. It holds between processes,
    and between two calls in one.
    """
    folder = folder.resolve()
    path = folder.with_name(f".{folder.name}.lock") if folder.name else folder / ".lock"
    made = [above for above in path.parents if not above.exists()]
    handle = _acquire(path, folder, argument)
    try:
        yield
    finally:
        # Removed while it is still held: a process that gets a lock checks that the file still has
        # its name, so no one can hold a lock on a removed file.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(handle)
        for above in made:  # if nothing came of it, nothing is left
            with contextlib.suppress(OSError):
                above.rmdir()


def _acquire(path: Path, folder: Path, argument: str) -> int:
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            handle = os.open(path, flags, 0o644)
        except OSError as error:
            raise cannot_write(argument, folder, error) from error
        try:
            if sys.platform != "win32":
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            problem = f"({folder}) is in use by another run of featavg"
            raise InputError(argument, problem, "wait for it, or choose another folder") from error
        if _is_still(path, handle):
            return handle
        os.close(handle)


def _is_still(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle))
    except OSError:
        return False
