"""Progress: on a terminal, in a notebook, in a log, and not at all."""

import io
import logging
import sys
import types

import numpy as np
import pytest

import featavg as fa
from featavg.boundary.public import public
from featavg.paper.engine.remembered import remembered
from featavg.progress import Progress, ProgressBar, part, silent


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("featavg.progress.monotonic", lambda: now[0])
    return now


def work(bar, clock, seconds=21, per_second=0.01):
    for second in range(seconds):
        clock[0] = float(second)
        bar(second * per_second, "seed [0]")


def test_a_log_gets_a_line_every_few_seconds(clock):
    log = io.StringIO()
    with ProgressBar(stream=log) as bar:
        work(bar, clock)
    lines = log.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == " 20%  about 1 min 20 s left  seed [0]"


def test_a_terminal_gets_a_bar_and_nothing_before_two_seconds(clock):
    screen = Screen()
    with ProgressBar(stream=screen) as bar:
        work(bar, clock, seconds=2)
        assert screen.getvalue() == ""
        work(bar, clock)
    assert "about 1 min 20 s left  seed [0]" in screen.getvalue()


def test_a_notebook_gets_one_output_that_changes(clock, monkeypatch):
    shown = []

    class Handle:
        def update(self, content, raw):
            assert raw
            shown.append(content)

    def display(content, raw, display_id):
        assert raw is display_id is True
        shown.append(content)
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: shell
    ipython.display = types.ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    log = io.StringIO()
    with ProgressBar(stream=log) as bar:
        work(bar, clock)
    assert log.getvalue() == ""
    assert 'value="0.2000"' in shown[-2]["text/html"]
    assert shown[-1] == {"text/plain": "", "text/html": ""}


def test_a_resumed_run_extrapolates_from_where_it_began(clock):
    log = io.StringIO()
    bar = ProgressBar(stream=log)
    bar(0.9, "resumed")
    clock[0] = 10.0
    bar(0.95, "half of the rest")
    assert "about 10 s left" in log.getvalue()


def test_an_expected_time_steadies_the_first_seconds(clock):
    bar = ProgressBar(expected=100.0, patience=0.0, stream=io.StringIO())
    # Nothing done after one second: the estimate is near what was expected, not infinite.
    assert bar.seconds_left(0.0, 1.0) == pytest.approx(110.0)
    # Twice as slow as expected, half-way.
    assert bar.seconds_left(0.5, 100.0) == pytest.approx(91.67, abs=0.01)


def test_quiet_is_quiet_and_follows_the_logger(clock, monkeypatch):
    log = io.StringIO()
    work(ProgressBar(stream=log, quiet=True), clock)
    clock[0] = 0.0
    logger = logging.getLogger("featavg")
    monkeypatch.setattr(logger, "level", logging.ERROR)
    logger.manager._clear_cache()
    work(ProgressBar(stream=log), clock)
    assert log.getvalue() == ""


def test_a_part_is_mapped_into_the_whole_and_nobody_may_watch():
    seen = []
    part(lambda share, note: seen.append((share, note)), 0.25, 0.75)(0.5, "x")
    assert seen == [(0.5, "x")]
    assert part(None, 0.0, 1.0) is silent


def test_an_absurd_size_is_announced_once_by_the_speed_of_its_first_seconds(clock):
    for screen in (io.StringIO(), Screen()):
        with ProgressBar(stream=screen) as bar:
            work(bar, clock, per_second=1e-6)
        told = screen.getvalue()
        assert told.count("This takes about 12 days at this speed; Ctrl-C stops it.") == 1


def test_what_was_estimated_or_is_short_is_not_announced(clock):
    for bar in (ProgressBar(stream=io.StringIO(), expected=1e6), ProgressBar(stream=io.StringIO())):
        work(bar, clock, per_second=1e-6 if bar.expected else 0.01)
        assert "This takes" not in bar.stream.getvalue()


def slow(count: int, progress: Progress | None = None) -> bool:
    return progress is not None


def test_python_calls_show_a_bar_where_somebody_watches_and_said_nothing(monkeypatch):
    watched = public(slow)
    assert not watched(3)
    monkeypatch.setattr(sys, "stderr", Screen())
    assert watched(3)
    assert not watched(3, None)
    assert not watched(3, progress=None)


WATCHED = {
    "shared_gradient": {
        "gradients": np.random.default_rng(0).normal(size=(40, 6)),
        "fine": np.arange(40) % 4,
        "groups": np.array([0, 0, 1, 1]),
    }
}


@pytest.mark.parametrize("name", WATCHED)
def test_long_calls_say_how_far_they_are(name):
    shares = []
    getattr(fa, name)(**WATCHED[name], progress=lambda share, note: shares.append(share))
    assert shares
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0


def test_whoever_watches_gets_the_result_that_was_computed():
    computed = []

    @remembered
    def function(k: int = 3, progress: Progress = silent) -> int:
        computed.append(k)
        return k

    assert [function(), function(3), function(k=3, progress=lambda share, note: None)] == [3] * 3
    assert function(4) == 4
    assert computed == [3, 4]
    function.cache_clear()
    function()
    assert computed == [3, 4, 3]
