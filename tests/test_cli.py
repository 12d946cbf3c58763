"""The commands: what they print, what they return, what they write."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import featavg
from featavg import __main__ as cli
from featavg.__main__ import GROUPS, main, make_app
from featavg.cli.doctor import doctor
from featavg.paper.commands import last_verdict
from featavg.simulate import run as simulate_run
from featavg.simulate.setting import FIELDS, PRESETS, Setting, compose

COMMANDS = ("reproduce", "claims", "simulate", "presets", "doctor")
SMALL = ["--k=4", "--d=100", "--n=20", "--steps=2", "--n-test=10", "--no-figures"]


def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(make_app(), ["--help"])
    assert shown.exit_code == 0
    assert all(command in shown.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    shown = CliRunner().invoke(make_app(), [command, "--help"])
    assert shown.exit_code == 0
    assert "Usage: " in shown.stdout


def test_brackets_in_help_texts_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes `[vary]` for markup; of every command, all that was written is shown."""
    monkeypatch.setenv("COLUMNS", "400")
    app = make_app()
    for command, words in {
        "reproduce": "[default: featavg-results/report]",
        "sweep": "a table [vary].",
        "simulate": "coarse, fine or both [both].",
    }.items():
        assert words in CliRunner().invoke(app, [*command.split(), "--help"]).stdout


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Usage: featavg" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"featavg {featavg.__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    heavy = {"numpy", "scipy", "pydantic", "matplotlib", "xarray", "sklearn", "torch", "jaxtyping"}
    script = "import sys; from featavg.__main__ import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not heavy & set(done.stdout.splitlines()[-1].split())


def test_ctrl_c_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(simulate_run, "simulate", interrupted)
    assert main(["simulate", *SMALL]) == 130
    assert capsys.readouterr().err.startswith("Interrupted before the first checkpoint")
    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", interrupted)
    assert main(["reproduce"]) == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_no_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def too_much(*args: object, **kwargs: object) -> None:
        raise MemoryError

    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", too_much)
    assert main(["reproduce"]) == 2
    assert capsys.readouterr().err.startswith("The memory of this machine does not suffice")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("", {"only": None, "full": False, "seeds": 5, "resume": None, "record": False}),
        ("--only a --only b,c", {"only": "a,b,c"}),
        ("--full --seeds 2 --fresh", {"full": True, "seeds": 2, "resume": False}),
        ("--resume --record", {"resume": True, "record": True}),
        ("--out o --json j", {"out": Path("o"), "json": Path("j")}),
        ("--data-dir d", {"data_dir": Path("d")}),
    ],
)
def test_reproduce_passes_its_options_on(
    monkeypatch: pytest.MonkeyPatch, command: str, expected: dict[str, object]
) -> None:
    given: dict[str, object] = {}
    monkeypatch.delenv("FEATAVG_DATA", raising=False)
    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", lambda **kwargs: given.update(kwargs))
    monkeypatch.setattr("featavg.paper.report.reproduction.exit_code", lambda outcomes: 1)
    assert main(["reproduce", *command.split()]) == 1
    assert given == given | expected


def test_data_dir_has_an_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}
    monkeypatch.setenv("FEATAVG_DATA", "/somewhere")
    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", lambda **kwargs: given.update(kwargs))
    monkeypatch.setattr("featavg.paper.report.reproduction.exit_code", lambda outcomes: 0)
    assert main(["reproduce"]) == 0
    assert given["data_dir"] == Path("/somewhere")


def test_claims_as_table_and_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from featavg.paper.engine.registry import all_claims

    assert main(["claims", "--json", "--out", str(tmp_path)]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == [claim.id for claim in all_claims()]
    assert main(["claims"]) == 0
    assert f"{len(rows)} claims." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "verdict"), [('{"verdict": "holds"}', "holds"), ("{}", None), ("[]", None), ("{", None), (None, None)]
)
def test_last_verdict(tmp_path: Path, content: str | None, verdict: str | None) -> None:
    (tmp_path / "outcomes").mkdir()
    if content is not None:
        (tmp_path / "outcomes" / "no-such-claim.json").write_text(content)
    assert last_verdict("no-such-claim", tmp_path) == verdict


@pytest.mark.parametrize("name", PRESETS)
def test_presets_print_toml_that_simulate_reads(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    assert main(["presets", "--show", name]) == 0
    path = tmp_path / "setting.toml"
    path.write_text(capsys.readouterr().out)
    assert compose(config=path) == compose(name) == Setting.from_toml(path)


def test_presets_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["presets"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in PRESETS)
    assert "59049" in shown


def test_doctor(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    command = ["doctor", "--data-dir", str(tmp_path), "--out", str(tmp_path / "new" / "folder")]
    assert main(command) == 0
    assert "Ready." in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["core"]["numpy"] is not None
    # An empty folder of the right name is no data: the loader would refuse it too.
    assert report["data"] == dict.fromkeys(("mnist", "cifar10", "cifar100"), "not here")
    assert report["out_problem"] is None
    assert not (tmp_path / "new").exists()


def test_doctor_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert main(["doctor", "--out", str(tmp_path / "file" / "results")]) == 1
    assert "Not ready" in capsys.readouterr().out
    assert doctor(None, tmp_path / "file").out_problem is not None


def test_simulate_prints_and_writes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["simulate", *SMALL, "--seeds", "2"]) == 0
    shown = capsys.readouterr()
    assert "averaging index" in shown.out
    assert "k = 4, d = 100, n = 20, 2 seeds" in shown.out
    (folder,) = (tmp_path / "featavg-results" / "simulations").iterdir()
    assert f"Result: featavg-results/simulations/{folder.name}" in shown.out
    names = {"settings.toml", "numbers.json", "numbers.csv", "coarse", "fine"}
    assert {path.name for path in folder.iterdir()} == names
    rows = list(csv.DictReader((folder / "numbers.csv").read_text().splitlines()))
    assert [(row["labels"], row["seed"]) for row in rows] == [
        ("coarse", "0"),
        ("coarse", "1"),
        ("fine", "0"),
        ("fine", "1"),
    ]
    described = json.loads((folder / "numbers.json").read_text())
    assert described["about"]["featavg"] == featavg.__version__
    assert described["seeds"] == [0, 1]
    # The same command again: the same folder, the same bytes of numbers.
    before = (folder / "numbers.csv").read_bytes()
    assert main(["simulate", *SMALL, "--seeds", "2"]) == 0
    assert (folder / "numbers.csv").read_bytes() == before
    assert len(list((tmp_path / "featavg-results" / "simulations").iterdir())) == 1


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("--k 6 --positive 2", "positive", 2),
        ("--k 6 --positive 0,3", "positive", (0, 3)),
        ("--norms 5", "norms", 5.0),
        ("--k 2 --d 9 --norms 5,6", "norms", (5.0, 6.0)),
        ("--k 2 --probabilities 0.25,0.75", "probabilities", (0.25, 0.75)),
        ("--seed 3 --seed 7", "seeds", (3, 7)),
        ("--seeds 3", "seeds", (0, 1, 2)),
        ("--preset talk --d 10000", "sigma_w", 0.01),
        ("--preset theorem --k 2", "n", 128),
        ("--preset theorem --k 2", "time", 256.0),
        ("--preset theorem --k 2 --n 50", "n", 50),
        ("--config some.toml", "k", 6),
        ("--config some.toml", "sigma_w", 0.01),
        ("--config some.toml --k 8", "k", 8),
        ("--config some.toml --preset paper", "sigma_w", 1e-5),
        ("--target-loss 0.5 --n-test 7", "target_loss", 0.5),
    ],
)
def test_flags_win_over_the_file_and_the_file_over_the_preset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, field: str, value: object
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.toml").write_text('preset = "talk"\nk = 6\nd = 10000\n')
    settings: list[Setting] = []

    def stop(setting: Setting, *args: object, **kwargs: object) -> None:
        settings.append(setting)
        raise KeyboardInterrupt

    monkeypatch.setattr(simulate_run, "simulate", stop)
    assert main(["simulate", *flags.split()]) == 130
    assert getattr(settings[0], field) == pytest.approx(value)


def test_every_setting_has_a_flag() -> None:
    import inspect

    from featavg.cli.simulate import _simulate

    assert set(FIELDS) <= set(inspect.signature(_simulate).parameters)


def test_a_new_group_is_a_file_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "GROUPS", ("featavg.cli.doctor",))
    shown = CliRunner().invoke(make_app(), ["--help"]).stdout
    assert "doctor" in shown
    assert "simulate" not in shown
    assert GROUPS != ("featavg.cli.doctor",)


def test_an_error_of_our_own_is_one_sentence_and_code_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", broken)
    assert main(["reproduce"]) == 70
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "(ZeroDivisionError: division by zero): report this" in told
    for line in (["reproduce", "--debug"], ["--debug", "reproduce"]):
        assert main(line) == 70
        told = capsys.readouterr().err
        assert "Traceback" in told
        assert told.splitlines()[-1].startswith("featavg stopped by an error of its own")


def test_warnings_and_log_lines_follow_the_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import logging
    import warnings

    def talking(**kwargs: object) -> list[object]:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("a warning", RuntimeWarning, stacklevel=1)
        logger = logging.getLogger("featavg.test")
        logger.info("a note")
        logger.warning("take care")
        return []

    monkeypatch.setattr("featavg.paper.report.reproduction.reproduce", talking)
    expected = {
        "": ["warning: take care"],
        "--quiet": [],
        "-v": ["info: RuntimeWarning: a warning", "info: a note", "warning: take care"],
    }
    for option, lines in expected.items():
        assert main([*option.split(), "reproduce"]) == 0
        assert capsys.readouterr().err.splitlines() == lines


def test_shells_can_complete() -> None:
    asked = {"_FEATAVG_COMPLETE": "complete_bash", "COMP_WORDS": "featavg rep", "COMP_CWORD": "1"}
    script = "import sys; from featavg.__main__ import main; sys.exit(main([]))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ | asked
    )
    assert done.stdout.split() == ["reproduce", "report"]


def test_printed_commands_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from featavg.storage import places

    script = tmp_path / ".venv" / "bin" / "featavg"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho typed $*\n")
    script.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    command = places.typed("featavg reproduce --only lemma-1")
    assert command == ".venv/bin/featavg reproduce --only lemma-1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "typed reproduce --only lemma-1\n"
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    assert places.typed("featavg claims") == "featavg claims"


def test_claims_sees_what_reproduce_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    from featavg.paper.report.reproduction import DEFAULT_OUT

    assert f"OUT    ?= {DEFAULT_OUT}\n" in makefile
    monkeypatch.chdir(tmp_path)
    (DEFAULT_OUT / "outcomes").mkdir(parents=True)
    (DEFAULT_OUT / "outcomes" / "figure-2a-averaged.json").write_text('{"verdict": "fails"}')
    assert main(["claims", "--only", "figure-2a-averaged", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["verdict"] == "fails"


# They list, show or write one page: there is nothing else to keep.
NOTHING_TO_COMPUTE = {"claims", "report", "presets", "playground", "data", "doctor", "images presets"}


def test_every_command_that_computes_writes_where_one_says_and_for_machines() -> None:
    from tests.bad_inputs.flags import commands

    computing = [each for each in commands() if each.name not in NOTHING_TO_COMPUTE]
    assert len(computing) >= 6
    for each in computing:
        names = {flag.name.lstrip("-") for flag in each.flags}
        assert {"out", "json"} <= names, each.name


@pytest.mark.parametrize(
    ("command", "key"),
    [
        (["simulate", "--out", "run", *SMALL], "runs"),
        (["reproduce", "--only", "lemma-12", "--seeds", "1", "--out", "page"], "outcomes"),
    ],
    ids=["simulate", "reproduce"],
)
def test_a_dash_is_standard_output_and_the_json_stands_there_alone(
    command: list[str], key: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, "--json", "all.json"]) == 0
    text = capsys.readouterr().out
    assert main([*command, "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)[key]
    assert not (tmp_path / "-").exists()
    words = [line for line in text.splitlines() if line and "Everything" not in line]
    assert words[-1] in shown.err, "what people read goes to standard error"


def test_what_is_done_is_said_on_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["-v", "-v", "simulate", *SMALL, "--json", "all.json"]) == 0
    assert "debug: wrote all.json" in capsys.readouterr().err
    assert json.loads((tmp_path / "all.json").read_text())["runs"]


def test_training_and_the_audit_log_through_the_standard_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["simulate", *SMALL, "--labels=coarse"]
    for flag in ("--verbose", "-v"):
        assert main([*line, "--out", str(tmp_path / f"a{flag}"), flag]) == 0
        assert "info: trained with gd for 2 steps to log10 loss" in capsys.readouterr().err
    for i, flags in enumerate(([], ["--quiet"], ["-q"])):
        assert main([*line, "--out", str(tmp_path / f"b{i}"), *flags]) == 0
        assert "trained with" not in capsys.readouterr().err
