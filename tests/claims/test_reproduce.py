"""Runs: the files they leave, how they resume, and how they refuse."""

import io
import json
import os
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.claims.synthetic import BROKEN, CLAIMS, claim

from featavg.errors import InputError
from featavg.paper.engine import store, terminal
from featavg.paper.engine.claim import Check, Context, Evidence, NotRun, Verdict
from featavg.paper.engine.registry import find_claims
from featavg.paper.engine.result import judge
from featavg.paper.engine.run import run_claims
from featavg.paper.report.reproduction import exit_code, rebuild, reproduce
from featavg.storage.places import typed
from featavg.storage.provenance import commit, provenance


class Counting:
    """A program that counts how often it was run."""

    def __init__(self):
        self.runs = 0

    def __call__(self, settings):
        self.runs += 1
        settings.progress(0.5, "working")
        return Evidence(Check("seeds", len(settings.seeds), ">=", 1))


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder of recorded results in place of the package's."""
    folder = tmp_path / "results"
    monkeypatch.setattr(store, "RESULTS", folder)
    return folder


def run(tmp_path, *claims, **options):
    return reproduce(claims=claims, out=tmp_path / "out", quiet=True, **options)


def test_a_run_leaves_a_report_figures_and_json(tmp_path, results, capsys):
    file = tmp_path / "all.json"
    found = reproduce(claims=(*CLAIMS, BROKEN), out=tmp_path / "out", json=file, seeds=2)
    said = capsys.readouterr()
    assert exit_code(found) == 1
    assert exit_code(found[:-1]) == 0
    assert "6 claims: 1 holds, 1 holds in part, 1 fails, 3 not run" in said.out
    assert str(tmp_path / "out" / "report.html") in said.out
    assert "[1/5]" in said.err  # no terminal: plain lines
    names = {path.name for path in (tmp_path / "out" / "figures").iterdir()}
    kinds = {name.rpartition(".")[2] for name in names if name.startswith("lemma-5-balance--radii.")}
    assert kinds == {"svg", "png", "csv"}  # PDFs if asked for
    read = json.loads(file.read_text(), parse_constant=pytest.fail)
    assert [o["verdict"] for o in read["outcomes"]] == [o.verdict.value for o in found]
    assert read["outcomes"][2]["evidence"]["checks"][0]["measured"] == "nan"
    assert not [p for p in tmp_path.rglob("*") if p.name.endswith(".tmp")]


@pytest.mark.parametrize(
    ("first", "second", "runs"),
    [
        ({"full": True}, {"full": True}, 1),
        ({"full": True}, {"full": True, "seeds": 2}, 2),
        ({"full": True}, {"full": True, "resume": False}, 2),
        ({}, {}, 2),
        ({}, {"resume": True}, 1),
        ({}, {"full": True}, 2),
    ],
)
def test_what_is_taken_over_from_an_earlier_run(tmp_path, results, first, second, runs):
    program = Counting()
    one = claim("counted", program)
    run(tmp_path, one, **first)
    found = run(tmp_path, one, **second)
    assert program.runs == runs
    assert found[0].verdict is Verdict.HOLDS


def test_a_changed_source_runs_anew(tmp_path, results, monkeypatch):
    program = Counting()
    run(tmp_path, claim("counted", program), full=True)
    monkeypatch.setattr(store, "source_hash", lambda module: "another")
    run(tmp_path, claim("counted", program), full=True)
    assert program.runs == 2


def test_a_killed_run_goes_on_where_it_stopped(tmp_path, results):
    program = Counting()

    def killed(settings):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, claim("a", program), claim("b", killed), full=True)
    found = run(tmp_path, claim("a", program), claim("b", program), full=True)
    assert program.runs == 2
    assert [o.verdict.value for o in found] == ["holds", "holds"]


def test_side_by_side_claims_come_out_the_same(tmp_path):
    chosen, settings = find_claims(["lemma-12-epsilon", "remark-attack"]), Context(seeds=(0,))
    alone = run_claims(chosen, settings, tmp_path / "one", {}, False, True, workers=1)
    both = run_claims(chosen, settings, tmp_path / "two", {}, False, True, workers=2)
    for each, one, two in zip(chosen, alone, both, strict=True):
        assert one.id == two.id
        measured = [check.measured for check in one.evidence.checks]
        assert [check.measured for check in two.evidence.checks] == pytest.approx(measured)
        assert store.kept(tmp_path / "two", each, settings) is not None


def test_a_process_that_dies_is_one_sentence(tmp_path, results):
    def dies(settings):
        os._exit(1)

    with pytest.raises(InputError, match="workers lost a process"):
        run(tmp_path, claim("a", dies), claim("b", dies), workers=2)


def test_a_worker_counts_on_one_core(tmp_path, results):
    def count(settings):
        from featavg.machine import cores

        return Evidence(Check("cores", cores(), "<=", 1))

    found = run(tmp_path, claim("a", count), claim("b", count), workers=2)
    assert [result.verdict for result in found] == [Verdict.HOLDS] * 2


def test_claims_that_share_runs_are_run_in_one_process(tmp_path, results):
    def process(settings):
        return Evidence(Check("process", os.getpid(), ">=", 0))

    chosen = [replace(claim(name, process), shares="runs") for name in "abc"]
    found = run(tmp_path, *chosen, claim("d", process), workers=2)
    assert [result.id for result in found] == ["a", "b", "c", "d"]
    assert len({result.evidence.main.measured for result in found[:3]}) == 1


def test_a_damaged_outcome_is_run_again(tmp_path, results):
    program = Counting()
    run(tmp_path, claim("counted", program), full=True)
    (tmp_path / "out" / "outcomes" / "counted.json").write_text('{"key": "half')
    run(tmp_path, claim("counted", program), full=True)
    assert program.runs == 2


def test_full_tier_is_recorded_and_shown_in_quick_runs(tmp_path, results):
    program = Counting()
    one = claim("slow", program, tier="full", minutes=120)
    before = run(tmp_path, one)[0]
    assert before.verdict is Verdict.NOT_RUN
    # As it can be typed here: `featavg` is on the path of some environments only.
    command = typed("featavg reproduce --only slow --full")
    assert f"about 2 h 0 min: run `{command}`" in before.reason
    run(tmp_path, one, full=True, record=True)
    assert [p.name for p in results.iterdir()] == ["slow.json"]
    after = run(tmp_path, one)[0]
    assert (after.verdict, after.recorded, program.runs) == (Verdict.HOLDS, True, 1)
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"recorded on {after.when[:10]}, version {after.version}" in page


def test_a_claim_that_cannot_run_here_shows_its_recorded_result(tmp_path, results):
    store.record_result(judge(claim("slow", Counting(), tier="full"), Context()), results)
    here = replace(CLAIMS[3], id="slow", tier="full")
    found = run(tmp_path, here, full=True)[0]
    assert found.recorded
    assert found.reason.startswith("Not run here: MNIST is not here")


def test_a_damaged_recorded_result_is_named(tmp_path, results):
    results.mkdir()
    (results / "slow.json").write_text("{}")
    with pytest.raises(InputError, match=r"slow\.json is damaged"):
        run(tmp_path, claim("slow", Counting(), tier="full"))


def test_nothing_to_record_is_refused(results):
    with pytest.raises(InputError, match="nothing for figure-3-mnist"):
        store.record_result(judge(CLAIMS[3], Context()))


def a_file(tmp_path):
    (tmp_path / "file").write_text("mine")
    return tmp_path / "file"


def not_a_disk(tmp_path):
    if not Path("/proc/self").exists():
        pytest.skip("no /proc to be refused by")
    return Path("/proc/featavg")  # refuses even root


def full_disk(tmp_path):
    return tmp_path / "full"


@pytest.mark.parametrize("folder", [a_file, not_a_disk, full_disk])
@pytest.mark.parametrize("argument", ["out", "json"])
def test_an_unusable_folder_is_told_before_work_starts(tmp_path, results, monkeypatch, folder, argument):
    place = folder(tmp_path)
    program = Counting()
    if folder is full_disk:
        monkeypatch.setattr(tempfile, "TemporaryFile", no_space)
    options = {"out": tmp_path / "out"} | {argument: place if argument == "out" else place / "a"}
    with pytest.raises(InputError, match=r"cannot be written|full disk|is a file") as caught:
        reproduce(claims=(claim("counted", program),), quiet=True, **options)
    assert program.runs == 0
    assert folder is full_disk or str(caught.value).startswith(argument)
    assert not (tmp_path / "file").exists() or (tmp_path / "file").read_text() == "mine"


def no_space(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("seeds", [0, -1])
def test_seeds_are_checked(tmp_path, seeds):
    with pytest.raises(InputError, match="seeds is"):
        run(tmp_path, CLAIMS[0], seeds=seeds)


def test_provenance_never_locks_the_work_tree(monkeypatch):
    commands = []

    def run_nothing(command, **options):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0, "abc\n", "")

    monkeypatch.setattr(subprocess, "run", run_nothing)
    assert provenance()["commit"] == "abc with uncommitted changes"
    assert commands
    assert all(command[:2] == ["git", "--no-optional-locks"] for command in commands)


def test_a_recorded_result_is_no_change_of_the_source(tmp_path):
    def git(*arguments):
        name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True, timeout=600)

    (tmp_path / "__init__.py").write_text("")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    clean = commit(tmp_path)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "theorem.json").write_text("{}")
    assert commit(tmp_path) == clean
    (tmp_path / "__init__.py").write_text("changed = True")
    assert commit(tmp_path) == f"{clean} with uncommitted changes"


class Screen(io.StringIO):
    """A terminal that remembers."""

    def isatty(self):
        return True


def test_the_bar_of_a_terminal_shows_the_time_left():
    screen = Screen()
    with terminal.Watch(CLAIMS, screen) as watch:
        for claim in CLAIMS:
            watch.update(claim, 0.5, "half")
            watch.finish(judge(claim, Context()))
    assert "left" in screen.getvalue()
    assert "[5/5]" in screen.getvalue()


def test_without_a_terminal_every_verdict_is_a_line():
    log = io.StringIO()
    with terminal.Watch(CLAIMS, log) as watch:
        for claim in CLAIMS:
            watch.finish(judge(claim, Context()))
    lines = log.getvalue().splitlines()
    assert len(lines) == len(CLAIMS)
    assert lines[0].startswith(f"[1/{len(CLAIMS)}] ✓ {CLAIMS[0].id}: holds")


def test_a_result_depends_on_what_its_module_imports_and_on_nothing_else(tmp_path):
    def hashed():
        store.source_hash.cache_clear()
        store._imported.cache_clear()
        return store.source_hash("featavg.paper.toy", tmp_path)

    files = {
        "paper/toy.py": "def f():\n    from featavg.nets.deep import Deep\n",
        "nets/deep.py": "from featavg.errors import InputError",
        "errors.py": "",
        "paper/report.py": "from featavg.paper.toy import f",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    before, changed = hashed(), set()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\nx = 2")
        if hashed() != before:
            changed.add(name)
        (tmp_path / name).write_text(text)
    assert changed == {"paper/toy.py", "nets/deep.py", "errors.py"}


def test_a_result_of_kept_parts_says_what_they_cost(tmp_path, monkeypatch):
    from featavg.storage.cache import kept_values

    times = iter([0.0, 3600.0])
    monkeypatch.setattr("featavg.storage.cache.perf_counter", lambda: next(times))

    def run(settings):
        kept_values(tmp_path / "part.json", "key", lambda: {"a": 1})
        return Evidence(Check("c", 0, "<=", 1))

    assert judge(claim("a", run), Context()).seconds < 60
    assert 3600 <= judge(claim("a", run), Context()).seconds < 3660


def without_figures(program):
    return lambda settings: replace(program(settings), figures=())


# Drawing takes seconds, and is tested elsewhere.
WITHOUT_FIGURES = tuple(replace(one, run=without_figures(one.run)) for one in CLAIMS)


def test_the_report_is_rebuilt_without_running(tmp_path, monkeypatch):
    monkeypatch.setattr("featavg.paper.engine.registry.all_claims", lambda: WITHOUT_FIGURES)
    first = reproduce(out=tmp_path, quiet=True)
    before = (tmp_path / "report.html").read_text()
    (tmp_path / "report.html").unlink()
    monkeypatch.setattr("featavg.paper.engine.result.judge", pytest.fail)
    again = rebuild(tmp_path, quiet=True)
    assert [(r.id, r.verdict) for r in again] == [(r.id, r.verdict) for r in first]
    after = (tmp_path / "report.html").read_text()
    assert after.count('<details class="claim') == before.count('<details class="claim') == 5
    assert "MNIST is not here" in after
    with pytest.raises(InputError, match="holds no results"):
        rebuild(tmp_path / "nothing")


def test_slides_have_a_page_for_every_figure_and_pdfs_are_written_if_asked_for(tmp_path, monkeypatch):
    results = reproduce(only=CLAIMS[0].id, claims=CLAIMS, out=tmp_path, quiet=True)
    figures = sum(len(result.evidence.figures) for result in results)
    monkeypatch.setattr("featavg.paper.engine.registry.all_claims", lambda: CLAIMS)
    rebuild(tmp_path, slides=True, pdf=True, quiet=True)
    assert len(list((tmp_path / "figures").glob("*.pdf"))) == figures
    slides = (tmp_path / "slides.pdf").read_bytes()
    assert slides.startswith(b"%PDF")
    assert figures == slides.count(b"/Type /Page ") > 0


def test_a_report_of_some_claims_is_rebuilt_with_these(tmp_path, monkeypatch):
    monkeypatch.setattr("featavg.paper.engine.registry.all_claims", lambda: WITHOUT_FIGURES)
    first = reproduce(only=CLAIMS[0].id, out=tmp_path, quiet=True)
    assert [r.id for r in rebuild(tmp_path, quiet=True)] == [r.id for r in first]
    assert len(rebuild(tmp_path, only=[c.id for c in CLAIMS], quiet=True)) == len(CLAIMS)


def test_a_claim_that_was_not_run_is_tried_again(tmp_path):
    found = []

    def run_once(settings):
        if not found:
            raise NotRun("No data here.")
        return Evidence(Check("c", 0, "<=", 1))

    waiting = claim("waiting", run_once)
    assert run(tmp_path, waiting, resume=True)[0].verdict is Verdict.NOT_RUN
    found.append("data")
    assert run(tmp_path, waiting, resume=True)[0].verdict is Verdict.HOLDS


def test_the_terminal_says_why_a_claim_was_not_run(capsys):
    old = replace(judge(CLAIMS[0], Context()), recorded=True, reason="Not run here: no data.")
    terminal.show_results([old, judge(CLAIMS[3], Context())])
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{CLAIMS[0].id}: Not run here: no data." in shown
    assert "MNIST is not here" in shown
