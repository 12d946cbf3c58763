"""The state of an unfinished run on disk: enough to resume to the same bits after a kill."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError, finite
from featavg.storage.folders import folder_exists, read_folder, write_folder


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
