"""The store of a sweep: an index with one row for each measured run, and files for measured arrays.

The driver alone writes. A file of arrays is written before the row that it belongs to, so a row in the
index has its arrays; a file without a row, left by a kill, is written again with the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.storage.files import cannot_write, write
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
_MOVE = "move it away or choose another folder"


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
    ...     index.known(["a1", "b2"]), next(index.rows({"a1": ("{}", 0, "loss")})).values
    ({'a1'}, {'loss': 0.5})
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write("store", path.parent, error) from error
        self._refuse_damaged()
        with self._one_sentence():
            self._base = sqlite3.connect(path, timeout=10.0, isolation_level=None)
            self._execute("BEGIN IMMEDIATE")
            [(tables,)] = self._execute("SELECT count(*) FROM sqlite_master")
            [(application,)] = self._execute("PRAGMA application_id")
            [(version,)] = self._execute("PRAGMA user_version")
            if not tables:
                self._execute(f"PRAGMA application_id = {APPLICATION}")
                self._execute(f"PRAGMA user_version = {VERSION}")
                self._execute(_TABLE)
            self._execute("COMMIT")
        if tables and application != APPLICATION:
            raise InputError("store", f"({path}) is another program's", "choose another folder")
        if tables and version != VERSION:
            remedy = f"use the featavg that wrote it, or another folder (this one is {VERSION})"
            raise InputError("store", f"({path}) has version {version}", remedy)
        self._execute("PRAGMA journal_mode = WAL")
        # A killed process loses nothing; a power failure may lose the last commits, which are
        # then computed again.
        self._execute("PRAGMA synchronous = NORMAL")

    def _refuse_damaged(self) -> None:
        """Refuse what is no whole database before SQLite lays its own files beside it."""
        if not os.path.lexists(self.path):
            return
        with opened(self.path) as file:
            head, size = file.read(100), os.fstat(file.fileno()).st_size
        page = int.from_bytes(head[16:18], "big")
        if size and (not head.startswith(b"SQLite format 3\0") or size < max(page, 100)):
            problem = f"({self.path}) is damaged (no whole database)"
            raise InputError("store", problem, _MOVE)

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows; one that is there already stays as it is."""
        values = []
        for row in rows:
            numbers = json.dumps(dict(row.values), allow_nan=False)
            head = (row.id, row.setting, row.seed, row.measure, numbers)
            values.append((*head, row.error, row.seconds, row.version))
        with self._one_sentence():
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany("INSERT OR IGNORE INTO runs VALUES (?,?,?,?,?,?,?,?)", values)
            self._base.execute("COMMIT")

    def known(self, ids: Sequence[str]) -> set[str]:
        """Which of these ids have a row without an error; failed runs are tried again."""
        return {name for (name,) in self._each("SELECT id FROM runs WHERE error = '' AND", ids)}

    def forget_errors(self, ids: Sequence[str]) -> None:
        """Drop the rows of failed runs that are about to be tried again."""
        list(self._each("DELETE FROM runs WHERE error != '' AND", ids))

    def rows(self, ids: Mapping[str, tuple[str, int, str]]) -> Iterator[Row]:
        """The rows of these ids, in their order; ids without a row are left out.

        Args:
            ids: each with its setting, seed and measure, which the row has to name.
        """
        kept: dict[str, Row] = {}
        for name, setting, seed, measure, values, *rest in self._each("SELECT * FROM runs WHERE", list(ids)):
            row = Row(name, setting, seed, measure, _numbers(values), *rest)
            whole = isinstance(row.seconds, float) and isinstance(row.error, str)
            if row.values is None or not whole or (setting, seed, measure) != ids[name]:
                problem = f"({self.path}) is damaged (the row {name} is not what was written)"
                raise InputError("store", problem, _MOVE)
            kept[name] = row
        return (kept[name] for name in ids if name in kept)

    def __len__(self) -> int:
        [(count,)] = self._execute("SELECT count(*) FROM runs")
        return int(count)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _execute(self, query: str, values: Sequence[str] = ()) -> list[Any]:
        with self._one_sentence():
            return self._base.execute(query, values).fetchall()

    def _each(self, query: str, ids: Sequence[str]) -> Iterator[Any]:
        """What a query finds among these ids."""
        for start in range(0, len(ids), _AT_ONCE):
            part = ids[start : start + _AT_ONCE]
            yield from self._execute(f"{query} id IN ({','.join('?' * len(part))})", part)

    @contextlib.contextmanager
    def _one_sentence(self) -> Iterator[None]:
        """SQLite's errors as one sentence each."""
        try:
            yield
        except InputError:
            raise
        except (sqlite3.DatabaseError, ValueError) as error:
            with contextlib.suppress(sqlite3.Error, AttributeError):
                self._base.execute("ROLLBACK")
            usable = isinstance(error, sqlite3.OperationalError)
            problem = f"cannot be used ({error})" if usable else f"is damaged ({error})"
            remedy = "choose another folder" if usable else _MOVE
            if usable and ("locked" in str(error) or "busy" in str(error)):
                problem, remedy = "is locked", "wait for the other sweep, or choose another folder"
            raise InputError("store", f"({self.path}) {problem}", remedy) from error


def _numbers(text: Any) -> Any:
    """Measured numbers by name, from JSON; None if the text holds anything else."""
    try:
        values = json.loads(text)
    except (TypeError, ValueError):
        return None
    plain = isinstance(values, dict) and all(
        v is None or (type(v) in (int, float) and math.isfinite(v)) for v in values.values()
    )
    return values if plain else None


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
        problem = f"has a damaged file ({path}: {error})"
        raise InputError("store", problem, "delete it and run the sweep again") from error
