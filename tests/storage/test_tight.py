"""Locks and files at the moment where two could believe to be alone."""

import fcntl
import sqlite3

import pytest

from featavg.errors import InputError
from featavg.simulate.sweep.store import Row, RunIndex
from featavg.storage import locks
from featavg.storage.files import dumps
from featavg.storage.locks import locked


def test_a_lock_on_a_file_that_lost_its_name_is_taken_again(tmp_path, monkeypatch):
    """The one before removes the file between our opening and our locking of it."""
    real, taken = fcntl.flock, []

    def flock(handle, flags):
        real(handle, flags)
        taken.append(handle)
        if len(taken) == 1:
            (tmp_path / ".run.lock").unlink()

    monkeypatch.setattr(locks.fcntl, "flock", flock)
    with locked(tmp_path / "run"):
        assert (tmp_path / ".run.lock").exists()
    assert len(taken) == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_that_nobody_else_reads_is_not_written(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps({"value": value})


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("PRAGMA application_id = 1", "is another program's"),
        ("PRAGMA user_version = 9", "has version 9"),
    ],
)
def test_a_store_that_is_not_ours_is_refused(tmp_path, statement, told):
    path = tmp_path / "runs.sqlite"
    RunIndex(path).close()
    with sqlite3.connect(path) as base:
        base.execute(statement)
    base.close()
    with pytest.raises(InputError, match=told):
        RunIndex(path)


def test_a_run_that_failed_is_not_known(tmp_path):
    with RunIndex(tmp_path / "runs.sqlite") as index:
        index.add([Row(name, "{}", 0, "loss", {}, error, 0.1, "0") for name, error in
                   (("done", ""), ("failed", "The run broke."))])  # fmt: skip
        assert index.known(["done", "failed", "never"]) == {"done"}
