"""Sweeps: plans, engines that agree to the bit, a store that survives, and what is refused."""

import contextlib
import logging
import os
import socket
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pandas
import pytest
from tests.sweep.kills import campaign

import featavg as fa
from featavg.errors import InputError
from featavg.simulate.sweep import run as run_module
from featavg.simulate.sweep.measures import MEASURES
from featavg.simulate.sweep.plan import Plan, SweepAxis
from featavg.simulate.sweep.run import Serial, _local_client, engine_named
from featavg.simulate.sweep.store import VERSION, RunIndex
from featavg.simulate.sweep.table import write_sweep
from featavg.simulate.sweep.work import Job, described, failed_rows, work
from featavg.storage.cache import counting_saved

SMALL = {"k": 4, "d": 60, "n": 16, "steps": 10, "lr": 5e-3}
VARY = {"cosine": [0.0, 0.4], "sigma": [0.5, 1.0]}


def small(store, **changes):
    given = {"vary": VARY, "engine": "serial", "measures": "index,loss", "seeds": 2} | changes
    vary = given.pop("vary")
    return fa.sweep(vary, store, **(SMALL | given))


def same(first, second):
    names = [name for name in first.columns if name != "seconds"]
    return names == [n for n in second.columns if n != "seconds"] and all(
        np.array_equal(first.columns[n], second.columns[n], equal_nan=first.columns[n].dtype.kind == "f") for n in names
    )


class Counting(Serial):
    """The serial engine, counting what it is asked for."""

    def __init__(self, most=10**9):
        self.jobs, self.most = [], most

    def run(self, jobs):
        for job in jobs[: self.most]:
            self.jobs.append(job)
            yield work(job)
        if len(jobs) > self.most:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("cosine=0:0.9:4", (0.0, 0.3, 0.6, 0.9)),
        ("k=2,4,10", (2, 4, 10)),
        ("d=1e2:1e4:3:log", (100, 1000, 10000)),
        ("stepper=gd,momentum", ("gd", "momentum")),
        ("sigma-w=1e-5:1e-5:1", (1e-5,)),
    ],
)
def test_an_axis_is_written_as_text(text, values):
    assert SweepAxis.parse(text).values == values


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cosin=0:1:3", "cosine"),
        ("cosine", "field=a,b,c"),
        ("cosine=1:0:3", "smaller end"),
        ("cosine=0:1:0", "1 to 10^6"),
        ("cosine=0:1:3:lin", "log"),
        ("cosine=0:1:3:log", "above zero"),
        ("cosine=a:b:3", "numbers"),
        ("seeds=1,2", "--seeds"),
    ],
)
def test_a_wrong_axis_is_answered_by_one_sentence(text, part):
    with pytest.raises(InputError, match="vary") as refused:
        SweepAxis.parse(text)
    assert part in str(refused.value)


@pytest.mark.parametrize("way", ["random", "sobol"])
def test_random_points_stay_between_the_ends_and_repeat(way):
    axes = (SweepAxis("cosine", (0.0, 0.8)), SweepAxis("d", (100, 10**6), log=True))
    plan = Plan({}, axes, way=way, samples=6)
    points = list(plan.points())
    assert points == list(plan.points())
    assert len(points) == len(plan) == 6
    assert all(0 <= p["cosine"] <= 0.8 and 100 <= p["d"] <= 10**6 for p in points)
    assert len({p["d"] for p in points}) == 6


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_the_table_is_the_same_to_the_bit_whatever_the_engine(tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed")
    serial = small(tmp_path / "serial")
    assert same(serial, small(tmp_path / engine, engine=engine, workers=2))


def test_a_seed_alone_is_the_seed_in_company(tmp_path):
    together = small(tmp_path / "a", seeds=3, measures="index,loss,radii")
    alone = small(tmp_path / "b", seeds=[2], measures="index,loss,radii")
    for name in together.measured:
        assert np.array_equal(together.cells(name)[:, 2], alone.cells(name)[:, 0])


def test_what_is_known_is_not_computed_again(tmp_path):
    whole = small(tmp_path / "whole")
    first = Counting()
    small(tmp_path / "grown", vary={"cosine": [0.0], "sigma": [0.5, 1.0]}, engine=first)
    second = Counting()
    grown = small(tmp_path / "grown", engine=second)
    assert (len(first.jobs), len(second.jobs)) == (2, 2)
    assert same(whole, grown)
    third = Counting()
    small(tmp_path / "grown", engine=third, measures="index,loss,accuracy", seeds=3)
    # New measures of known seeds and all measures of the new seed, and nothing else.
    assert {(job.seeds, job.measures) for job in third.jobs} == {
        ((0, 1), ("accuracy",)),
        ((2,), ("index", "loss", "accuracy")),
    }


def test_what_was_found_done_still_cost_its_seconds(tmp_path):
    with counting_saved() as first:
        table = small(tmp_path)
    with counting_saved() as again:
        small(tmp_path)
    assert sum(first) == 0
    assert sum(again) == pytest.approx(table.columns["seconds"].sum())


def test_an_interrupted_sweep_keeps_what_it_has(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        small(tmp_path, engine=Counting(most=3))
    rest = Counting()
    assert same(small(tmp_path, engine=rest), small(tmp_path / "other"))
    assert len(rest.jobs) == 1


def test_a_killed_sweep_goes_on_to_the_same_table():
    """A driver and a worker; `python -m tests.sweep.kills 30` kills Dask's parts too."""
    assert campaign(2, seed=1, kinds=("driver", "worker"), settings=24) == []


def test_the_index_is_readable_while_it_is_written(tmp_path):
    counts = []

    class Watched(Serial):
        def run(self, jobs):
            for rows in super().run(jobs):
                yield rows
                with sqlite3.connect(f"file:{tmp_path}/runs.sqlite?mode=ro", uri=True) as base:
                    [(count,)] = base.execute("SELECT count(*) FROM runs")
                counts.append(count)

    small(tmp_path, engine=Watched())
    # Two seeds and two measures: every job is there as soon as it is done.
    assert counts == [4, 8, 12, 16]


def test_arrays_are_files_beside_the_index(tmp_path):
    table = small(tmp_path, measures="cosines,coefficients,curve,loss")
    matrices = table.array("cosine_matrix_fine")
    assert len(matrices) == len(table) == 8
    assert [float(np.diag(m).mean()) for m in matrices] == pytest.approx(table.columns["own_cosine_fine"].tolist())
    curve = table.array("curve_coarse")[0]
    assert (np.diff(curve) >= 0).all()
    assert curve.mean() == pytest.approx(table.columns["mean_radius_coarse"][0])
    assert table.array("coefficients_coarse")[0].shape == (4, 4)
    with pytest.raises(InputError, match="cosine_matrix_coarse"):
        table.array("cosine_matrix")
    again = small(tmp_path, measures="cosines", engine=Counting())
    assert np.array_equal(again.array("cosine_matrix_fine"), matrices)
    for path in tmp_path.glob("arrays/*/*.safetensors"):
        path.write_bytes(b"no tensors")
    with pytest.raises(InputError, match="damaged"):
        table.array("cosine_matrix_fine")


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.6\r\n" * 10])
def test_a_port_without_a_scheduler_is_told_apart(tmp_path, greeting):
    """Something accepts and says nothing, or speaks another language: Dask alone waits for ever."""
    pytest.importorskip("distributed")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted, heard = [], threading.Event()

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])
                    heard.set()
                    accepted[-1].sendall(greeting)

        threading.Thread(target=answer, daemon=True).start()
        engine = engine_named(f"dask://127.0.0.1:{listener.getsockname()[1]}")
        engine.patience = 0.5
        with pytest.raises(InputError, match="finds no scheduler"):
            small(tmp_path / "store", engine=engine)
        assert heard.wait(600)
        for connection in accepted:
            connection.close()
        listener.shutdown(socket.SHUT_RDWR)


def test_the_local_dask_engine_is_open_to_nobody(tmp_path):
    distributed = pytest.importorskip("distributed")
    with _local_client(distributed, 2) as client:
        assert client.scheduler.address.startswith("inproc://")
        servers = [client.cluster.scheduler, *client.cluster.workers.values()]
        assert len(servers) == 3
        for server in servers:
            host, port, *_ = next(iter(server.http_server._sockets.values())).getsockname()
            assert host == "127.0.0.1"
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/health")
    # What its last threads say, now or when Python ends, is not shown.
    for part in ("batched", "client", "core", "gc", "scheduler", "worker"):
        assert not logging.getLogger(f"distributed.{part}").isEnabledFor(logging.ERROR)


def test_the_local_dask_engine_needs_no_main_guard(tmp_path):
    """It starts no process, so nothing imports the script again."""
    pytest.importorskip("distributed")
    script = tmp_path / "no_main_guard.py"
    script.write_text(
        "import featavg as fa\n"
        f"print(len(fa.sweep({VARY}, 'store', measures='loss', seeds=1, engine='dask', **{SMALL})))"
    )
    here = os.environ | {"PYTHONPATH": str(Path(fa.__file__).parents[1])}
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, check=True, env=here)
    assert done.stdout.split() == [b"4"]


class Client:
    """A Dask client as far as the engine looks at it."""

    def __init__(self, versions=(), workers=True):
        self.versions, self.workers = versions, workers

    def wait_for_workers(self, count, timeout):
        if not self.workers:
            raise TimeoutError

    def run(self, function):
        return dict(enumerate(self.versions))


def test_a_cluster_that_does_not_fit_is_refused():
    engine = engine_named("dask")
    with pytest.raises(InputError, match=r"0\.0\.1"):
        engine._check_workers(Client([fa.__version__, "0.0.1"]))
    engine._check_workers(Client([fa.__version__]))
    with pytest.raises(InputError, match="no workers"):
        engine._check_workers(Client(workers=False))


def test_a_run_that_no_worker_survives_is_a_row(tmp_path):
    class Deadly(Serial):
        def run(self, jobs):
            for job in jobs:
                yield failed_rows(job, "The run broke: every worker that tried it was lost.")

    table = small(tmp_path, engine=Deadly())
    assert (table.columns["error"] != "").all()
    assert len(small(tmp_path)) == 8


def test_a_broken_run_is_a_row_and_is_tried_again(tmp_path, monkeypatch):
    honest = MEASURES["loss"].function

    def broken(run):
        if run.setting.cosine > 0:
            raise InputError("cosine", "is not liked", "choose another")
        return honest(run)

    measure = type(MEASURES["loss"])("loss", "", 1, broken)
    monkeypatch.setitem(MEASURES, "loss", measure)
    table = small(tmp_path, measures="loss")
    failed = table.columns["error"] != ""
    assert failed.sum() == 4
    assert np.isnan(table.columns["log10_loss_coarse"][failed]).all()
    assert "not liked" in table.columns["error"][failed][0]
    monkeypatch.setitem(MEASURES, "loss", type(measure)("loss", "", 1, honest))
    again = Counting()
    assert not (small(tmp_path, measures="loss", engine=again).columns["error"] != "").any()
    assert len(again.jobs) == 2


def test_workers_of_another_version_are_refused():
    job = Job(described(fa.Setting(**SMALL)), (0,), ("loss",), "0.0.0")
    with pytest.raises(InputError, match=r"0\.0\.0"):
        work(job)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"vary": {"cosine": []}}, "without values"),
        ({"vary": {}}, "vary"),
        ({"vary": {"k": [4]}}, "given and varied"),
        ({"vary": ["cosine=0,1", "cosine=2"]}, "twice"),
        ({"vary": {"cosine": [0.0, 7.0]}}, "cosine"),
        ({"measures": "speed"}, "choose one of index"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [-1]}, "seeds"),
        ({"engine": "cloud"}, "dask"),
        ({"engine": "dask://127.0.0.1:9"}, "scheduler"),
        ({"way": "random"}, "samples"),
        ({"vary": {"n_test": range(1, 10**6)}, "seeds": 1}, "--yes"),
        ({"vary": ["n_test=1:1000:1000", "sigma=0.1:1:1000", "alpha=0.1:1:1000"]}, "1,000,000,000 settings"),
        ({"colour": 3}, "names no field"),
    ],
)
def test_bad_sweeps_are_refused_before_anything_is_written(tmp_path, changes, part):
    if "127.0.0.1" in str(changes.get("engine")):
        pytest.importorskip("distributed")
        changes = changes | {"engine": engine_named(changes["engine"])}
        changes["engine"].patience = 0.5
    with pytest.raises(InputError) as refused:
        small(tmp_path / "store", **changes)
    assert part in str(refused.value)


def test_a_store_that_is_not_ours_is_left_alone(tmp_path):
    path = tmp_path / "runs.sqlite"
    with RunIndex(path):
        pass
    with sqlite3.connect(path) as base:
        base.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(InputError, match="version"):
        small(tmp_path)
    path.unlink()
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE mine (a)")
    with pytest.raises(InputError, match="another program"):
        small(tmp_path)
    path.unlink()
    path.write_bytes(b"not a database" * 1000)
    before = path.read_bytes()
    with pytest.raises(InputError, match="damaged"):
        small(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        """"values" = '{'""",
        """"values" = '[1]'""",
        """"values" = '{"a": "b"}'""",
        """"values" = '{"a": [1]}'""",
        """"values" = '{"a": 1e999}'""",
        """"values" = x'ff'""",
        "seconds = 'x'",
        "seed = 'x'",
        "setting = '{}'",
        "measure = 5",
    ],
)
def test_a_damaged_row_of_the_index_is_named(tmp_path, change):
    one = {"cosine": [0.0]}
    small(tmp_path, vary=one, measures="loss", seeds=1)
    with contextlib.closing(sqlite3.connect(tmp_path / "runs.sqlite")) as base, base:
        base.execute(f"UPDATE runs SET {change}")
    with pytest.raises(InputError, match="is damaged"):
        small(tmp_path, vary=one, measures="loss", seeds=1)


def test_a_locked_store_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("sqlite3.connect", lambda *a, _real=sqlite3.connect, **k: _real(*a, **(k | {"timeout": 0.1})))
    small(tmp_path)
    holder = sqlite3.connect(tmp_path / "runs.sqlite")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(InputError, match="locked"):
        small(tmp_path)
    holder.close()


def test_a_toy_measure_is_one_function(tmp_path, monkeypatch):
    toy = type(MEASURES["loss"])("toy", "the seed", 1, lambda run: {"seed_squared": run.seed**2})
    monkeypatch.setitem(MEASURES, "toy", toy)
    assert small(tmp_path, measures="toy").cells("seed_squared").tolist() == [[0.0, 1.0]] * 4


def test_figures_and_files(tmp_path):
    table = small(tmp_path, measures="loss", labels="coarse")
    page = write_sweep(table, tmp_path / "page", "featavg sweep --vary <b>")
    text = page.read_text()
    assert "&lt;b&gt;" in text
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    lines = (tmp_path / "page" / "table.csv").read_text().splitlines()
    assert len(lines) == 9
    assert lines[0].startswith("cosine,sigma,seed,log10_loss_coarse")
    assert table.figure("log10_loss_coarse").panels[0].rows == ("0.4", "0")
    line = small(tmp_path, vary={"cosine": [0.0, 0.4]}, measures="radii").figure("radius_coarse")
    assert [series.label for series in line.panels[0].series] == ["radius_coarse", "√(d(1−c)/k)"]


def test_the_table_is_a_data_frame(tmp_path):
    table = small(tmp_path)
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.shape == (8, len(table.columns))
    labelled = table.to_xarray()["index_coarse"]
    assert labelled.dims == ("cosine", "sigma", "seed")
    cell = labelled.sel(cosine=0.4, sigma=0.5, seed=1).item()
    row = frame.query("cosine == 0.4 and sigma == 0.5 and seed == 1")
    assert cell == row["index_coarse"].item()
    drawn = small(tmp_path, vary=["cosine=0:0.4:2"], way="random", samples=3).to_xarray()
    assert drawn["index_coarse"].dims == ("point", "seed")
    pytest.importorskip("pyarrow")
    kept = pandas.read_parquet(table.to_parquet(tmp_path / "table.parquet"))
    assert kept["index_coarse"].tolist() == frame["index_coarse"].tolist()


def test_the_command_writes_the_page(tmp_path, capsys):
    from featavg.__main__ import main

    store = str(tmp_path / "s")
    given = ["sweep", "--vary", "cosine=0,0.4", "--set", "k=4", "--set", "d=60", "--set", "n=16"]
    options = ["--set", "steps=5", "--measure", "loss", "--seeds", "1", "--engine", "serial"]
    assert main([*given, *options, "--out", store]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert os.path.exists(f"{store}/sweep.html")
    assert main([*given, "--vary", "cosin=1", "--out", store]) == 2
    assert "did you mean cosine" in capsys.readouterr().err
    assert run_module.MANY > 1000
