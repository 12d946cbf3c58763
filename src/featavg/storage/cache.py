"""Compute once, keep on disk: parts of long work that a killed run does not do again.

A part has a key, a fingerprint of all that it depends on (weights, settings, code version). What is
on disk under another key, or damaged, is computed anew. The seconds that a part took are kept with
it, so that a result that is put together from kept parts can still say what it cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from time import perf_counter
from typing import Any

from numpy import ndarray

from featavg.errors import InputError
from featavg.storage.files import dumps, write
from featavg.storage.folders import folder_exists, read_folder, write_folder
from featavg.storage.reading import read_json

_KEY, _SECONDS = "key", "seconds_to_compute"
_saved: ContextVar[list[float] | None] = ContextVar("saved", default=None)


def kept_values(path: Path | None, key: str, compute: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
    """Plain values, from the JSON file `path` if it has them for this `key`; None keeps nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "part.json"
    ...     first = kept_values(file, "weights-1", lambda: {"radius": 17.3})
    ...     again = kept_values(file, "weights-1", lambda: 1 / 0)
    >>> first == again == {"radius": 17.3}
    True
    """
    described = _values_in(path) if path is not None else {}
    if described.get(_KEY) == key:
        note_saved(described.get(_SECONDS, 0.0))
    else:
        started = perf_counter()
        described = dict(compute())
        about = {_KEY: key, _SECONDS: perf_counter() - started}
        if path is not None:
            write(path, dumps(described | about))
    return {name: value for name, value in described.items() if name not in (_KEY, _SECONDS)}


def kept_arrays(folder: Path | None, key: str, compute: Callable[[], Mapping[str, ndarray]]) -> dict[str, ndarray]:
    """Arrays, from `folder` if it has them for this `key`; None keeps nothing."""
    if folder is not None and folder_exists(folder):
        try:
            arrays, about = read_folder(folder)
        except InputError:  # damaged: computed anew
            about = {}
        if about.get("run") == key:
            note_saved(about.get(_SECONDS, 0.0))
            return arrays
    started = perf_counter()
    arrays = dict(compute())
    if folder is not None:
        write_folder(folder, arrays, {"run": key, _SECONDS: perf_counter() - started})
    return arrays


def note_saved(seconds: object) -> None:
    """Records that this many seconds of work were found done; anything but a number is ignored."""
    counted = _saved.get()
    if counted is not None and isinstance(seconds, (int, float)):
        counted.append(float(seconds))


@contextmanager
def counting_saved() -> Iterator[list[float]]:
    """The seconds of all parts that the block finds done, one number for each."""
    counted: list[float] = []
    token = _saved.set(counted)
    try:
        yield counted
    finally:
        _saved.reset(token)


def _values_in(path: Path) -> dict[str, Any]:
    try:
        described = read_json(path)
    except InputError:  # not there, or damaged
        return {}
    return described if isinstance(described, dict) else {}
