"""Depth: what the experiments compute on made-up tables, and when the claims hold."""

import numpy as np
import pytest
import xarray as xr

from featavg.errors import InputError
from featavg.paper.engine.check import CheckStatus
from featavg.paper.engine.claim import Context, Verdict
from featavg.paper.questions import depth, depth_inner, depth_margin
from featavg.paper.questions.depth_inner import probe_accuracy, selectivity
from featavg.paper.questions.depth_networks import Architecture, learned, networks

SEEDS = (0, 1)
LABELS = np.array([1, 1, -1, -1])


def made_up(shapes, index=0.95, own=0.45, radius=1.0):
    """As `learned` returns it, the same numbers for every network."""
    values = {"accuracy": 1.0, "index": index, "own": own, "loss": 0.1}
    values |= dict.fromkeys(("certified", "attack", "radius"), radius)
    every, fields = np.ones((len(shapes), len(SEEDS))), ("depth", "residual", "layers")
    cells = {name: (("network", "seed"), value * every) for name, value in values.items()}
    coords = {name: ("network", [getattr(one, name) for one in shapes]) for name in fields}
    return xr.Dataset(cells | {"null": ("network", 0.1 * every[:, 0])}, coords)


def averaging(**values):
    """What `measured` returns if every network learned this."""
    shapes = depth.SHAPES, depth.VARIED
    return {"measured": lambda *_: tuple(made_up(each, **values) for each in shapes)}


def scaling(power_d=0.5, power_k=-0.5):
    """What `along` returns if the radius has these powers of d and k."""

    def along(run, field, values, *_):
        sizes, power = np.array(values), {"d": power_d - 0.5, "k": power_k + 0.5}[field]
        tables = [made_up(depth.SCALED, radius=float(size) ** power) for size in sizes]
        joined = xr.concat(tables, xr.Variable(field, sizes))
        return joined.transpose("network", field, "seed", ...)

    return {"along": along}


def probe(accuracy, even=0.95):
    values = xr.DataArray([accuracy, 1.0, 0.5], {"labels": list(depth_inner.LABELS)})
    table = xr.Dataset({"accuracy": values, "evenness": xr.full_like(values, even)})
    table = table.expand_dims(network=["4 layers"], seed=list(SEEDS), layer=[1, 2, 3])
    return {"probed": lambda run: table.assign_coords(depth=("network", [4]))}


def margin(radius):
    names = ("radius", "certified", "attack", "stationarity")
    values = {name: radius if name != "stationarity" else 0.05 for name in names}
    table = xr.Dataset({name: float(value) for name, value in values.items()}).expand_dims(
        depth=list(depth_margin.DEPTHS), stage=list(depth_margin.STAGES), seed=list(SEEDS)
    )
    return {"measured": lambda run: table}


def test_a_layer_that_is_uneven_takes_a_part_of_the_statement(monkeypatch):
    monkeypatch.setattr(depth_inner, "probed", probe(0.25, even=0.4)["probed"])
    evidence = depth_inner.inner.run(Context(seeds=SEEDS))
    assert evidence.verdict is Verdict.IN_PART
    assert "nan" not in evidence.finding


RATIO = "radius / √(d/k), mean over d and k, 3 layers, residual"
# What one cell of the table lacks, and a check that speaks of it.
MISSING = [
    (depth, "averages", averaging(), "index", "averaging index, 3 layers, plain"),
    (depth, "averages", averaging(), "attack", "median radius"),
    (depth, "fine", averaging(), "own", "cosine with the own feature, 3 layers, plain"),
    (depth, "fine", averaging(), "certified", "radius over that of class labels"),
    (depth, "radius", scaling(), "radius", RATIO),
    (depth_inner, "inner", probe(0.25), "accuracy", "clusters of a class named"),
    (depth_inner, "inner", probe(0.25), "evenness", "evenness"),
    (depth_margin, "margin", margin(0.9), "radius", "median radius"),
]


@pytest.mark.parametrize(("module", "claim", "honest", "lost", "check"), MISSING)
def test_a_missing_number_never_passes(module, claim, honest, lost, check, monkeypatch):
    def without(table):
        table = table.copy(deep=True)
        cell = {"network": 2, "d": 0, "k": 0, "layer": 1, "labels": 0, "depth": 1, "stage": -1}
        cell = {name: min(at, table.sizes[name] - 1) for name, at in cell.items() if name in table.dims}
        table[lost][{**cell, "seed": 0}] = np.nan
        return table

    def broken(*given):
        found = make(*given)
        return tuple(map(without, found)) if isinstance(found, tuple) else without(found)

    ((name, make),) = honest.items()
    monkeypatch.setattr(module, name, broken)
    evidence = getattr(module, claim).run(Context(seeds=SEEDS))
    about = next(each for each in evidence.checks if each.name.startswith(check))
    assert about.status is CheckStatus.FAILED
    assert np.isnan(about.measured)


def test_exponents_are_those_of_the_radius_itself():
    along = scaling(0.7, -0.3)["along"]
    for field, theory, expected in (("d", 0.5, 0.7), ("k", -0.5, -0.3)):
        slopes = depth.exponents(along(None, field, (10, 100, 5000)), field, theory)
        assert slopes.dims == ("network", "seed")
        assert np.allclose(slopes, expected)


def test_an_exponent_needs_two_sizes():
    with pytest.raises(InputError, match="needs two"):
        depth.radius.run(Context(seeds=(0,)), d=(1000,))


def test_a_probe_knows_what_a_layer_says_and_no_more():
    rng = np.random.default_rng(0)
    clusters = rng.integers(4, size=400)
    said = np.eye(4)[clusters] + 0.1 * rng.normal(size=(400, 4))
    assert probe_accuracy(said, clusters, said, clusters, LABELS) > 0.99
    averaged = said @ np.kron(np.eye(2), np.ones((2, 1)))
    assert probe_accuracy(averaged, clusters, averaged, clusters, LABELS) < 0.65
    dead = np.zeros((400, 3))
    assert probe_accuracy(dead, clusters, dead, clusters, LABELS) == 0.5


def test_neurons_of_one_cluster_are_selective_and_averages_are_even():
    clusters = np.repeat(np.arange(4), 10)
    assert selectivity(np.eye(4)[clusters], clusters, LABELS) == 0.0
    even = np.kron(np.eye(2), np.ones((2, 1)))[clusters]
    assert selectivity(even, clusters, LABELS) == pytest.approx(1.0)


def test_three_layers_average_and_a_killed_run_goes_on(tmp_path, monkeypatch):
    shape = Architecture(3, True, neurons=4)
    given = {"k": 4, "d": 500, "points": 2, "keep": tmp_path}
    first = learned([shape], "coarse", (0,), **given)
    assert first["index"][0, 0] > 0.8
    assert 0.6 < first["radius"][0, 0] < 1.5
    assert len(list(tmp_path.iterdir())) == 1
    networks.cache_clear()
    monkeypatch.setattr("featavg.paper.questions.depth_networks.train", None)  # not done again
    assert learned([shape], "coarse", (0,), **given).identical(first)


def test_a_small_margin_run_and_a_small_probe(tmp_path, monkeypatch):
    monkeypatch.setenv("FEATAVG_RESULTS", str(tmp_path))
    monkeypatch.setattr(depth_margin, "DEPTHS", (2,))
    monkeypatch.setattr(depth_margin, "STAGES", (-2.0,))
    table = depth_margin.measured(Context(seeds=(0,)))
    assert table["log_loss"].sizes == {"depth": 1, "stage": 1, "seed": 1}
    assert round(float(table["log_loss"].item())) == -2
    monkeypatch.setattr(depth_inner, "SHAPES", (Architecture(2), Architecture(3)))
    table = depth_inner.probed(Context(seeds=(0,)))
    assert table["accuracy"].isnull().sum("layer").isel(seed=0, labels=0).values.tolist() == [1, 0]


def test_the_boundary_of_a_deep_network_is_drawn_where_its_radius_says():
    figure = depth.boundary("coarse", (Architecture(3, True),))
    (plane,) = figure.panels
    assert 0.1 < float(plane.circles[0].radius) < 0.6  # sqrt(1/k) is 0.32
    assert np.ptp(plane.contours[0].z) > 0
    assert figure.name == "depth-boundary-coarse"
