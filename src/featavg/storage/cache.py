"""Parts of long work that a killed run does not do again, and the state of a run in its middle.

A part has a key, a fingerprint of all that it depends on (weights, settings, code version). What is
on disk under another key, or damaged, is computed anew. The seconds that a part took are kept with
it, so that a result that is put together from kept parts can still say what it cost.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError, finite
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


def fingerprint(arrays: Sequence[ndarray], *words: object) -> str:
    """A short name for a run, from its data, its start and its rules."""
    digest = hashlib.sha256(repr(words).encode())
    for array in arrays:
        digest.update(str(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]


@dataclass
class Checkpoint:
    """Writes the state of a run to `folder` every `seconds`, and reads it back.

    Args:
        folder: where the state lives while the run is unfinished.
        seconds: how often it is written.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa
    >>> state = Checkpoint(Path(tempfile.mkdtemp()) / "state")
    >>> run = fa.train(fa.MultiCluster(k=4, d=100), n=40, steps=20, checkpoint=state)
    >>> int(run.steps[-1])
    20
    """

    folder: Path
    seconds: float = 60.0
    _written: float = 0.0

    def __post_init__(self) -> None:
        finite("seconds", self.seconds, least=0)

    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        if self._written == 0.0:
            self._written = time.monotonic()
        return time.monotonic() - self._written >= self.seconds

    def write(self, run: str, arrays: dict[str, ndarray], meta: dict[str, Any]) -> None:
        """Replace the state on disk."""
        write_folder(self.folder, arrays, {"run": run, **meta})
        self._written = time.monotonic()

    def read(self, run: str) -> tuple[dict[str, ndarray], dict[str, Any]] | None:
        """The state on disk, if there is one; one of another run is refused, not overwritten."""
        if not folder_exists(self.folder) or not any(self.folder.iterdir()):
            return None
        arrays, meta = read_folder(self.folder)
        if meta.get("run") != run:
            remedy = "choose another folder, or delete this one if you do not need it"
            raise InputError(str(self.folder), "holds the checkpoint of another run", remedy)
        return arrays, meta
