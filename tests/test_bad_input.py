"""Bad input: one sentence that names the argument, exit code 2, no traceback, nothing written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from featavg.__main__ import main
from featavg.errors import InputError
from featavg.simulate.run import load_simulation, simulate
from featavg.simulate.setting import Setting, compose

POINTS = {"x": np.eye(4)[np.arange(12) % 4] + 0.1, "clusters": np.arange(12) % 4}
MODEL = "from torch import nn\n\ndef net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))\n"
FILES: dict[str, Callable[[Path], object]] = {
    "impossible.csv": lambda path: path.write_text("1,2\n2,1\n"),
    "words.csv": lambda path: path.write_text("1,two\n2,1\n"),
    "ragged.json": lambda path: path.write_text("[[1, 2], [3]]"),
    "row.npy": lambda path: np.save(path, np.ones(3)),
    "gram.dat": lambda path: path.write_text("1 0\n0 1\n"),
    "broken.toml": lambda path: path.write_text("k = = 3"),
    "unknown.toml": lambda path: path.write_text("kk = 3"),
    "nested.toml": lambda path: path.write_text("[task]\nk = 3"),
    "list.toml": lambda path: path.write_text("preset = ['paper']"),
    "latin.toml": lambda path: path.write_bytes(b"# \xe9\nk = 3"),
    "nan.npz": lambda path: np.savez(path, x=POINTS["x"] * np.nan, clusters=POINTS["clusters"]),
    "short.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=POINTS["clusters"][1:]),
    "negative.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=POINTS["clusters"] - 1),
    "gap.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=2 * POINTS["clusters"]),
    "high.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=9**9 * POINTS["clusters"]),
    "half.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=POINTS["clusters"] / 2),
    "text.npz": lambda path: np.savez(path, x=POINTS["x"].astype(str), clusters=np.arange(12)),
    "bare.npz": lambda path: np.savez(path, x=POINTS["x"]),
    "narrow.npz": lambda path: np.savez(path, x=POINTS["x"][:, :2], clusters=POINTS["clusters"]),
    "zero.npz": lambda path: np.savez(path, x=0 * POINTS["x"], clusters=POINTS["clusters"]),
    "outside.npz": lambda path: np.savez(path, **POINTS, positive=np.array([0, 7])),
    "floats.npz": lambda path: np.savez(path, **POINTS, positive=np.array([0.5])),
    "test.npz": lambda path: np.savez(path, **POINTS, x_test=np.ones((2, 9)), clusters_test=[0, 1]),
    "test5.npz": lambda path: np.savez(path, **POINTS, x_test=np.ones((2, 4)), clusters_test=[0, 5]),
    "single.npz": lambda path: np.savez(path, x=POINTS["x"], clusters=0 * POINTS["clusters"]),
    "tiny_model.py": lambda path: path.write_text(MODEL),
    "objects.npz": lambda path: np.savez(path, x=np.array([{}], dtype=object), clusters=[0]),
    "plain.npy": lambda path: np.save(path, POINTS["x"]),
    "damaged.npz": lambda path: path.write_bytes(b"PK\x03\x04 not really"),
    "good.npz": lambda path: np.savez(path, **POINTS),
    "good.csv": lambda path: path.write_text("4,1\n1,4\n"),
}

# The command line, and words that the one sentence on standard error has.
CASES = [
    ("simulate --k -3", "k is -3"),
    ("simulate --k 1", "k is 1"),
    ("simulate --d 3", "d is 3, below k = 10"),
    ("simulate --d 10000000000000000000000", "d is 1e+22"),
    ("simulate --alpha nan", "alpha is nan"),
    ("simulate --sigma -1", "sigma is -1"),
    ("simulate --cosine 1.5", "cosine is 1.5"),
    ("simulate --gram impossible.csv --k 2", "gram has eigenvalue"),
    ("simulate --gram impossible.csv", "gram has shape (2, 2): give a 10 x 10"),
    ("simulate --gram words.csv --k 2", "gram (words.csv)"),
    ("simulate --gram ragged.json --k 2", "gram (ragged.json)"),
    ("simulate --gram row.npy --k 2", "gram (row.npy) has 1 axes"),
    ("simulate --gram gram.dat --k 2", "gram (gram.dat) has no ending"),
    ("simulate --gram missing.npy --k 2", "gram (missing.npy) is not there"),
    ("simulate --gram good.csv --k 2 --cosine 0.5", "gram is given beside cosine"),
    ("simulate --norms 1,2 --k 3", "norms are not positive"),
    ("simulate --norms a", "norms is 'a'"),
    ("simulate --positive 0,11", "positive names clusters outside 0..9"),
    ("simulate --positive 10", "positive leaves a class empty"),
    ("simulate --positive x", "positive is 'x'"),
    ("simulate --probabilities 0.5,0.6 --k 2", "probabilities are not"),
    ("simulate --labels medium", "labels is 'medium': choose one of coarse, fine, both"),
    ("simulate --orientation up", "orientation is 'up'"),
    ("simulate --n 0", "n is 0"),
    ("simulate --n 30000000", "n asks for"),
    ("simulate --coordinates ambient --d 10000000000", "d asks for"),
    ("simulate --m 1000000000", "m asks for"),
    ("simulate --h 1000000000", "h asks for"),
    ("simulate --k 10000000 --d 100000000", "k asks for"),
    ("simulate --n-test 1000000000", "n_test asks for"),
    ("simulate --steps 100000000 --save-every 1", "save_every asks for"),
    ("simulate --checkpoint-every nan", "checkpoint-every is nan"),
    ("simulate --sigma 1e308", "sigma is 1e+308"),
    ("simulate --lr 1e309", "lr is inf"),
    ("simulate --seeds 0", "seeds is 0"),
    ("simulate --seed -1", "seeds are -1"),
    ("simulate --seed 1 --seed 1", "seeds are 1, 1"),
    ("simulate --seed 1 --seeds 2", "seed is given beside seeds"),
    ("simulate --m 0", "m is 0"),
    ("simulate --h 0", "h is 0"),
    ("simulate --lr 0", "lr is 0"),
    ("simulate --sigma-w -1", "sigma_w is -1"),
    ("simulate --steps -1", "steps is -1"),
    ("simulate --time 0", "time is 0"),
    ("simulate --target-loss -1", "target_loss is -1"),
    ("simulate --beta 1", "beta is 1"),
    ("simulate --tolerance 0", "tolerance is 0"),
    ("simulate --save-every 0", "save_every is 0"),
    ("simulate --stepper sgdd", "stepper is 'sgdd'"),
    ("simulate --controller error", "controller is error with stepper gd"),
    ("simulate --loss cross-entropy --labels coarse", "loss is cross-entropy for coarse"),
    ("simulate --loss logistic --labels fine", "loss is logistic for fine"),
    ("simulate --loss cross-entropy", "loss is cross-entropy for both"),
    ("simulate --stepper adam --coordinates compressed", "coordinates are compressed"),
    ("simulate --coordinates compressed --d 20", "coordinates are compressed, which needs"),
    ("simulate --preset nobody", "preset is 'nobody': choose one of paper, talk, theorem"),
    ("simulate --preset theorem --data good.npz", "preset is theorem beside data"),
    ("simulate --preset theorem --k -2", "k is -2"),
    ("simulate --preset talk --d -2", "d is -2"),
    ("simulate --config broken.toml", "config (broken.toml) is not valid TOML"),
    ("simulate --config latin.toml", "config (latin.toml) is not text"),
    ("simulate --config missing.toml", "config (missing.toml) is not there"),
    ("simulate --config unknown.toml", "kk is not a setting"),
    ("simulate --config nested.toml", "task is not a setting"),
    ("simulate --config list.toml", "preset is ['paper']"),
    ("simulate --data nan.npz", "has NaN or infinity in row 0 of x"),
    ("simulate --data short.npz", "has clusters of shape (11,)"),
    ("simulate --data negative.npz", "has label -1 in clusters"),
    ("simulate --data gap.npz", "has no point of cluster 1"),
    ("simulate --data high.npz", "in clusters: number the clusters"),
    ("simulate --data half.npz", "one whole number for each of the 12 points"),
    ("simulate --data text.npz", "has x of shape (12, 4) and type <U"),
    ("simulate --data bare.npz", "has no array clusters"),
    ("simulate --data narrow.npz", "d is 2, below k = 4"),
    ("simulate --data zero.npz", "average to zero"),
    ("simulate --data outside.npz", "positive names clusters outside 0..3"),
    ("simulate --data single.npz", "single.npz) has one cluster: give at least two"),
    ("simulate --data floats.npz", "has positive of shape (1,)"),
    ("simulate --data test.npz", "has 9 columns in x_test and 4 in x"),
    ("simulate --data test5.npz", "has label 5 in clusters_test"),
    ("simulate --data objects.npz", "objects.npz) is not a NumPy file (it holds objects"),
    ("simulate --data plain.npy", "plain.npy) is one array without a name"),
    ("simulate --data damaged.npz", "damaged.npz) is a damaged archive"),
    ("simulate --data missing.npz", "missing.npz) is not there"),
    ("simulate --data good.npz --k 4", "k is given beside data"),
    ("simulate --out good.csv", "good.csv) is a file"),
    ("simulate --out good.csv/result", "good.csv/result) cannot be written"),
    ("simulate --out .", "holds files that no simulation wrote"),
    ("reproduce --seeds 0", "--seeds should be"),
    ("reproduce --only nobody", "only names no claim ('nobody')"),
    ("reproduce --out good.csv/report", "good.csv/report) cannot be written"),
    ("claims --only nobody", "only names no claim ('nobody')"),
    ("presets --show nobody", "preset is 'nobody'"),
    ("presets --k -1", "k is -1"),
    ("presets --show theorem --k 0", "k is 0"),
    ("audit tiny_model:net --data digits --images 9 --mean 1,2", "mean has 2 numbers for inputs of"),
    ("audit tiny_model:net --data digits --images 9 --std 1,2", "std has 2 numbers for inputs of"),
    # typer's own refusals
    ("simulate --k many", "--k"),
    ("simulate --kk 3", "--kk"),
    ("simulate extra", "extra"),
    ("nobody", "nobody"),
    ("--nobody", "--nobody"),
]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all the bad files, and nothing else; it is where the commands run."""
    for name, write in FILES.items():
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _is_one_sentence(text: str, words: str) -> None:
    assert text.count("\n") == 1, text
    assert text.endswith(".\n"), text
    assert words in text
    assert "Traceback" not in text


@pytest.mark.parametrize(("command", "words"), CASES, ids=[command for command, _ in CASES])
def test_bad_input_is_refused_in_one_sentence(
    desk: Path, capsys: pytest.CaptureFixture[str], command: str, words: str
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in desk.iterdir()}
    assert main(command.split()) == 2
    told = capsys.readouterr()
    _is_one_sentence(told.err, words)
    assert told.out == ""
    assert {path.name: path.stat().st_mtime_ns for path in desk.iterdir()} == before


# A process of its own: the exit code is the shell's, and nothing is hidden by the test runner.
PROCESSES = [("simulate --k -3", "k is -3"), ("simulate --out /proc/featavg", "out (/proc/featavg) cannot be written")]


@pytest.mark.parametrize(("command", "words"), PROCESSES, ids=[c for c, _ in PROCESSES])
def test_the_program_itself(desk: Path, command: str, words: str) -> None:
    program = [sys.executable, "-m", "featavg", *command.split()]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    _is_one_sentence(done.stderr, words)
    assert sorted(path.name for path in desk.iterdir()) == sorted(FILES)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs limits on a child process")
@pytest.mark.parametrize("kilobytes", [0, 4, 40])
def test_a_disk_that_fills_up_while_writing(desk: Path, kilobytes: int) -> None:
    """A limit on the size of a file fails as a full disk does: at the first byte, or later."""
    program = [sys.executable, "-m", "featavg", "simulate", "--steps", "2", "--no-figures", "--out", "result"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * kilobytes, 1024 * kilobytes))

    done = subprocess.run(program, capture_output=True, text=True, preexec_fn=limit, check=False, cwd=desk)
    assert done.returncode == 2, done.stderr
    _is_one_sentence(done.stderr, "result) cannot be written")
    assert sorted(path.name for path in desk.iterdir()) == sorted(FILES)


def test_a_full_disk_is_noticed_before_the_work(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(desk)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    assert main(["simulate", "--out", "result"]) == 2
    _is_one_sentence(capsys.readouterr().err, "has 1 kB free and the result takes about")


SMALL = {"k": 4, "d": 100, "n": 20, "steps": 2, "n_test": 10}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "small"
    simulate(out=folder, figures=False, **SMALL)
    return folder


def _edit(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    described = json.loads(path.read_text())
    change(described)
    path.write_text(json.dumps(described))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "no numbers": (lambda f: (f / "numbers.json").unlink(), "has no numbers.json"),
    "cut numbers": (lambda f: (f / "numbers.json").write_text('{"kind":'), "is damaged"),
    "foreign": (lambda f: (f / "numbers.json").write_text("[1, 2]"), "holds something else"),
    "no runs": (lambda f: _edit(f / "numbers.json", lambda n: n.pop("runs")), "is damaged"),
    "a run too few": (
        lambda f: _edit(f / "numbers.json", lambda n: n.update(runs=n["runs"][:1])),  # type: ignore[index]
        "do not fit",
    ),
    "no settings": (lambda f: (f / "settings.toml").unlink(), "is damaged"),
    "bad settings": (lambda f: (f / "settings.toml").write_text("k = -1"), "is damaged"),
    "no weights": (lambda f: shutil.rmtree(f / "fine"), "is damaged"),
    "cut weights": (lambda f: os.truncate(f / "coarse" / "arrays.safetensors", 200), "is damaged"),
    "no meta": (lambda f: (f / "coarse" / "meta.json").write_text("{}"), "is damaged"),
    "other outcome": (lambda f: _edit(f / "coarse" / "meta.json", lambda m: m.update(outcomes=["WON"])), "is damaged"),
    "gone": (shutil.rmtree, "is not a folder"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_result_is_named(result: Path, tmp_path: Path, name: str) -> None:
    damage, words = DAMAGE[name]
    folder = tmp_path / "result"
    shutil.copytree(result, folder)
    damage(folder)
    with pytest.raises(InputError, match=words) as caught:
        load_simulation(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_only_featavgs_own_folders_are_replaced(result: Path, tmp_path: Path) -> None:
    folder = tmp_path / "result"
    shutil.copytree(result, folder)
    with pytest.raises(InputError, match="another setting"):
        simulate(out=folder, figures=False, **(SMALL | {"steps": 3}))
    simulate(out=folder, figures=False, overwrite=True, **(SMALL | {"steps": 3}))
    assert load_simulation(folder).setting.steps == 3
    (folder / "numbers.json").write_text("mine")
    with pytest.raises(InputError, match="no simulation wrote"):
        simulate(out=folder, figures=False, overwrite=True, **SMALL)
    assert (folder / "numbers.json").read_text() == "mine"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"k": 2.5}, "k is 2.5: give a whole number"),
        ({"alpha": True}, "alpha is true: give a number"),
        ({"steps": False}, "steps is false: give a number"),
        ({"k": "x"}, "k is 'x': give a whole number"),
        ({"alpha": float("inf")}, "alpha is inf"),
        ({"seeds": "a"}, "seeds is 'a': give a list"),
        ({"gram": [[1, 2], [3]]}, "gram has rows of different lengths"),
        ({"gram": [1, 2]}, "gram is"),
        ({"norms": [1, "b"]}, "norms is"),
        ({"stepers": "gd"}, "stepers is not a setting: did you mean stepper"),
    ],
)
def test_python_users_get_the_same_sentences(values: dict[str, object], words: str) -> None:
    for make in (Setting, compose):
        with pytest.raises(InputError, match=words.replace("[", r"\[")):
            make(**values)  # type: ignore[operator]
