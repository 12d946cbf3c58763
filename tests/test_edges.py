"""Edges of the command line: no exit 70 for odd values, odd files and odd surroundings."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.public_calls import attacked
from tests.small import points, run

import featavg as fa
from featavg.__main__ import main
from featavg.data.image_sets.archives import ImageSet, state
from featavg.errors import InputError
from featavg.figures.html import _policy
from featavg.nets.torch.architecture import Architecture
from featavg.registry import IMAGE_SETS
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.run import sweep
from featavg.simulate.sweep.table import write_sweep
from featavg.training.controllers import Cosine

SMALL = ("--k", "4", "--d", "50", "--n", "20", "--steps", "3")
SWEEPS = (
    "vary = 3",
    "vary = [1, 2]",
    'vary = "k=3"',
    "[vary]\nk = 3",
    "[[vary]]\nk = [1]",
    'store = "x"',
    "engine = 3",
    'measures = "x"',
    "progress = 1",
    "yes = true",
    "self = 1",
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("axis", ["k=nan", "k=inf", "d=1e400", "n=-inf"])
def test_a_count_that_is_no_number_is_refused(axis: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["sweep", "--vary", axis]) == 2
    assert capsys.readouterr().err.startswith(f"{axis[0]} is ")
    assert not os.listdir()


@pytest.mark.parametrize("text", SWEEPS)
def test_odd_toml_of_a_sweep_is_refused(text: str, capsys: pytest.CaptureFixture) -> None:
    Path("odd.toml").write_text(text)
    assert main(["sweep", "--config", "odd.toml"]) == 2
    assert capsys.readouterr().err.startswith("vary ")
    assert os.listdir() == ["odd.toml"]


def test_self_is_no_setting(capsys: pytest.CaptureFixture) -> None:
    Path("odd.toml").write_text("self = 1")
    assert main(["simulate", "--config", "odd.toml"]) == 2
    assert capsys.readouterr().err.startswith("self is not a setting")
    with pytest.raises(InputError, match="self is not a setting"):
        Setting(**{"self": 1})


def test_samples_beside_a_grid_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="samples is 7 beside a grid"):
        sweep({"k": [4, 5]}, tmp_path / "out", samples=7)
    assert not os.listdir()


def test_the_page_of_a_sweep_has_no_base_and_no_form(tmp_path: Path) -> None:
    small = {"d": 50, "n": 20, "steps": 3}
    done = sweep({"k": [4]}, tmp_path, measures="loss", seeds=1, engine="serial", **small)
    policy = write_sweep(done, tmp_path).read_text().partition("Content-Security-Policy")[2][:200]
    assert "base-uri 'none'; form-action 'none'" in policy


ODD = {
    "radii": lambda: fa.curve(fa.attack_suite(**attacked(), budget=5), [-1.0]),
    "net": lambda: fa.fine_accuracy(run().net, points()),
    "targets": lambda: fa.margins(np.eye(3), np.array([0, 1, 7]), -np.ones(3), 2.0, 2),
    "label_groups": lambda: Setting(k=4, label_groups=3),
    "depth": lambda: Setting(k=4, d=50, n=20, depth=10**6),
    "network": lambda: Architecture("convnet", 2, 4, 1, (0.0,), (1.0,), size=1),
    "coarse": lambda: fa.audit(None, np.eye(4), np.ma.masked_less(np.arange(4), 1)),
}


@pytest.mark.parametrize("argument", ODD)
def test_what_has_no_meaning_is_refused(argument: str) -> None:
    with pytest.raises(InputError, match=f"^{argument} "):
        ODD[argument]()


def test_a_cosine_over_no_steps_is_refused() -> None:
    with pytest.raises(InputError, match="steps is 0"):
        Cosine(0.1, steps=0)


def _run(*words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = f'"{sys.executable}" -m featavg {" ".join(words)} {shell}'
    return subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        errors="replace",
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.parametrize("words", [("simulate", "--help"), ("simulate", *SMALL, "--no-figures")])
def test_a_terminal_without_unicode_is_printed_to(words: tuple[str, ...]) -> None:
    done = _run(*words, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Result: " in done.stdout or "weight-decay" in done.stdout


def test_closed_and_full_output() -> None:
    assert _run("presets", shell=">&-").returncode == 0
    full = _run("presets", shell=">/dev/full")
    assert full.returncode == 2
    assert full.stderr.splitlines() == ["The output cannot be written (no space left on device): make room."]


def test_a_deleted_working_folder_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'cd "{gone}" && rmdir "{gone}" && "{sys.executable}" -m featavg doctor'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "The working folder was deleted: change to another one." in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_backend_of_matplotlib_does_not_matter() -> None:
    done = _run("simulate", *SMALL, MPLBACKEND="foo")
    assert done.returncode == 0, done.stderr
    script = "import featavg as fa; fa.simulate(k=4, d=50, n=20, steps=3, out='new')"
    command, here = [sys.executable, "-c", script], os.environ | {"MPLBACKEND": "foo"}
    python = subprocess.run(command, capture_output=True, text=True, check=False, env=here)
    assert python.stderr.endswith("InputError: MPLBACKEND is 'foo': unset it, or set it to agg.\n")
    assert not Path("new").exists()


@pytest.mark.full
@pytest.mark.parametrize("engine", ["dask", "processes"])
def test_ctrl_c_ends_a_sweep_with_one_line(engine: str) -> None:
    """In a process of its own: Ctrl-C is a signal, and pools have threads that could speak."""
    slow = "--set k=4 --set d=300 --set n=300 --set steps=300 --seeds 1 --measure loss --workers 2"
    words = f"sweep --vary cosine=0:0.9:500 {slow} --engine {engine} --out out"
    program = [sys.executable, "-m", "featavg", *words.split()]
    running = subprocess.Popen(program, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while not list(Path("out").glob("runs.sqlite-wal")) and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(5)
    running.send_signal(signal.SIGINT)
    said = [line for line in running.communicate(timeout=600)[1].splitlines() if "time left" not in line]
    assert running.returncode == 130
    assert [line for line in said if "% " not in line] == [
        "Interrupted: finished runs are in out, and the same command resumes."
    ]


ROOT = Path(__file__).parent.parent


def test_every_action_of_a_workflow_is_pinned_by_its_commit() -> None:
    used = [
        line.split("uses:")[1].split()[0]
        for path in (ROOT / ".github" / "workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert any(name.startswith("pypa/") for name in used)
    for name in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name), name


def test_the_tools_of_a_release_are_pinned_by_their_content() -> None:
    lines = (ROOT / "tools" / "build.txt").read_text().replace("\\\n", " ").splitlines()
    named = [line for line in lines if not line.startswith("#")]
    assert {line.split("==")[0] for line in named} >= {"build", "hatchling", "packaging"}
    assert all(re.search(r"==\S+ .*--hash=sha256:[0-9a-f]{64}$", line) for line in named)
    assert "--require-hashes" in (ROOT / "tools" / "package.py").read_text()


def test_every_page_says_that_it_has_no_base_and_where_forms_go() -> None:
    policy = _policy(["1"])
    page = (ROOT / "src/featavg/playground/playground.html").read_text()
    site = runpy.run_path(str(ROOT / "docs" / "conf.py"))
    context: dict[str, str] = {}
    site["_protect"](None, "", "", context, None)
    for text in (policy, page, context["metatags"]):
        assert "base-uri 'none'" in text
        assert "form-action '" in text


def test_a_file_with_the_right_md5_and_another_sha256_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"data")
    good = {kind: hashlib.new(kind, b"data").hexdigest() for kind in ("md5", "sha256")}
    one = ImageSet("toy", "Toy", None, md5={"a.bin": good["md5"]}, sha256={"a.bin": good["sha256"]})
    assert state(one, tmp_path) == "here"
    other = replace(one, sha256={"a.bin": hashlib.sha256(b"other").hexdigest()})
    assert state(other, tmp_path) == "damaged"
    published = [IMAGE_SETS[name] for name in ("mnist", "cifar10", "cifar100")]
    assert all(set(each.sha256) == {file for file, md5 in each.md5.items() if md5} for each in published)
