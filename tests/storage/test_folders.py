"""Folders that are whole or not there, whoever is killed when; locks; what is computed once."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.storage import folders
from featavg.storage.cache import Checkpoint, counting_saved, kept_arrays, kept_values
from featavg.storage.folders import folder_exists, into_folder, locked, new_folder, read_folder, write_folder


def written(path, value=1.0):
    write_folder(path, {"w": np.full(3, value)}, {"step": int(value)})


def test_folders_come_back(tmp_path):
    written(tmp_path / "run", 1)
    written(tmp_path / "run", 2)
    arrays, meta = read_folder(tmp_path / "run")
    assert arrays["w"].tolist() == [2, 2, 2]
    assert meta == {"step": 2}
    assert os.listdir(tmp_path) == ["run"]


class Killed(BaseException):
    """What a kill is to a test: nothing after it happens."""


@pytest.mark.parametrize("calls", [1, 2])
def test_a_kill_at_either_rename_loses_nothing(tmp_path, monkeypatch, calls):
    """Issue: killed between the two renames, the checkpoint was gone and the run began again."""
    path = tmp_path / "checkpoint"
    written(path, 1)
    rename, done = Path.rename, []

    def dying(self, target):
        done.append(target)
        if len(done) == calls:
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    # A killed process removes nothing either.
    monkeypatch.setattr(folders.shutil, "rmtree", lambda *_, **__: None)
    with pytest.raises(Killed):
        write_folder(path, {"w": np.zeros(3)}, {"run": "a", "step": 2})
    monkeypatch.undo()
    assert path.exists() is (calls == 1)
    assert folder_exists(path)
    assert read_folder(path)[1] == {"step": 1}
    written(path, 3)
    assert read_folder(path)[1] == {"step": 3}


def test_a_checkpoint_moved_aside_is_found(tmp_path):
    checkpoint = Checkpoint(tmp_path / "checkpoint")
    checkpoint.write("run", {"w": np.ones(2)}, {"step": 7})
    (tmp_path / "checkpoint").rename(tmp_path / ".checkpoint.replaced")
    state = checkpoint.read("run")
    assert state is not None
    assert state[1]["step"] == 7


def test_a_real_kill_in_the_middle_leaves_a_whole_folder(tmp_path):
    path = tmp_path / "state"
    code = f"""
        import numpy as np
        from pathlib import Path
        from featavg.storage.folders import write_folder
        step = 0
        print("ready", flush=True)
        while True:
            step += 1
            write_folder(Path({str(path)!r}), {{"w": np.full(20000, float(step))}}, {{"step": step}})
    """
    for pause in (0.05, 0.11, 0.23):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
        process.stdout.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if folder_exists(path):
            arrays, meta = read_folder(path)
            assert (arrays["w"] == meta["step"]).all()


DAMAGE = {
    "a number edited": lambda f: _edit(f, lambda meta: meta.update(step=-5)),
    "a number removed": lambda f: _edit(f, lambda meta: meta.pop("step")),
    "a byte of an array flipped": lambda f: _flip(f / "arrays.safetensors"),
    "cut": lambda f: (f / "arrays.safetensors").write_bytes(b"123"),
    "not a table": lambda f: (f / "meta.json").write_text("[1]"),
    "nested": lambda f: (f / "meta.json").write_text("[" * 10**5),
    "no meta": lambda f: (f / "meta.json").unlink(),
    "a pipe": lambda f: ((f / "meta.json").unlink(), os.mkfifo(f / "meta.json")),
}


def _edit(folder, change):
    meta = json.loads((folder / "meta.json").read_text())
    change(meta)
    (folder / "meta.json").write_text(json.dumps(meta))


def _flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_folder_is_not_believed(tmp_path, damage):
    written(tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(InputError, match=r"run (is damaged|has no)") as caught:
        read_folder(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_a_linked_folder_is_written_through(tmp_path):
    (tmp_path / "disk").mkdir()
    link = tmp_path / "out"
    link.symlink_to(tmp_path / "disk")
    written(link)
    assert link.is_symlink()
    assert read_folder(tmp_path / "disk")[1] == {"step": 1}


def test_a_file_in_the_way_is_refused_and_a_failure_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        written(tmp_path / "file")

    def fail(path):
        with new_folder(path) as folder:
            (folder / "half").write_text("")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail(tmp_path / "new")
    assert sorted(os.listdir(tmp_path)) == ["file"]


def fill(path, marker="numbers.json", **files):
    with into_folder(path, marker, "out") as folder:
        for name, text in files.items():
            (folder / name.replace("_", ".")).write_text(text)
        (folder / "figures").mkdir()
        (folder / "figures" / "a.png").write_text(files.get("numbers_json", ""))


def test_other_files_of_a_folder_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("mine")
    fill(Path("."), numbers_json="1", old_csv="1")
    fill(Path("."), numbers_json="2")
    assert Path("notes.txt").read_text() == "mine"
    assert Path("numbers.json").read_text() == Path("figures/a.png").read_text() == "2"
    assert Path("old.csv").read_text() == "1"
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_a_kill_in_the_middle_shows(tmp_path, monkeypatch):
    fill(tmp_path, numbers_json="1")
    rename = Path.rename

    def dying(self, target):
        if self.name == "figures" and self.parent != tmp_path:
            raise Killed
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", dying)
    with pytest.raises(Killed):
        fill(tmp_path, numbers_json="2")
    assert not (tmp_path / "numbers.json").exists()


HOLD = """
from pathlib import Path
from featavg.storage.folders import locked
with locked(Path({folder!r})):
    print("mine", flush=True)
    input()
"""


def test_a_folder_is_one_process_at_a_time(tmp_path):
    folder = tmp_path / "run"
    command = [sys.executable, "-c", HOLD.format(folder=str(folder))]
    first = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert first.stdout.readline() == b"mine\n"
    with pytest.raises(InputError, match="is in use by another run"), locked(folder):
        pass
    with locked(tmp_path / "another"):
        pass
    first.kill()
    first.communicate()
    with locked(folder), pytest.raises(InputError, match="in use"), locked(folder):
        pass
    assert os.listdir(tmp_path) == []


def test_a_link_cannot_take_the_place_of_a_lock(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / ".run.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(InputError), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "precious").read_text() == "mine"


class Counting:
    def __init__(self, value):
        self.value, self.runs = value, 0

    def __call__(self):
        self.runs += 1
        return self.value


@pytest.mark.parametrize(
    ("keep", "value", "name"),
    [(kept_values, {"a": 1.5}, "part.json"), (kept_arrays, {"a": np.ones(3)}, "part")],
    ids=["values", "arrays"],
)
def test_what_is_kept_is_not_computed_again(tmp_path, keep, value, name):
    path, compute = tmp_path / name, Counting(value)
    for _ in range(3):
        kept = keep(path, "key", compute)
        assert list(kept) == ["a"]
        assert np.array_equal(kept["a"], value["a"])
    assert compute.runs == 1
    keep(path, "other key", compute)
    assert compute.runs == 2
    damaged = path if path.is_file() else path / "meta.json"
    damaged.write_text("{")
    keep(path, "other key", compute)
    keep(None, "other key", compute)
    assert compute.runs == 4


def test_parts_remember_what_they_cost(tmp_path, monkeypatch):
    times = iter([0.0, 100.0, 100.0])
    monkeypatch.setattr("featavg.storage.cache.perf_counter", lambda: next(times))
    compute = Counting({"a": 1})
    with counting_saved() as first:
        kept_values(tmp_path / "part.json", "key", compute)
    with counting_saved() as second:
        kept_values(tmp_path / "part.json", "key", compute)
    assert (first, second) == ([], [100.0])


def test_a_lock_on_a_file_that_lost_its_name_is_taken_again(tmp_path, monkeypatch):
    """The one before removes the file between our opening and our locking of it."""
    real, taken = fcntl.flock, []

    def flock(handle, flags):
        real(handle, flags)
        taken.append(handle)
        if len(taken) == 1:
            (tmp_path / ".run.lock").unlink()

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path / "run"):
        assert (tmp_path / ".run.lock").exists()
    assert len(taken) == 2
