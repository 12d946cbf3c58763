"""Locks and files at the moment where two could believe to be alone."""

import fcntl

import pytest

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
