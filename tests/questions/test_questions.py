"""The open questions: small runs of every study, its theory against slow twins, and its texts."""

import json

import numpy as np
import pytest
import xarray as xr

from featavg.data.clusters import MultiCluster
from featavg.data.image_sets.loading import load_images
from featavg.nets.two_layer import feature_averaging, grouped
from featavg.paper.engine.claim import Context
from featavg.paper.questions import adversarial, angle, borders, optimizers
from featavg.paper.questions.angle import averaged_margin, decoupled_margin, fields_of
from featavg.paper.questions.borders import lazy_border, signal_share
from featavg.robustness.radii import radii
from featavg.simulate.sweep.run import Serial
from featavg.storage.files import strict_json


def small(claim, data_dir=None, seeds=(0,), **parameters):
    """A small run of a claim ends in a figure, numbers that JSON can say, and a finding without gaps."""
    shares = []
    settings = Context(seeds, data_dir=data_dir, progress=lambda share, _: shares.append(share))
    evidence = claim.run(settings, **parameters)
    assert evidence.figures
    json.dumps(strict_json(evidence.numbers), allow_nan=False)
    assert "nan" not in evidence.finding
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0
    return evidence


@pytest.mark.parametrize("cosine", [-1 / 9, -0.05, 0.0, 0.3, 0.9])
def test_equal_angles_are_those_of_the_ideal_networks(cosine):
    task = MultiCluster(k=10, d=1000, cosine=cosine)
    margin, alpha = averaged_margin(task)
    assert margin == pytest.approx(np.sqrt(1000 * (1 - cosine) / 10))
    if cosine > -1 / 9:  # features that sum to zero leave the multipliers a choice
        assert alpha == pytest.approx(np.full(10, alpha.mean()))
    assert decoupled_margin(task) == pytest.approx(np.sqrt(1000 * (1 - cosine) / 2))
    centres, y = task.features, task.cluster_labels
    ideal = radii(feature_averaging(task), task.features_in(10), y=y, jobs=1)
    assert np.allclose(ideal.attack, margin, rtol=1e-6)
    groups = grouped(centres, 10)
    apart = radii(groups, centres, y=y, readout="max", positive=y > 0, jobs=1)
    assert np.allclose(apart.attack, decoupled_margin(task), rtol=1e-6)


def test_equal_angles_follow_the_formulas():
    evidence = small(angle.equal, cosines=(0.0, 0.3), n=60, group=2)
    table = evidence.numbers
    assert np.allclose(table["radius_coarse"] / table["averaged_theory"], 1.0, atol=0.25)
    assert all(len(check.values) == 1 for check in evidence.checks)
    assert table["dead"].max() <= 1


def test_the_margins_of_a_geometry_by_brute_force():
    task = MultiCluster(k=10, d=1000, **fields_of("classes mixed", 0))
    rows = task.cluster_labels[:, None] * task.features
    directions = np.random.default_rng(0).standard_normal((4000, 10))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    margin, multipliers = averaged_margin(task)
    w = multipliers @ rows
    assert (rows @ w).min() / np.linalg.norm(w) == pytest.approx(margin)
    assert (directions @ rows.T).min(axis=1).max() <= margin * (1 + 1e-9)


@pytest.mark.parametrize("name", angle.GEOMETRIES)
def test_every_geometry_is_a_task(name):
    task = MultiCluster(k=angle.K, d=angle.D, **fields_of(name, 3))
    assert averaged_margin(task)[0] > 0


def test_a_geometry_is_measured(monkeypatch):
    kept = ("orthogonal", "class closer", "classes mixed")
    monkeypatch.setattr(angle, "GEOMETRIES", {name: angle.GEOMETRIES[name] for name in kept})
    evidence = small(angle.geometries, n=80, target_loss=1e-3)
    table = evidence.numbers.sel(geometry="orthogonal", seed=0)
    assert float(table["averaged"] / table["averaged_theory"]) == pytest.approx(1.0, abs=0.25)
    assert float(table["decoupled"] / table["decoupled_theory"]) == pytest.approx(1.0, abs=0.25)
    assert table["early_weights"] > 0.9


def test_adam_along_the_axes_learns_noise(monkeypatch):
    kept = ("gradient descent", *optimizers.COORDINATE_WISE)
    monkeypatch.setattr(optimizers, "OPTIMIZERS", {key: optimizers.OPTIMIZERS[key] for key in kept})
    evidence = small(optimizers.optimizers, d=120, n=50, test_points=3)
    table = evidence.numbers.sel(seed=0)
    index, share = table["index_coarse"].sel(orientation="axes"), table["span_share_coarse"]
    assert index.sel(optimizer="gradient descent") > 0.5 > index.sel(optimizer="sign descent")
    along, across = share.sel(optimizer="sign descent")
    assert along < 0.25 < across


# Of each claim its module, what is missing, the checks by seed that speak of it, and its parameters.
MISSING = {
    angle.equal: (angle, "radius_fine", 2, {"cosines": (0.0, 0.2, 0.3), "n": 60, "group": 2}),
    angle.geometries: (angle, "", 4, {"n": 80, "target_loss": 1e-3}),
    optimizers.optimizers: (optimizers, "", 3, {"d": 120, "n": 50, "test_points": 3, "steps": 50}),
}


@pytest.mark.parametrize("claim", MISSING, ids=lambda claim: claim.id)
def test_a_missing_number_never_passes(claim, monkeypatch):
    """NaN in the first and the last cell reaches the checks, whatever the other cells say."""
    module, missing, count, given = MISSING[claim]
    honest = module.measure_each

    def broken(*settings, **axes):
        table = honest(*settings, **axes)
        for name in table.data_vars:
            if name.startswith(missing):
                for end in (0, -1):
                    table[name][dict.fromkeys(table[name].dims, end)] = np.nan
        return table

    monkeypatch.setattr(module, "measure_each", broken)
    evidence = claim.run(Context(seeds=(0,)), **given)
    assert np.isnan(evidence.main.measured)
    assert sum(np.isnan(check.measured) for check in evidence.checks if check.values) == count


def test_adversarial_training_decouples(monkeypatch):
    monkeypatch.setattr(adversarial, "SHARES", (0.0, 0.6))
    monkeypatch.setattr(adversarial, "SHARE", 0.6)
    evidence = small(adversarial.adversarial, steps=120, test_points=4)
    plain, hardened = (evidence.numbers.sel(share=share, seed=0) for share in (0.0, 0.6))
    assert plain["index"] > 0.8
    assert hardened["index"] < 0.4
    assert hardened["radius"] > 1.3 * plain["radius"]


def test_a_map_is_made_of_sweeps(monkeypatch, tmp_path):
    given = {"data_dir": tmp_path, "seeds": (0, 1), "k": (4, 23), "sigma": (0.1, 10.0)}
    found = small(borders.noise, **given)
    index = found.numbers["index"]
    assert index.sizes == {"k": 2, "sigma": 2}
    assert (index.sel(sigma=0.1) > 0.5).all()
    assert (index.sel(sigma=10.0) < 0.5).all()

    class Never(Serial):
        def run(self, jobs):
            assert not jobs, "computed again"
            return iter(())

    honest = borders.sweep
    monkeypatch.setattr(
        borders, "sweep", lambda vary, store, engine, **given: honest(vary, store, engine=Never(), **given)
    )
    assert small(borders.noise, **given).numbers.identical(found.numbers)


def test_a_cell_that_most_seeds_leave_empty_is_empty(monkeypatch, tmp_path):
    class Table:
        columns = {"error": np.array(["", "broke"])}  # noqa: RUF012

        def cells(self, name):
            return np.array([[1.0, 3.0, np.nan], [2.0, np.nan, np.nan]])

    monkeypatch.setattr(borders, "sweep", lambda *_, **__: Table())
    settings = Context(seeds=(0, 1, 2), data_dir=tmp_path)
    table = borders.border_map(settings, ("k", (4,)), ("sigma", (1.0, 2.0)))
    assert np.array_equal(table["index"], [[2.0, np.nan]], equal_nan=True)
    assert table["failed"] == 1


def invented(rows, columns, index, share=None, gain=None):
    """A map with these values in its cells, as `border_map` returns it."""
    (across, places), (up, heights) = columns, rows
    shape, coords = (len(heights), len(places)), {up: list(heights), across: list(places)}
    given = {"index": index, "share": index if share is None else share}
    given["gain"] = np.sqrt(5) if gain is None else gain
    cells = {name: ((up, across), np.broadcast_to(v, shape)) for name, v in given.items()}
    table = xr.Dataset(cells, coords).assign(seeds=1, failed=0)
    return table.assign(relative_gain=table["gain"] / np.sqrt(table.get("k", borders.K) / 2))


def test_the_border_of_noise_can_be_missed(monkeypatch):
    sides = ("k", borders.CLUSTERS), ("sigma", borders.NOISES)
    k, sigma = np.array(borders.CLUSTERS)[:, None], np.array(borders.NOISES)
    share = signal_share(k, sigma, borders.N)
    right = invented(*sides, share, gain=np.sqrt(k / 2))
    monkeypatch.setattr(borders, "border_map", lambda *_: right)
    assert all(check.passed for check in borders.noise.run(Context()).checks)
    wrong = invented(*sides, 1.0 - share)
    monkeypatch.setattr(borders, "border_map", lambda *_: wrong)
    assert not borders.noise.run(Context()).main.passed


@pytest.mark.parametrize(
    ("claim", "rows", "columns", "lost", "check"),
    [
        (borders.noise, ("k", (4, 9)), ("sigma", (0.1, 1.0)), "share", "|share in the span"),
        (borders.samples, ("d", (50, 1000, 2000)), ("n", (10, 300)), "index", "range of the index"),
        (borders.neurons, ("k", (4, 9, 12)), ("m", (1, 2, 20)), "index", "|index at m = 20"),
    ],
)
def test_an_empty_cell_of_a_map_never_passes(claim, rows, columns, lost, check, monkeypatch):
    table = invented(rows, columns, 0.9)
    table[lost] = table[lost].copy(data=np.array(table[lost]))
    table[lost][-1, 0] = np.nan
    monkeypatch.setattr(borders, "border_map", lambda *_: table)
    checks = claim.run(Context()).checks
    assert np.isnan(next(each for each in checks if each.name.startswith(check)).measured)


def test_the_lazy_border_is_read_off_between_the_columns(monkeypatch):
    sides, columns = (("lr", borders.RATES), ("sigma_w", borders.STARTS)), np.array(borders.STARTS)
    found = invented(*sides, 1 / (1 + (columns / lazy_border()) ** 2), gain=0.5)
    assert borders.crossing(found["index"]) == pytest.approx(np.full(20, lazy_border()), rel=0.05)
    monkeypatch.setattr(borders, "border_map", lambda *_: found)
    assert borders.initialisation.run(Context()).main.passed
    assert np.isnan(borders.crossing(invented(*sides, np.ones(20))["index"])).all()


def test_the_share_of_noise_is_that_of_a_sum_of_samples():
    """The formula against sums of drawn samples, which is what it speaks of."""
    task, n, sigma = MultiCluster(k=10, d=2000, sigma=2.0), 100, 2.0
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(10), n // 10)
    x = task.features_in(2000)[clusters] + sigma * rng.standard_normal((n, 2000))
    total = x[clusters < 5].sum(axis=0)
    inside = task.features_in(2000) @ total / np.linalg.norm(task.features, axis=1)
    assert (inside**2).sum() / (total @ total) == pytest.approx(signal_share(10, sigma, n), rel=0.1)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_dense_experts_are_the_deep_network_whose_radii_are_exact(pooling):
    torch = pytest.importorskip("torch")
    from featavg.paper.remedies.competition_deep import DENSE, as_deep, dense

    task = load_images("digits")
    net, x = dense(pooling, task, seed=3).double(), task.test.unit[:20].astype(float)
    outputs = net(torch.from_numpy(x)).detach().numpy()
    twin, positive = as_deep(net, pooling)
    ours = twin(x.reshape(20, -1))
    if pooling == "mean":
        assert np.allclose(ours[:, 0], outputs[:, 1] - outputs[:, 0], atol=1e-12)
    else:
        assert positive.sum() == DENSE
        assert np.allclose(ours[:, positive].max(axis=1), outputs[:, 1], atol=1e-12)
        assert np.allclose(ours[:, ~positive].max(axis=1), outputs[:, 0], atol=1e-12)


def test_competition_in_the_head_begins_at_the_same_weights_as_the_sum():
    torch = pytest.importorskip("torch")
    from featavg.paper.remedies.competition_deep import KINDS, built

    task = load_images("digits")
    x = torch.zeros(2, *task.shape)
    shapes = {kind: tuple(built(kind, task, 0)(x).shape) for kind in KINDS}
    assert shapes == dict.fromkeys(KINDS, (2, 2)) | {"fine": (2, 10)}
    both = (built(kind, task, 5) for kind in ("sum", "head"))
    states = [torch.cat([p.flatten() for p in net.parameters()]) for net in both]
    assert torch.equal(*states)
