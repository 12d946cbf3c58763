"""Rules of training at the inputs where they are equalities: the smallest mistake shows there."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.storage.cache import Checkpoint, fingerprint
from featavg.training import heads
from featavg.training.controllers import ErrorControl, LossBased
from featavg.training.driver import RunState, Stop, _advance, _begin, _finish, own_rows, pack, restore, run
from featavg.training.parts import Controller, Judgement, Proposal, Stepper
from featavg.training.steppers.flow import step
from featavg.training.trajectory import Outcome, Trajectory, joined


class At(NamedTuple):
    """An evaluation that is written down."""

    log_loss: np.ndarray
    gradient: tuple[np.ndarray, ...] = ()


def network(theta):
    """A network whose weights are theta."""
    rest = np.zeros(theta.shape[:-1])
    return TwoLayer(theta, rest, rest[..., None, :])


class Linear:
    """The speed is theta itself; the loss is whatever `log_loss` says of theta."""

    trainable, data = ("weights",), ()

    def __init__(self, log_loss=lambda theta: 0.0 * theta) -> None:
        self.log_loss = log_loss

    def net_with(self, params):
        return network(params[0])

    def evaluate(self, params):
        [theta] = params
        return At(np.asarray(self.log_loss(theta[..., 0, 0])), (-theta,))


def _flow_step(h, log_loss=lambda theta: 0.0 * theta):
    objective, start = Linear(log_loss), (np.ones((1, 1)),)
    speed = lambda params, evaluation: params  # noqa: E731
    return step(objective, start, objective.evaluate(start), speed, np.asarray(h))


def test_a_flow_step_is_of_third_order_and_its_error_of_the_third_power():
    """On theta' = theta the pair gives 1 + h + h^2/2 + h^3/6, and a defect of -h^3/48."""
    for h in (1.0, 0.1):
        assert _flow_step(h).params[0][0, 0] == pytest.approx(1 + h + h**2 / 2 + h**3 / 6, rel=1e-14)
    for h in (1e-2, 1e-3):
        assert _flow_step(h).defects[0][0, 0] == pytest.approx(-(h**3) / 48, rel=3 * h)


def test_time_passes_by_the_quadrature_of_the_step():
    """dt = ds / L with L = 1 / theta: stages at 1, 1.5 and 2.125 for h = 1."""
    taken = _flow_step(1.0, lambda theta: -np.log(theta))
    assert math.exp(taken.log_elapsed) == pytest.approx(2 / 9 + 1.5 / 3 + 2.125 * 4 / 9, rel=1e-14)


@pytest.mark.parametrize(("after", "accepted"), [(-1.0, True), (-1.0 + 1e-12, False), (-2.0, True), (math.nan, False)])
def test_a_loss_that_rose_by_a_hair_is_rejected(after, accepted):
    rule = LossBased(0.1)
    before, nothing = At(np.array(-1.0)), np.array(0.0)
    proposal = Proposal((), At(np.array(after)), (), nothing, None)
    verdict = rule.judge(np.array(0.5), before, proposal)
    assert bool(verdict.accepted) is accepted
    change = math.log(2) / 5 if accepted else -math.log(2) / 10
    assert float(verdict.state) == pytest.approx(0.5 + change, rel=1e-14)
    assert float(rule.log_rate(np.array(0.5), before)) == 1.5  # log(rate / loss)


@pytest.mark.parametrize(
    ("error", "accepted", "factor"), [(1.0, True, 0.9), (1.0 + 1e-9, False, 0.9), (8.0, False, 0.45), (1e-9, True, 5.0)]
)
def test_the_error_decides_at_its_tolerance(error, accepted, factor):
    """The next size aims at 0.9 of the third root, within a factor of five."""
    here = At(np.array(0.0))
    proposal = Proposal((), here, (), np.array(0.0), np.array(error))
    verdict = ErrorControl().judge(np.array(0.0), here, proposal)
    assert bool(verdict.accepted) is accepted
    assert math.exp(verdict.state) == pytest.approx(factor, rel=1e-6)


class Onwards(Stepper):
    """Adds one to every parameter and to what it remembers, in the time that it is given."""

    name = "onwards"

    def __init__(self, log_elapsed: float) -> None:
        self.log_elapsed = log_elapsed

    def init(self, params, evaluation):
        return tuple(np.zeros_like(p) for p in params)

    def propose(self, objective, start):
        moved, memory = (start.params[0] + 1.0,), (start.memory[0] + 1.0,)
        elapsed = np.full_like(start.log_rate, self.log_elapsed)
        return Proposal(moved, objective.evaluate(moved), memory, elapsed, None)


class Deciding(Controller):
    """Accepts for some seeds; each judgement raises the log rate by a half."""

    name = "deciding"

    def __init__(self, accepted) -> None:
        self.accepted = np.array(accepted)

    def init(self, evaluation):
        return np.zeros_like(evaluation.log_loss)

    def log_rate(self, state, evaluation):
        return state

    def judge(self, state, before, proposal):
        return Judgement(self.accepted, state + 0.5)


class Watching:
    """A recorder that keeps what it was shown."""

    def __init__(self) -> None:
        self.views = []

    def start(self, params, evaluation):
        pass

    def see(self, view):
        self.views.append(view)

    def arrays(self):
        return {}

    def restore(self, arrays):
        pass


def _attempt(accepted, elapsed=0.0, stop=None, outcomes=None, log_time=None, cap=None):
    objective = Linear(lambda theta: -theta)
    params = (np.zeros((2, 1, 1)),)
    evaluation = objective.evaluate(params)
    stepper, controller = Onwards(elapsed), Deciding(accepted)
    state = _begin(params, evaluation, stepper, controller)
    if outcomes is not None:
        for i, name in enumerate(outcomes):
            state.end(Outcome[name], np.arange(2) == i)
    if log_time is not None:
        state.log_time = np.array(log_time)
    if cap is not None:
        state.cap = np.array(cap)
    seen = Watching()
    stop = stop or Stop(9)
    after = _advance(state, objective, evaluation, stepper, controller, stop, [seen])
    return state, after, seen


def test_only_seeds_that_accept_move_remember_count_and_age():
    state, after, seen = _attempt([True, False])
    np.testing.assert_array_equal(state.params[0].ravel(), [1.0, 0.0])
    np.testing.assert_array_equal(state.memory[0].ravel(), [1.0, 0.0])
    np.testing.assert_array_equal(state.steps, [1, 0])
    np.testing.assert_array_equal(state.log_time, [0.0, -np.inf])
    np.testing.assert_array_equal(state.rate, [0.5, 0.5])  # a refusal changes the rate, too
    np.testing.assert_array_equal(after.log_loss, [-1.0, 0.0])
    np.testing.assert_array_equal(seen.views[0].factor, [1.0, 0.0])
    np.testing.assert_array_equal(seen.views[0].accepted, [True, False])


def test_a_seed_that_ended_stays_as_it_is():
    state, *_ = _attempt([True, True], outcomes=["RUNNING", "TARGET_LOSS"])
    np.testing.assert_array_equal(state.params[0].ravel(), [1.0, 0.0])
    np.testing.assert_array_equal(state.rate, [0.5, 0.0])


def test_a_step_past_the_end_of_time_is_taken_back_and_capped():
    """From t = 1 a step of 2 goes past 2: the cap is below its rate, which stays."""
    two = math.log(2.0)
    state, *_ = _attempt([True, True], two, Stop(9, log_time=two), log_time=[0.0, -np.inf])
    np.testing.assert_array_equal(state.steps, [0, 1])
    assert state.cap[0] < 0.0
    assert state.cap[1] == np.inf
    np.testing.assert_array_equal(state.rate, [0.0, 0.5])


def test_a_cap_holds_for_the_seed_that_has_it():
    state, _, seen = _attempt([True, True], stop=Stop(9, log_time=100.0), cap=[-1.0, np.inf])
    np.testing.assert_array_equal(state.log_rate[0], [-1.0, 0.0])
    np.testing.assert_allclose(seen.views[0].factor, [math.exp(-1.0), 1.0])
    np.testing.assert_array_equal(state.cap, [np.inf, np.inf])


def test_the_landing_rate_is_where_the_time_ends():
    """The loss falls by exp(-1) along a step of rate 1: f = log(1 + left) of it takes the time."""
    state, *_ = _attempt([True, True], 0.5, Stop(9, log_time=0.1), log_time=[0.0, 0.0])
    left = math.exp(0.1) - 1.0
    np.testing.assert_allclose(state.cap, math.log(math.log1p(left)), rtol=1e-12)


def test_every_end_has_its_name():
    start = (np.zeros((4, 1, 1)),)
    state = _begin(start, At(np.zeros(4)), Onwards(0.0), Deciding([True] * 4))
    state.log_time = np.array([0.0, 0.0, 3.0, 0.0])
    state.steps = np.array([0, 0, 0, 7])
    stop = Stop(7, log_loss=-5.0, log_time=3.0)
    assert _finish(state, At(np.array([np.nan, -5.0, -4.9, -1.0])), stop)
    expected = [Outcome.DIVERGED, Outcome.TARGET_LOSS, Outcome.TIME_REACHED, Outcome.STEPS_DONE]
    assert state.outcomes.tolist() == [outcome.name for outcome in expected]


def test_a_run_state_comes_back_whole():
    """Every field is another number, so that one that is lost or exchanged shows."""
    names = ("rate", "cap", "log_time", "steps", "last_saved", "last_saved_time")
    whole = ("steps", "last_saved")
    fields = {name: np.array([10.0 * i, 10.0 * i + 1]) for i, name in enumerate(names, 1)}
    fields |= {name: fields[name].astype(int) for name in whole}
    memory, saved = (np.full((2, 1), 8.0),), [(np.full((2, 1), 9.0),)]
    lists = {
        name: [np.array([100.0 * i, 100.0 * i + 1])]
        for i, name in enumerate(("log_loss", "log_rate", "saved_steps", "saved_times"), 1)
    }
    lists |= {"moved": [np.array([True, False])], "saved_for": [np.array([False, True])]}
    state = RunState(
        (np.full((2, 1), 7.0),), memory, outcomes=np.array(["RUNNING", "DIVERGED"]), saved=saved, **fields, **lists
    )
    blank = {name: np.zeros_like(value) for name, value in fields.items()}
    again = RunState((np.zeros((2, 1)),), (np.zeros((2, 1)),), outcomes=np.array([""] * 2), **blank)
    restore(again, [], *pack(state, []))
    for name in names:
        np.testing.assert_array_equal(getattr(again, name), fields[name])
    for name, rows in lists.items():
        np.testing.assert_array_equal(getattr(again, name), rows)
    np.testing.assert_array_equal(again.params[0], state.params[0])
    np.testing.assert_array_equal(again.memory[0], memory[0])
    np.testing.assert_array_equal(again.saved[0][0], saved[0][0])
    assert again.outcomes.tolist() == ["RUNNING", "DIVERGED"]


def test_a_state_is_saved_once_and_for_those_who_want_it():
    state, *_ = _attempt([True, False])
    for wanted in ([True, True], [True, True], [True, False]):
        state.save(np.array(wanted))
    assert len(state.saved) == 1
    np.testing.assert_array_equal(state.last_saved, [1, 0])


def test_rows_of_companions_are_dropped():
    rows, mine = np.array([[1, 1], [2, 5], [3, 6]]), np.array([[1, 1], [1, 0], [1, 1]], bool)
    np.testing.assert_array_equal(own_rows(rows, mine), [[1, 1], [2, 6], [3, 6]])
    np.testing.assert_array_equal(own_rows(rows, mine, rest=-9.0), [[1, 1], [2, 6], [3, -9]])


def _short(rows, outcome):
    values = np.arange(1.0, rows + 1)
    return Trajectory(
        np.arange(rows), values, {"weights": values[:, None, None]}, network(np.zeros((1, 1))), -values,
        -values[1:], (outcome,), {"seeds": [rows]},
    )  # fmt: skip


def test_joined_runs_stay_where_they_ended():
    both = joined([_short(2, Outcome.STEPS_DONE), _short(3, Outcome.DIVERGED)])
    np.testing.assert_array_equal(both.steps, [[0, 0], [1, 1], [1, 2]])
    np.testing.assert_array_equal(both.log_times, [[1, 1], [2, 2], [2, 3]])
    np.testing.assert_array_equal(both.parameters["weights"][..., 0, 0], [[1, 1], [2, 2], [2, 3]])
    np.testing.assert_array_equal(both.log_loss, [[-1, -1], [-2, -2], [-2, -3]])
    np.testing.assert_array_equal(both.log_rate, [[-2, -2], [-np.inf, -3]])
    assert both.settings["seeds"] == [2, 3]
    # A seed that ended badly is not hidden behind the first one.
    assert both.outcome is Outcome.DIVERGED


def test_a_run_that_is_done_takes_no_step():
    objective = Linear(lambda theta: -5.0 - theta)
    ended = run(
        objective, (np.zeros((2, 1, 1)),), stepper="gd", controller="constant:rate=1.0", stop=Stop(3, log_loss=-5.0)
    )
    assert set(ended.outcomes) == {Outcome.TARGET_LOSS}
    assert len(ended.log_rate) == 0


def _growing(steps=4, rate=0.1, number=0.0, **options):
    """theta <- theta + rate L theta with L = exp(-theta), on data that is one number."""
    objective = Linear(lambda theta: -theta)
    objective.data = (np.full(1, number),)
    rule = f"constant:rate={rate}"
    return run(objective, (np.ones((1, 1)),), stepper="gd", controller=rule, stop=Stop(steps), **options)


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    def die(share, note):
        if share >= 0.5:
            raise KeyboardInterrupt

    whole = _growing()
    with pytest.raises(KeyboardInterrupt):
        _growing(checkpoint=Checkpoint(tmp_path / "state", 0.0), progress=die)
    resumed = _growing(checkpoint=Checkpoint(tmp_path / "state", 0.0))
    np.testing.assert_array_equal(resumed.log_loss, whole.log_loss)
    np.testing.assert_array_equal(resumed.net.weights, whole.net.weights)


@pytest.mark.parametrize("change", [{"rate": 0.2}, {"number": 1.0}, {"steps": 5}], ids=str)
def test_a_checkpoint_belongs_to_its_rules_and_its_data(tmp_path, change):
    _growing(checkpoint=Checkpoint(tmp_path / "state", 0.0))
    with pytest.raises(InputError, match="checkpoint of another run"):
        _growing(**change, checkpoint=Checkpoint(tmp_path / "state", 0.0))


def test_a_fingerprint_sees_shapes_values_and_words():
    names = [
        fingerprint([np.zeros((2, 3))], "word"),
        fingerprint([np.zeros((3, 2))], "word"),
        fingerprint([np.ones((2, 3))], "word"),
        fingerprint([np.zeros((2, 3))], "other"),
    ]
    assert len(set(names)) == 4


@pytest.mark.parametrize(("labels", "neurons"), [("coarse", 5), ("fine", 2)])
def test_the_rate_of_a_head_undoes_its_second_layer(monkeypatch, labels, neurons):
    """rate * m (or h) / mean |x|^2, here 0.5 * neurons / 2.5."""
    rates = []

    def look(objective, params, *, controller, **rest):
        rates.append(controller.rate)
        raise InterruptedError

    monkeypatch.setattr(heads, "run", look)
    x, classes = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([0, 1])
    recipe = heads.HeadRecipe(m=5, h=2, rate=0.5)
    with pytest.raises(InterruptedError):
        heads.train_head(x, classes, np.array([0, 1]), labels, recipe, seed=0)
    assert rates == [pytest.approx(0.5 * neurons / 2.5)]
