"""Edges of the command line: no exit 70 for odd values, odd files and odd surroundings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from featavg.cli.app import main
from featavg.errors import InputError
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.page import write_sweep
from featavg.simulate.sweep.run import sweep
from featavg.training.controllers.cosine import Cosine

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


def test_a_terminal_without_unicode_is_printed_to() -> None:
    done = _run("simulate", *SMALL, "--no-figures", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Result: " in done.stdout


def test_closed_and_full_output() -> None:
    assert _run("presets", shell=">&-").returncode == 0
    full = _run("presets", shell=">/dev/full")
    assert full.returncode == 2
    assert full.stderr.splitlines() == [
        "The output cannot be written (no space left on device): make room."
    ]


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
