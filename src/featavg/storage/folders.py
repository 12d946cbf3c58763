"""Results on disk: safetensors and JSON in a folder that is either whole or not there; locks."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.storage.files import cannot_write, dumps
from featavg.storage.reading import read_json, read_safetensors

if sys.platform != "win32":
    import fcntl

ARRAYS, META = "arrays.safetensors", "meta.json"
_DIGEST = "sha256"
# How the folder begins in which `into_folder` collects; after a kill it tells who was at work.
UNFINISHED = ".featavg-"


@contextlib.contextmanager
def new_folder(path: Path, argument: str | None = None) -> Iterator[Path]:
    """A temporary folder that takes the name `path` when the block ends well, and vanishes if not.

    An older folder of that name stays until the new one is complete: it is moved aside, the new one
    takes its name, and then the old one goes. Killed between the two renames, `path` is not there
    and the old one is beside it; `folder_exists` and `read_folder` put it back. Where `path` is a
    symbolic link, the folder that it points to is replaced.
    """
    argument = argument or str(path)
    with _one_sentence(argument, path):
        path = _target(path, argument)
        recover(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name[:60]}."))
    try:
        with _one_sentence(argument, path):
            yield temporary
            _open_to_readers(temporary)
            _replace(path, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def into_folder(path: Path, marker: str, argument: str | None = None, owned: Collection[str] = ()) -> Iterator[Path]:
    """A temporary folder whose entries replace those of the same name in `path`, if all goes well.

    Everything else in `path` stays: a user's notes, other results. `marker` is the file by which a
    reader knows that the result is whole: it goes first and comes last, so that a kill in the
    middle leaves a folder that says it is unfinished. Entries that are `owned` belong to the result
    and go if the new one has none of that name. `path` may be the working folder, a link or a place
    where nothing can be renamed: only entries inside it are.
    """
    argument = argument or str(path)
    with _one_sentence(argument, path):
        path = _target(path, argument)
        path.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=path, prefix=UNFINISHED))
    try:
        with _one_sentence(argument, path):
            yield temporary
            _open_to_readers(temporary)
            (path / marker).unlink(missing_ok=True)
            replaced = temporary / ".replaced"
            replaced.mkdir()
            names = {entry.name for entry in temporary.iterdir() if entry != replaced}
            for name in sorted(names | set(owned), key=lambda name: name == marker):
                with contextlib.suppress(FileNotFoundError):
                    (path / name).rename(replaced / name)
                if name in names:
                    (temporary / name).rename(path / name)
            for left in path.glob(f"{UNFINISHED}*"):  # of runs that were killed
                shutil.rmtree(left, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _one_sentence(argument: str, path: Path) -> Iterator[None]:
    """Trouble with the disk as one sentence."""
    try:
        yield
    except OSError as error:
        raise cannot_write(argument, path, error) from error


def folder_exists(path: Path) -> bool:
    """Whether there is a folder `path`, after putting back one that a kill left moved aside."""
    recover(path)
    return path.exists()


def recover(path: Path) -> None:
    """Undo half of a replacement: the old folder gets its name back if the new one did not."""
    aside = _aside(path)
    if not os.path.lexists(path) and aside.is_dir() and not aside.is_symlink():
        with contextlib.suppress(OSError):
            aside.rename(path)


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
    signed = dict(meta) | {_DIGEST: _digest(folder / ARRAYS, meta)}
    (folder / META).write_text(dumps(signed), encoding="utf-8")


def read_folder(path: Path) -> tuple[dict[str, ndarray], dict[str, Any]]:
    """Read what `write_folder` wrote; a damaged folder is named, never half believed."""
    recover(path)
    if not path.is_dir():
        raise InputError(str(path), "is not a folder", "give the folder of a saved result")
    for name in (META, ARRAYS):
        if not (path / name).exists():
            raise InputError(str(path), f"has no {name}", "give the folder of a saved result")
    try:
        meta = read_json(path / META)
        arrays = read_safetensors(path / ARRAYS)
    except InputError as error:
        problem = f"is damaged ({Path(error.argument).name} {error.problem})"
        raise InputError(str(path), problem, "write the result again") from error
    if not isinstance(meta, dict):
        raise InputError(str(path), "is damaged (meta.json is not a table)", "write it again")
    digest = meta.pop(_DIGEST, None)  # folders of version 0.1 have none
    if digest is not None and digest != _digest(path / ARRAYS, meta):
        problem = "is damaged (its contents are not those that were written)"
        raise InputError(str(path), problem, "write the result again")
    return arrays, meta


def _digest(arrays: Path, meta: Mapping[str, Any]) -> str:
    """A hash of both files, so that a result that was changed is not believed."""
    digest = hashlib.sha256()
    with arrays.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    plain = json.loads(json.dumps(dict(meta)))  # as it will be read back
    digest.update(json.dumps(plain, sort_keys=True).encode())
    return digest.hexdigest()


def _replace(path: Path, new: Path) -> None:
    aside = _aside(path)
    if path.exists():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    new.rename(path)
    logging.getLogger(__name__).debug("wrote the folder %s", path)
    shutil.rmtree(aside, ignore_errors=True)


def _aside(path: Path) -> Path:
    """Where a folder is while it is being replaced: a name that can be found again after a kill."""
    return path.with_name(f".{path.name}.replaced") if path.name else path / ".replaced"


def _target(path: Path, argument: str) -> Path:
    """What `path` points to, if it is a link; only folders may be replaced."""
    try:
        target = path.resolve()
    except RuntimeError as error:  # a loop of links, before Python 3.13
        raise OSError(errno.ELOOP, "it is a loop of links") from error
    if target.exists() and not target.is_dir():
        raise InputError(argument, f"({path}) is a file", "name a folder")
    return target


def _open_to_readers(folder: Path) -> None:
    """A temporary folder is private; give the result the rights that the user's umask gives."""
    probe = folder / ".featavg-rights"
    os.mkdir(probe)  # the umask itself can only be read by changing it
    rights = probe.stat().st_mode & 0o777
    probe.rmdir()
    folder.chmod(rights)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(rights if path.is_dir() else rights & 0o666)


@contextlib.contextmanager
def locked(folder: Path, argument: str = "out") -> Iterator[None]:
    """Locks `folder` while the block runs; a second process gets an error of one sentence.

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
        with contextlib.suppress(OSError):  # gone, or another file has its name
            if os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(handle)):
                return handle
        os.close(handle)
