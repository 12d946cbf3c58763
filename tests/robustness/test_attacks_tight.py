"""Attacks and their geometry on cases small enough to know every number."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.nets.readouts._readout import Max
from featavg.nets.readouts.soft import Probability
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.attacks import deepfool as deepfool_module
from featavg.robustness.attacks import polish as polish_module
from featavg.robustness.attacks import suite as suite_module
from featavg.robustness.attacks.attack import Attack, AttackEnd, AttackProblem, AttackResult, gradient_is_dead, nearer
from featavg.robustness.attacks.ddn import ddn, fmn
from featavg.robustness.attacks.deepfool import DeepFool, slide
from featavg.robustness.attacks.line_search import reach, shorten
from featavg.robustness.attacks.pgd import PGD, apgd, pgd
from featavg.robustness.attacks.polish import Polish, _at, _polish_one
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.curve import curve, curve_of, pgd_curve
from featavg.robustness.models.decision import ALL, Decision
from featavg.robustness.models.model import TwoLayerModel, network_model
from featavg.robustness.models.norms import length, to_ball, to_box, to_halfspace

# relu(t) - relu(-t) = t with t = <(3, 4), x> / 5: a plane through the origin.
PLANE = TwoLayer(np.array([[0.6, 0.8], [-0.6, -0.8]]), np.zeros(2), np.array([[1.0, -1.0]]))
X, ONE = np.array([[3.0, 4.0]]), np.ones(1, dtype=int)
EVERY = np.array([ALL])


@dataclass(frozen=True, eq=False)
class Recording(TwoLayerModel):
    """A model that remembers every point it was asked about."""

    asked: list[np.ndarray] = field(default_factory=list, kw_only=True)

    def _pull(self, x, covector):
        self.asked.append(x.copy())
        return super()._pull(x, covector)


def recording(net=PLANE, bounds=None):
    plain = network_model(net, bounds=bounds)
    return Recording(plain.decision, plain.bounds, plain.space, net=plain.net)


def about(model, x=X, **settings):
    """The problem of these points, all of the class +1."""
    label = np.ones(len(x), dtype=int)
    return AttackProblem(model, x, label, model.margins(x, label), **settings)


# Geometry.


def test_lengths_balls_and_boxes():
    delta = np.array([[3.0, -4.0]])
    assert length(delta, "linf")[0] == 4.0
    np.testing.assert_array_equal(to_ball(0.1 * delta, np.ones(1), "l2"), 0.1 * delta)
    np.testing.assert_allclose(to_ball(delta, np.ones(1), "l2"), [[0.6, -0.8]])
    np.testing.assert_array_equal(to_ball(delta, np.ones(1), "linf"), [[1.0, -1.0]])
    np.testing.assert_allclose(to_box(np.array([[0.5, 0.5]]), delta, (0.0, 1.0)), [[0.5, -0.5]])


def test_half_spaces_that_cannot_be_reached():
    x, gap = np.array([[0.5, 0.5]]), np.ones(1)
    step, found = to_halfspace(x, np.array([[3.0, 4.0]]), 5 * gap, "l2", None)
    np.testing.assert_allclose(step, [[-0.6, -0.8]])
    assert found.all()
    step, _ = to_halfspace(x, np.array([[3.0, 4.0]]), 7 * gap, "linf", None)
    np.testing.assert_allclose(step, [[-1.0, -1.0]])
    assert not to_halfspace(x, np.zeros((1, 2)), gap, "l2", None)[1].any()
    # Inside the box <g, x + delta> falls by 1 at most.
    for gap_left, reachable in ((0.99, True), (1.01, False)):
        found = to_halfspace(x, np.ones((1, 2)), gap_left * gap, "l2", (0.0, 1.0))[1]
        assert found.all() == reachable


# Models and decisions.


def test_a_tie_is_a_flip_and_a_broken_gradient_is_refused():
    model = network_model(PLANE)
    assert model.flips(np.zeros((1, 1)), ONE).all()
    with pytest.raises(InputError, match="gradient that is not finite"):
        model.pull(X, lambda outputs, at: np.full((1, 1), np.nan))
    with pytest.raises(InputError, match="outside the bounds"):
        network_model(PLANE, bounds=(0.0, 3.0)).rows(X)


def test_objectives_by_hand():
    decision = Decision.of(groups=[0, 0, 1, 1, 2], readout="max")
    outputs, label = np.array([[3.0, 1.0, 2.0, 0.5, 2.5]]), np.zeros(1, dtype=int)
    assert decision.margins(outputs, label)[0] == 0.5
    value, slope = decision.objective(outputs, label, EVERY)
    assert value[0] == 0.5
    np.testing.assert_array_equal(slope, [[1, 0, 0, 0, -1]])
    value, slope = decision.objective(outputs, label, np.array([3]))
    assert value[0] == 2.5
    np.testing.assert_array_equal(slope, [[1, 0, 0, -1, 0]])
    one = Decision.of()
    for y, sign in ((1, 1.0), (-1, -1.0)):
        value, slope = one.objective(np.array([[0.25]]), one.labels([y]), EVERY)
        assert (value[0], slope[0, 0]) == (sign * 0.25, sign)


def test_batches_of_a_module_keep_their_labels_and_evaluation_mode():
    torch = pytest.importorskip("torch")
    from featavg.robustness.models.torch_model import torch_model

    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.9)).double().train()
    x, label = np.random.default_rng(0).uniform(0, 1, (5, 3)), np.array([0, 1, 1, 0, 1])
    answers = []
    for batch in (2, 128):
        model = torch_model(module, mean=0.5, std=0.25, groups=[0, 1], batch=batch).shaped(x)
        answers.append(model.descend(x, label)[2])
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-12)
    weights = module[0].weight.detach().numpy() / 0.25
    np.testing.assert_allclose(answers[0], weights[label] - weights[1 - label], rtol=1e-12)
    scores = (x - 0.5) @ weights.T + module[0].bias.detach().numpy()
    np.testing.assert_allclose(model.outputs(x), scores, rtol=1e-12)
    assert module.training, "the mode it was in"


# Descents.


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("attack", ["ddn", "fmn"])
def test_a_descent_returns_the_nearest_flip_it_saw_and_stays_inside_it(attack, norm):
    """Of relu(x_1) - relu(x_2) + relu(x_1 - 4): from (6, 1), with a bend on the way."""
    net = TwoLayer(
        np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([0.0, 0.0, -4.0]), np.array([[1.0, -1.0, 1.0]])
    )
    model, x = recording(net), np.array([[6.0, 1.0]])
    problem = about(model, x, norm=norm)
    end = ddn(problem, EVERY, 60) if attack == "ddn" else fmn(problem, 60)
    best = np.inf
    for point in model.asked:
        size = float(length(point - x, norm)[0])
        assert size <= best * (1 + 1e-12)
        if model.margins(point, ONE)[0] <= 0:
            best = min(best, size)
    assert end.radii(x, norm)[0] == pytest.approx(best)
    truth = {"l2": 5 / np.sqrt(2), "linf": 2.5}[norm]
    assert truth <= best <= 1.02 * truth


def test_beating_one_rival_is_no_flip():
    """Scores are sums: the class of outputs 3 and -9 loses to 1 although one of it is above."""
    net = TwoLayer(np.array([[1.0], [0.0], [0.0]]), np.array([0.0, 3.0, 9.0]), np.zeros((3, 3)))
    head = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, 0, -1.0]])
    model = network_model(replace(net, head=head), [True, False, False], "sum")
    end = ddn(about(model, np.array([[1.0]])), np.array([1]), steps=20)
    assert not end.flipped.any()


def test_descents_go_downhill_in_their_ball():
    model = recording()
    for norm, flips in (("l2", 5.0), ("linf", 5.0 / 1.4)):
        for attack in (pgd, apgd):
            for scale, flipped in ((0.99, False), (1.01, True)):
                model.asked.clear()
                end = attack(model, X, ONE, np.array([scale * flips]), norm, steps=40)
                assert end.flipped[0] == flipped
                for point in [*model.asked, end.point]:
                    assert length(point - X, norm)[0] <= scale * flips * (1 + 1e-12)


def test_the_step_of_apgd_is_halved_where_it_overshoots():
    """The valley |x_2| <= 0.1 (1 - x_1) is narrower than a step of twice the radius."""
    weights = np.array([[0.0, 1.0], [0.0, -1.0], [1.0, 0.0]])
    net = TwoLayer(weights, np.array([0.0, 0.0, 2.0]), np.array([[20.0, 20.0, 1.0]]))
    with_constant = TwoLayer(
        np.concatenate([net.weights, np.zeros((1, 2))]),
        np.append(net.biases, 1.0),
        np.append(net.head, [[-1.05]], axis=1),
    )
    model, x = network_model(with_constant), np.array([[0.0, 0.5]])
    assert apgd(model, x, ONE, np.array([1.2]), "l2", steps=100).flipped.all()


def test_the_bisection_goes_between_what_flips_and_what_does_not(monkeypatch):
    """Flipped from 3 on: 1, 2 and 4, then always the middle."""
    net = TwoLayer(np.array([[1.0], [-1.0]]), np.zeros(2), np.array([[1.0, -1.0]]))
    model, x, asked = network_model(net), np.array([[3.0]]), []

    def at_radius(self, problem, radius):
        asked.append(float(radius[0]))
        point = x - radius[:, None]
        return AttackEnd(point, model.margins(point, ONE) <= 0)

    monkeypatch.setattr(PGD, "inside", at_radius)
    end = PGD().within(about(model, x), np.ones(1))
    np.testing.assert_allclose(asked, [1, 2, 4, 2.5, 2.75, 2.875], rtol=1e-4)
    assert end.flipped.all()
    assert end.radii(x, "l2")[0] == pytest.approx(3.0, rel=1e-4)


def test_deepfool_adds_up_its_steps_and_goes_beyond():
    """t + relu(t - 2): from t = 5 the first step ends at 1.25 of the old slope, short of zero."""
    net = TwoLayer(np.array([[1.0], [-1.0], [1.0]]), np.array([0.0, 0.0, -2.0]), np.array([[1.0, -1.0, 1.0]]))
    model, x = recording(net), np.array([[5.0]])
    end = DeepFool(overshoot=0.02)(about(model, x))
    # h(5) = 8 with slope 2: to 1, and 2% of 4 further. h(0.92) with slope 1: all the way.
    np.testing.assert_allclose([float(p[0, 0]) for p in model.asked[:2]], [5.0, 0.92])
    total = 4.0 + 0.92
    assert end.flipped.all()
    assert float(end.point[0, 0]) == pytest.approx(5.0 - 1.02 * total)


def test_sliding_never_makes_it_longer():
    model = network_model(PLANE)
    far = AttackEnd(np.array([[9.0, -6.75]]), np.ones(1, dtype=bool))
    end = slide(about(model), far)
    assert end.radii(X, "l2")[0] == pytest.approx(5.0, rel=1e-3)
    near = AttackEnd(np.array([[0.0, 0.0]]), np.ones(1, dtype=bool))
    for _ in range(2):
        assert slide(about(model), near).radii(X, "l2")[0] <= 5.0


def test_a_slide_that_ends_further_away_is_not_taken(monkeypatch):
    """The line search is made to answer with a flipped point at twice the distance."""
    further = lambda problem, *rest, **options: AttackEnd.of(-problem.x)  # noqa: E731
    monkeypatch.setattr(deepfool_module, "shorten", further)
    near = AttackEnd(np.zeros((1, 2)), np.ones(1, dtype=bool))
    end = slide(about(network_model(PLANE)), near)
    assert end.radii(X, "l2")[0] == 5.0


# Along a line.


def test_a_line_search_returns_flips_and_the_nearest_multiple():
    model = network_model(PLANE)
    assert not shorten(about(model), AttackEnd.of(0.2 * X)).flipped.any()
    # A network whose margins are all tiny: the smallest positive one is no flip either.
    for scale in (1.0, 1e-6):
        faint = network_model(replace(PLANE, head=scale * PLANE.head))
        end = shorten(about(faint), AttackEnd.of(-X))
        assert end.flipped.all()
        assert faint.margins(end.point, ONE)[0] <= 0.0
    direction = -X / 5.0
    # 64 / 16 = 4 does not flip, 64 / 8 = 8 does.
    found = reach(about(model), direction, np.array([64.0]))
    np.testing.assert_allclose(found.point, X + 8.0 * direction)


# What is put together.


def test_ends_are_joined_row_by_row():
    x, yes, no = np.zeros((2, 1)), np.array([True, True]), np.array([False, True])
    near, far = AttackEnd(x + 1.0, yes), AttackEnd(x + 2.0, yes)
    for first, second in ((near, far), (far, near)):
        assert nearer(x, first, second, "l2").radii(x, "l2").tolist() == [1.0, 1.0]
    lost = AttackEnd(x, no)
    assert lost.radii(x, "l2").tolist() == [np.inf, 0.0]
    put = far.put(np.array([0, 1]), AttackEnd(x + 5.0, no))
    assert put.point[:, 0].tolist() == [2.0, 5.0]
    assert AttackEnd.nothing(x).put(np.array([1]), near.take(np.array([0]))).flipped.tolist() == [False, True]


def test_a_gradient_is_dead_where_nothing_is_felt():
    net = TwoLayer(np.array([[1.0]]), np.array([-2.0]), np.array([[1.0]]))
    x = np.array([[1.0], [3.0]])
    dead = gradient_is_dead(about(network_model(net), x))
    assert dead.tolist() == [True, False]


def test_in_a_box_the_suite_stays_in_it():
    """In [0, 1]^2 the plane <(3, 4), x> = 0 is met at the corner (0, 0) only."""
    x = np.array([[1.0, 0.2]])
    result = attack_suite(network_model(PLANE, bounds=(0.0, 1.0)), x, [1])
    assert np.all(result.witness >= 0.0)
    assert result.radii[0] == pytest.approx(np.linalg.norm(x), rel=1e-6)


def test_polish_touches_the_score_and_keeps_the_nearest():
    net = TwoLayer(np.diag([1.0, 1.0, 1.0]), np.zeros(3), np.eye(3))
    z = np.array([1.0, 0.5, 0.25])
    own, opposite = net.head[:1], net.head[1:]
    for readout in (Probability(), Max()):
        value, _ = _at(z, own, opposite, readout)(z)
        truth = readout.class_score(z[:1]) - readout.class_score(z[1:])
        assert value == pytest.approx(float(truth))
    # One output and a negative point: relu(x_2) - relu(x_1) from (1, 3).
    model = network_model(TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, -1.0]])))
    x, known = np.array([[1.0, 3.0]]), AttackEnd(np.array([[9.0, 0.0]]), np.ones(1, dtype=bool))
    end = Polish()(AttackProblem(model, x, np.zeros(1, dtype=int), np.full(1, 2.0), ends=(known,)))
    assert end.radii(x, "l2")[0] == pytest.approx(np.sqrt(2.0), rel=1e-6)


def test_a_box_makes_the_way_longer():
    """3a + 4b = 1 is 0.4 away from (1, 0), but with b below 0; inside the box it is 2/3."""
    net = TwoLayer(np.array([[3.0, 4.0], [-3.0, -4.0]]), np.array([-1.0, 1.0]), PLANE.head)
    x = np.array([[1.0, 0.0]])
    assert attack_suite(network_model(net), x, [1]).radii[0] == pytest.approx(0.4, rel=1e-6)
    boxed = attack_suite(network_model(net, bounds=(0.0, 1.0)), x, [1])
    assert boxed.radii[0] == pytest.approx(2 / 3, rel=1e-6)


def test_polish_looks_at_every_piece_and_returns_the_nearest():
    """From 10 with flips below 9 and above 12: the nearer one, whichever is given last."""
    net = TwoLayer(np.array([[-1.0], [1.0], [0.0]]), np.array([9.0, -12.0, 1.0]), np.array([[-1.0, -1.0, 0.5]]))
    model, x = network_model(net), np.array([10.0])
    left, right = np.array([8.0]), np.array([13.0])
    for points in ([left, right], [right, left]):
        step = _polish_one(model, x, 1, points, "l2", 6)
        assert step is not None
        assert step[0] == pytest.approx(-1.5, rel=1e-6)


def test_polish_keeps_the_nearest_of_its_pieces(monkeypatch):
    steps = iter([np.array([-1.0]), np.array([1.8])])
    monkeypatch.setattr(polish_module, "_descend", lambda *arguments: next(steps, None))
    net = TwoLayer(np.array([[1.0], [-1.0]]), np.zeros(2), np.array([[1.0, -1.0]]))
    points = [np.array([1.0]), np.array([-4.0])]
    step = _polish_one(network_model(net), np.array([3.0]), 1, points, "l2", 1)
    assert step.tolist() == [-1.0]


@dataclass(frozen=True, repr=False)
class Liar(Attack):
    """Claims a flip halfway to the boundary, where there is none."""

    name = "liar"

    def __call__(self, problem):
        return AttackEnd(0.5 * problem.x, np.ones(len(problem.x), dtype=bool))


def test_a_false_claim_does_not_hide_a_true_one():
    result = attack_suite(network_model(PLANE), X, [1], attacks=[Liar(), "deepfool"])
    assert result.radii[0] == pytest.approx(5.0, rel=1e-6)
    assert result.attack == ["deepfool"]


def test_what_the_model_itself_does_not_confirm_is_not_found(monkeypatch):
    nothing = lambda problem, end: AttackEnd.nothing(problem.x)  # noqa: E731
    monkeypatch.setattr(suite_module, "confirmed", nothing)
    result = attack_suite(network_model(PLANE), X, [1], attacks=["deepfool"])
    assert result.attack == ["not found"]
    assert result.stuck.all()


# Curves.


def _result(radii, unit="l2, raw"):
    radii = np.array(radii)
    nothing = np.zeros((len(radii), 1))
    return AttackResult(radii, nothing, ["a"] * len(radii), "l2", unit, ("a",), 0.0, 0.0)


def test_curves_by_hand():
    at = [0.0, 1.0, 2.0]
    assert curve_of(np.array([0.0, 1.0, 2.0]), "l2, raw", at).accuracy.tolist() == [
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
        0.0,
    ]
    first, second = _result([0.0, 1.0, np.inf]), _result([0.0, 3.0, 0.5])
    both = curve([first, second], at)
    assert both.accuracy.tolist() == [pytest.approx(2 / 3), 0.0, 0.0]
    assert both.unresolved == 0
    assert curve([first, first], at).unresolved == 1
    with pytest.raises(InputError, match="differ in points or unit"):
        curve([first, _result([0.0, 3.0, 0.5], "l2, pixels in [0,1]")], at)


def test_misclassified_points_are_not_robust_and_all_points_count():
    """Three of four are right; at radius zero that is the accuracy, with the interval of four."""
    x = np.array([[3.0, 4.0], [3.0, 4.0], [3.0, 4.0], [-3.0, -4.0]])
    drawn = pgd_curve(network_model(PLANE), x, [1, 1, 1, 1], [0.0, 1.0])
    assert drawn.accuracy.tolist() == [0.75, 0.75]
    twin = curve_of(np.array([9.0, 9.0, 9.0, 0.0]), "l2, raw", [0.0, 1.0])
    np.testing.assert_allclose(drawn.low, twin.low)
    np.testing.assert_allclose(drawn.high, twin.high)
