"""`radii` inside a box: against every activation region, against attacks, and where nothing is cut."""

import math
from functools import partial

import numpy as np
import pytest
from tests.robustness import box_soundness

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer, binary, grouped
from featavg.robustness.certify import certify
from featavg.robustness.exact.budget import UNLIMITED, Budget, Clock, Search
from featavg.robustness.exact.decision import decision_of
from featavg.robustness.exact.deep.local_search import LocalSearch
from featavg.robustness.exact.deep.search import DeepSearch
from featavg.robustness.exact.flip_conditions import conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.linf import _fallen
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.radii import radii
from featavg.training.train import train

RNG = np.random.default_rng
EYE = Deep((np.eye(2), np.eye(2)))
NAMES = ("certified", "attack", "witness", "nodes", "outcome")


@pytest.mark.parametrize(("cases", "seed"), [(60, 1), pytest.param(2000, 0, marks=pytest.mark.full)])
def test_the_radius_is_that_of_all_activation_regions_with_all_sides(cases, seed):
    worst, unsettled, _ = box_soundness.run(cases, seed)
    assert worst <= box_soundness.WITHIN
    # In every 100 cases one bracket may stay open; which one depends on the last bits of the machine.
    assert unsettled <= max(1, 0.01 * cases)


@pytest.mark.parametrize(("cases", "seed"), [(20, 3), pytest.param(6000, 2, marks=pytest.mark.full)])
def test_no_attack_in_the_box_is_below_a_certificate(cases, seed):
    assert box_soundness.run(cases, seed, attacks=True)[2] <= box_soundness.WITHIN_ATTACKS


@pytest.mark.parametrize("net", ["two layers", "grouped", "deep", "linf"])
def test_a_box_that_does_not_cut_changes_no_bit(net):
    rng = RNG(4)
    x, y, named = rng.normal(size=(6, 4)), None, {}
    if net == "deep":
        model = Deep((rng.normal(size=(5, 4)), rng.normal(size=(5, 5)), rng.normal(size=(3, 5))))
        y = model(x).argmax(axis=1)
    elif net == "grouped":
        model, named = grouped(rng.normal(size=(4, 4)), 4), {"positive": [0, 1]}
        y = box_soundness.decided(model, x, {"readout": "probability", "positive": [0, 1]})
    else:
        model, named = binary(rng.normal(size=(6, 4))), {"norm": "linf" if net == "linf" else "l2"}
        y = np.where(model(x)[:, 0] > 0, 1, -1)
    free = radii(model, x, y, jobs=1, **named)
    wide = np.abs(free.witness[np.isfinite(free.attack)]).max() + 1.0
    boxed = radii(model, x, y, bounds=(-wide, wide), jobs=1, **named)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(boxed, name), getattr(free, name))


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_a_box_without_a_flip_has_none(norm):
    # The outputs are equal on the diagonal, which this box does not reach.
    net = TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, -1.0]]))
    found = radii(net, [[3.0, 1.0]], [1], norm=norm, bounds=([2.0, 0.0], [4.0, 1.9]))
    assert found.outcomes == [RadiusStatus.NEVER]
    assert found.certified[0] == found.attack[0] == math.inf
    # Up to 2.1 it is reached, at the corner (2, 2) and beyond.
    found = radii(net, [[3.0, 1.0]], [1], norm=norm, bounds=([2.0, 0.0], [4.0, 2.1]))
    assert found.outcomes == [RadiusStatus.EXACT]
    np.testing.assert_allclose(found.attack, [math.sqrt(2) if norm == "l2" else 1.0])


@pytest.mark.parametrize(("norm", "radius"), [("l2", math.hypot(1.5, 0.5)), ("linf", 1.5)])
def test_a_side_leaves_the_way_to_other_coordinates(norm, radius):
    net = TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, -1.0]]))
    found = radii(net, [[3.0, 1.0]], [1], norm=norm, bounds=([0.0, 0.0], [4.0, 1.5]))
    np.testing.assert_allclose([found.certified[0], found.attack[0]], radius, rtol=1e-7)
    np.testing.assert_allclose(found.witness, [[1.5, 1.5]], rtol=1e-7)
    # A coordinate that cannot move leaves all of it; sides far away leave nothing out.
    held = radii(net, [[3.0, 1.0]], [1], norm=norm, bounds=([0.0, 1.0], [4.0, 1.0]))
    np.testing.assert_allclose(held.attack, 2.0, rtol=1e-7)
    open_ = radii(net, [[3.0, 1.0]], [1], norm=norm, bounds=(-1e9, [1e9, 1.5]))
    np.testing.assert_allclose(open_.certified, found.certified, rtol=1e-7)


def test_probability_gets_a_bracket_inside_the_box():
    rng = RNG(5)
    net, positive = grouped(rng.normal(size=(4, 6)), 4), [0, 1]
    x = rng.integers(0, 2, (12, 6)).astype(float)
    y = box_soundness.decided(net, x, {"readout": "probability", "positive": positive})
    free = radii(net, x, y, positive=positive)
    found = radii(net, x, y, positive=positive, bounds=(0, 1))
    assert np.all(found.certified >= free.certified)
    assert np.any(found.attack > free.attack * 1.01)  # the box cuts
    assert RadiusStatus.BUDGET not in found.outcomes
    wide = found.certified < found.attack * (1.0 - 0.0101)
    assert not np.any(wide & (found.attack < math.inf))
    assert box_soundness.inside(found, (0, 1))


def test_a_spent_budget_leaves_a_bracket():
    rng = RNG(6)
    net = Deep((rng.normal(size=(8, 8)), rng.normal(size=(8, 8)), rng.normal(size=(3, 8))))
    x = rng.uniform(0, 1, (6, 8))
    y = net(x).argmax(axis=1)
    exact = radii(net, x, y, bounds=(0, 1))
    short = radii(net, x, y, bounds=(0, 1), budget=Budget(nodes=3))
    assert RadiusStatus.BUDGET in short.outcomes
    assert np.all(short.certified <= exact.attack * (1 + 1e-9))
    assert np.all(short.attack >= exact.certified * (1 - 1e-9))


def test_the_tree_alone_proves_what_all_regions_say(monkeypatch):
    # Without the local search only programs find flips: no half of a split may be left out.
    monkeypatch.setattr(LocalSearch, "start", lambda *_: None)
    monkeypatch.setattr(LocalSearch, "project", lambda *_: None)
    rng = RNG(7)
    for _ in range(12):
        net, x, y, bounds, _, kind = box_soundness.case(rng)
        if kind != "deep":
            continue
        decision = decision_of(net, x, y, None, None, "l2")[0]
        plain = layered_of(net).unturned()
        sides = StepBox.around(x[0], bounds)
        flips = conditions_of(decision, int(y[0]))
        found = DeepSearch(plain, flips).at(plain.start(x[:1])[0], 1.0, Clock(10_000, math.inf), sides=sides)
        true = box_soundness.brute_force(decision, x[0], int(y[0]), *bounds, "l2")
        expected = min(true, sides.corner(2))
        np.testing.assert_allclose(found.certified, expected, rtol=1e-6)


def test_the_bound_between_sides_is_the_least_length_that_falls_far_enough():
    rng = RNG(8)
    for _ in range(200):
        slopes, sides = rng.normal(size=4), StepBox(-rng.uniform(0, 1, 4), rng.uniform(0, 1, 4))
        side = np.where(slopes > 0, -sides.low, sides.high)
        gap = rng.uniform(0, 1.2) * float(np.abs(slopes) @ side)
        t = _fallen(slopes, gap, sides)
        if t == math.inf:
            assert gap > np.abs(slopes) @ side * (1 - 1e-9)
        else:
            np.testing.assert_allclose(np.abs(slopes) @ np.minimum(t, side), gap, rtol=1e-9)


def test_the_local_search_stays_between_the_sides():
    net = layered_of(EYE).unturned()
    sides, kept = StepBox(np.array([-2.0, -0.5]), np.array([1.0, 0.5])), Search()
    flips = conditions_of(decision_of(EYE, [[3.0, 1.0]], [0], None, None, "l2")[0], 0)
    LocalSearch(net, np.array([3.0, 1.0]), 3.0, kept, UNLIMITED, sides).start(flips[0])
    assert kept.candidates
    assert all(np.array_equal(one.u, sides.clip(one.u)) for one in kept.candidates)
    np.testing.assert_allclose(kept.attack, math.hypot(1.5, 0.5), rtol=1e-3)


X, Y = [[0.3, 0.1]], [0]
REFUSED = {
    "the point is outside": ({"bounds": (0.2, 1.0)}, "exclude 1 of 1 points"),
    "an empty box": ({"bounds": (1.0, 0.0)}, "give the lower side first"),
    "a wrong shape": ({"bounds": ([0, 0, 0], 1.0)}, "or 2 numbers"),
    "NaN": ({"bounds": (0.0, math.nan)}, "hold a NaN"),
    "images in 0..255": ({"points": [[3.0, 255.0]], "bounds": (0, 1)}, "divide the images by 255"),
}


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_box_is_refused_in_one_sentence(case, norm):
    change, said = REFUSED[case]
    net = TwoLayer(np.eye(2), np.zeros(2), np.eye(2))
    with pytest.raises(InputError) as refused:
        radii(**({"net": net, "points": X, "y": Y, "readout": "argmax", "norm": norm} | change))
    assert refused.value.argument == "bounds"
    assert said in str(refused.value)


def test_a_box_has_no_sides_in_compressed_coordinates():
    task = MultiCluster(k=4, d=30)
    run = train(task, labels="fine", n=20, steps=3, coordinates="compressed")
    for ask in (radii, partial(certify, radius=1.0)):
        with pytest.raises(InputError, match="turns the sides of a box"):
            ask(run, task.sample(4, seed=1), bounds=(-100.0, 100.0))
