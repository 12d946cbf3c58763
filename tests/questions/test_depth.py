"""Depth: what the experiments compute on made-up rows, and when the claims hold."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.paper.engine.claim import Context, Verdict
from featavg.paper.questions import claim_depth as claims
from featavg.paper.questions.depth_exponents import DepthScaling
from featavg.paper.questions.depth_index import (
    DepthAveraging,
    architectures,
    variations,
)
from featavg.paper.questions.depth_kkt import DepthMargin, MarginStage
from featavg.paper.questions.depth_layers import DepthProbe, probe_accuracy, selectivity
from featavg.paper.questions.depth_networks import Architecture, Learned, learned
from featavg.paper.questions.depth_planes import depth_boundary

SEEDS = (0, 1)
LABELS = np.array([1, 1, -1, -1])


def made_up(architecture, labels="coarse", k=10, d=3072, index=0.95, own=0.45, radius=1.0):
    two = np.ones(2)
    ends = radius * two
    return Learned(
        architecture, labels, k, d, 0.1 * two, two, index * two, 0.1, own * two, ends, ends
    )


def averaging(labels="coarse", **values):
    rows = tuple(made_up(shape, labels, **values) for shape in architectures())
    return DepthAveraging(labels, rows, tuple(made_up(shape, labels) for shape in variations()))


def scaling(power_d=0.5, power_k=-0.5):
    shapes = (Architecture(2), Architecture(3), Architecture(4, True))

    def cell(shape, k, d):
        radius = (d / 3072) ** (power_d - 0.5) * (k / 10) ** (power_k + 0.5)
        return made_up(shape, k=k, d=d, radius=radius)

    return DepthScaling(
        shapes,
        tuple(tuple(cell(shape, 10, d) for d in (10**3, 10**5)) for shape in shapes),
        tuple(tuple(cell(shape, k, 10**5) for k in (4, 16)) for shape in shapes),
    )


def test_exponents_are_those_of_the_radius_itself():
    study = scaling(0.7, -0.3)
    assert study.slopes_d(1) == pytest.approx([0.7, 0.7])
    assert study.slopes_k(1) == pytest.approx([-0.3, -0.3])


def probe(accuracy, even=0.95):
    rows = {
        kind: (np.full((2, 3), value),)
        for kind, value in {"coarse": accuracy, "fine": 1.0, "untrained": 0.5}.items()
    }
    spread = {kind: (np.full((2, 3), even),) for kind in rows}
    return DepthProbe((Architecture(4),), rows, spread, 0.2)


def margin(radius):
    two = np.ones(2)
    return DepthMargin(
        (2, 3),
        tuple(
            MarginStage(depth, -40.0, -40 * two, radius * two, radius * two, two, 0.05 * two)
            for depth in (2, 3)
        ),
    )


CASES = [
    ("averages", {"depth_averaging": lambda *a, **k: averaging()}, Verdict.HOLDS),
    ("averages", {"depth_averaging": lambda *a, **k: averaging(index=0.5)}, Verdict.FAILS),
    (
        "radius",
        {
            "depth_scaling": lambda *a, **k: scaling(),
            "depth_averaging": lambda *a, **k: averaging(),
        },
        Verdict.HOLDS,
    ),
    (
        "radius",
        {
            "depth_scaling": lambda *a, **k: scaling(power_d=0.3),
            "depth_averaging": lambda *a, **k: averaging(),
        },
        Verdict.FAILS,
    ),
    (
        "fine_labels",
        {"depth_averaging": lambda labels, *a, **k: averaging(labels, index=0.01, own=0.98)},
        Verdict.HOLDS,
    ),
    (
        "fine_labels",
        {"depth_averaging": lambda labels, *a, **k: averaging(labels, index=0.3, own=0.7)},
        Verdict.FAILS,
    ),
    ("inner_layers", {"depth_probe": lambda *a, **k: probe(0.25)}, Verdict.HOLDS),
    ("inner_layers", {"depth_probe": lambda *a, **k: probe(0.85)}, Verdict.FAILS),
    ("inner_layers", {"depth_probe": lambda *a, **k: probe(0.25, even=0.4)}, Verdict.IN_PART),
    ("margin", {"depth_margin": lambda *a, **k: margin(0.9)}, Verdict.HOLDS),
    ("margin", {"depth_margin": lambda *a, **k: margin(2.2)}, Verdict.FAILS),
]


@pytest.mark.parametrize(("claim", "replaced", "verdict"), CASES)
def test_verdicts_follow_from_the_rows(claim, replaced, verdict, monkeypatch):
    for name, value in replaced.items():
        monkeypatch.setattr(claims, name, value)
    evidence = getattr(claims, claim)(Context(seeds=SEEDS))
    assert evidence.verdict is verdict
    assert evidence.figures
    assert "nan" not in evidence.finding


def test_results_show_themselves():
    for result in (averaging(), scaling(), probe(0.3), margin(1.0)):
        assert result.figure().caption
        assert len(repr(result).splitlines()) < 40
        assert result.to_json()


def test_a_probe_knows_what_a_layer_says_and_no_more():
    rng = np.random.default_rng(0)
    clusters = rng.integers(4, size=400)
    told = np.eye(4)[clusters] + 0.1 * rng.normal(size=(400, 4))
    assert probe_accuracy(told, clusters, told, clusters, LABELS) > 0.99
    averaged = told @ np.kron(np.eye(2), np.ones((2, 1)))
    assert probe_accuracy(averaged, clusters, averaged, clusters, LABELS) < 0.65
    dead = np.zeros((400, 3))
    assert probe_accuracy(dead, clusters, dead, clusters, LABELS) == 0.5


def test_neurons_of_one_cluster_are_selective_and_averages_are_even():
    clusters = np.repeat(np.arange(4), 10)
    assert selectivity(np.eye(4)[clusters], clusters, LABELS) == 0.0
    even = np.kron(np.eye(2), np.ones((2, 1)))[clusters]
    assert selectivity(even, clusters, LABELS) == pytest.approx(1.0)


def test_three_layers_average_and_a_killed_run_goes_on(tmp_path):
    shape = Architecture(3, True, neurons=4)
    first = learned(shape, "coarse", (0,), k=4, d=500, points=2, keep=tmp_path)
    assert first.index[0] > 0.8
    assert 0.6 < first.radius[0] < 1.5
    assert len(list(tmp_path.iterdir())) == 1
    learned.cache_clear()
    again = learned(shape, "coarse", (0,), k=4, d=500, points=2, keep=tmp_path)
    assert again.to_json() == first.to_json()


def test_neurons_that_make_no_groups_are_refused():
    with pytest.raises(InputError, match="neurons"):
        Architecture(3, neurons=7).recipe("coarse", MultiCluster(k=4, d=100))


def test_the_boundary_of_a_deep_network_is_drawn_where_its_radius_says():
    study = depth_boundary(shapes=(Architecture(3, True),))
    (plane,) = study.planes
    assert 0.1 < study.radius[0] < 0.6  # sqrt(1/k) is 0.32
    assert np.ptp(plane.contours[0].z) > 0
    assert float(plane.circles[0].radius) == pytest.approx(study.radius[0], rel=0.05)
    assert study.figure().name == "depth-boundary-coarse"
