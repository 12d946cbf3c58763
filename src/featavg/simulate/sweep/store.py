"""The store of a sweep: an index with one row for each measured run, and files for measured arrays.

The driver alone writes. A file of arrays is written before the row that it belongs to, so a row in the
index has its arrays; a file without a row, left by a kill, is written again with the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.storage.files import write
from featavg.storage.reading import opened

# Rises with every change of the table; a store of another version is refused, not converted.
VERSION = 1
# "featavg" in the header of the file, so that no other database is written to.
APPLICATION = 0x66656174
_TABLE = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    setting TEXT NOT NULL,
    seed INTEGER NOT NULL,
    measure TEXT NOT NULL,
    "values" TEXT NOT NULL,
    error TEXT NOT NULL,
    seconds REAL NOT NULL,
    version TEXT NOT NULL
) WITHOUT ROWID
"""
# SQLite takes this many parameters in one statement, in every build that Python ships.
_AT_ONCE = 900


@dataclass(frozen=True)
class Row:
    """One measure of one seed of one setting.

    Attributes:
        id: hash of the setting, the seed, the measure and the version of what measures it.
        setting: the setting without its seeds, as JSON.
        values: the measured numbers by name.
        error: why there are none, in a sentence; empty if there are.
        seconds: what the run took, training included.
        version: the version of featavg that measured it.
        arrays: measured arrays by name; the index does not keep them, files beside it do.
    """

    id: str
    setting: str
    seed: int
    measure: str
    values: Mapping[str, float | None]
    error: str
    seconds: float
    version: str
    arrays: Mapping[str, ndarray] = field(default_factory=dict, compare=False)


class RunIndex(contextlib.AbstractContextManager["RunIndex"]):
    """A file of rows that survives a kill, and that others may read while it is written.

    Write-ahead logging keeps readers and the one writer out of each other's way; a row is there as
    a whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, RunIndex(Path(folder) / "runs.sqlite") as index:
    ...     index.add([Row("a1", "{}", 0, "loss", {"loss": 0.5}, "", 0.1, "0.2.0")])
    ...     index.known(["a1", "b2"]), next(index.rows(["a1"])).values
    ({'a1'}, {'loss': 0.5})
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise InputError(
                "store", f"({path.parent}) cannot be made ({cause})", "choose another folder"
            ) from error
        self._check_file()
        with self._spoken():
            self._base = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            self._open()

    def _check_file(self) -> None:
        """Refuse what is no whole database before SQLite lays its own files beside it."""
        if not os.path.lexists(self.path):
            return
        with opened(self.path) as file:
            head, size = file.read(100), os.fstat(file.fileno()).st_size
        page = int.from_bytes(head[16:18], "big")
        if size and (not head.startswith(b"SQLite format 3\0") or size < max(page, 100)):
            raise InputError(
                "store",
                f"({self.path}) is damaged (no whole database)",
                "move it away or choose another folder",
            )

    def _open(self) -> None:
        with self._spoken():
            self._base.execute("BEGIN IMMEDIATE")
            [(tables,)] = self._base.execute("SELECT count(*) FROM sqlite_master")
            [(application,)] = self._base.execute("PRAGMA application_id")
            [(version,)] = self._base.execute("PRAGMA user_version")
            if not tables:
                self._base.execute(f"PRAGMA application_id = {APPLICATION}")
                self._base.execute(f"PRAGMA user_version = {VERSION}")
                self._base.execute(_TABLE)
            self._base.execute("COMMIT")
        if tables and application != APPLICATION:
            raise InputError(
                "store", f"({self.path}) is another program's", "choose another folder"
            )
        if tables and version != VERSION:
            remedy = f"use the featavg that wrote it, or another folder (this one is {VERSION})"
            raise InputError("store", f"({self.path}) has version {version}", remedy)
        with self._spoken():
            self._base.execute("PRAGMA journal_mode = WAL")
            # A killed process loses nothing; a power failure may lose the last commits, which are
            # then computed again.
            self._base.execute("PRAGMA synchronous = NORMAL")

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows; one that is there already stays as it is."""
        values = [
            (
                row.id,
                row.setting,
                row.seed,
                row.measure,
                json.dumps(dict(row.values), allow_nan=False),
                row.error,
                row.seconds,
                row.version,
            )
            for row in rows
        ]
        with self._spoken():
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany("INSERT OR IGNORE INTO runs VALUES (?,?,?,?,?,?,?,?)", values)
            self._base.execute("COMMIT")

    def known(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids have a row without an error; failed runs are tried again."""
        kept: set[str] = set()
        with self._spoken():
            for part in _parts(ids):
                marks = ",".join("?" * len(part))
                query = f"SELECT id FROM runs WHERE error = '' AND id IN ({marks})"
                kept.update(name for (name,) in self._base.execute(query, part))
        return kept

    def forget_errors(self, ids: Sequence[str]) -> None:
        """Drop the rows of failed runs that are about to be tried again."""
        with self._spoken():
            for part in _parts(ids):
                marks = ",".join("?" * len(part))
                self._base.execute(f"DELETE FROM runs WHERE error != '' AND id IN ({marks})", part)

    def rows(self, ids: Sequence[str]) -> Iterator[Row]:
        """The rows of these ids, in their order; ids without a row are left out."""
        kept: dict[str, Row] = {}
        with self._spoken():
            for part in _parts(ids):
                marks = ",".join("?" * len(part))
                query = f"SELECT * FROM runs WHERE id IN ({marks})"
                for name, setting, seed, measure, values, *rest in self._base.execute(query, part):
                    kept[name] = Row(name, setting, seed, measure, json.loads(values), *rest)
        return (kept[name] for name in ids if name in kept)

    def __len__(self) -> int:
        with self._spoken():
            [(count,)] = self._base.execute("SELECT count(*) FROM runs")
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _spoken(self) -> Iterator[None]:
        """SQLite's errors as one sentence each."""
        try:
            yield
        except sqlite3.OperationalError as error:
            with contextlib.suppress(sqlite3.Error, AttributeError):
                self._base.execute("ROLLBACK")
            if "locked" in str(error) or "busy" in str(error):
                remedy = "wait for the other sweep, or choose another folder"
                raise InputError("store", f"({self.path}) is locked", remedy) from error
            remedy = "choose another folder"
            raise InputError("store", f"({self.path}) cannot be used ({error})", remedy) from error
        except (sqlite3.DatabaseError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            remedy = "move it away or choose another folder"
            raise InputError("store", f"({self.path}) is damaged ({error})", remedy) from error


def _parts(ids: Sequence[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield list(ids[start : start + _AT_ONCE])


def _path_of(store: Path, run_id: str) -> Path:
    """Where the arrays of a run are; folders of a 256th keep listings short."""
    return store / "arrays" / run_id[:2] / f"{run_id}.safetensors"


def keep_arrays(store: Path, row: Row) -> None:
    """Write the arrays of a row, if it has any."""
    if row.arrays:
        from safetensors.numpy import save

        arrays = {name: np.ascontiguousarray(array) for name, array in row.arrays.items()}
        write(_path_of(store, row.id), save(arrays))


def load_arrays(store: Path, run_id: str) -> dict[str, ndarray]:
    """The arrays of a run by name; none if its measure has none."""
    path = _path_of(store, run_id)
    if not path.exists():
        return {}
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(path.read_bytes()))
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            "store", f"has a damaged file ({path}: {error})", "delete it and run the sweep again"
        ) from error
