"""The driver: steppers, controllers, rejections, outcomes, batches, and resuming to the same bits."""

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.training.test_optimizers import TWINS

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw, draw_many
from featavg.data.labels import Labels
from featavg.errors import InputError
from featavg.paper.theorems.recorders import Coefficients
from featavg.storage.cache import Checkpoint
from featavg.storage.folders import ARRAYS, META
from featavg.training.controllers import Constant, LossBased
from featavg.training.driver import SaveAt
from featavg.training.parts import Controller, Judgement
from featavg.training.recipe import Recipe
from featavg.training.steppers import Adam, GradientDescent, Momentum
from featavg.training.steppers.flow import GradientFlow
from featavg.training.train import train
from featavg.training.trajectory import Outcome, load_trajectory

TASK = MultiCluster(k=4, d=300)
SMALL = {"n": 40, "m": 3, "lr": 0.01, "sigma_w": 1e-3, "sigma_b": 1e-3}

RUNS = {
    "gd": {"stepper": GradientDescent()},
    "momentum": {"stepper": Momentum()},
    "adam": {"stepper": Adam(), "lr": 1e-3},
    "flow": {"stepper": GradientFlow(), "time": 5.0, "steps": 1000},
    "loss-based": {"controller": LossBased(0.001)},
    "fine": {"labels": "fine", "h": 2},
    "both layers": {"layers": "both"},
    "both layers, fine": {"labels": "fine", "layers": "both"},
    "exponential": {"loss": "exponential"},
}


@pytest.mark.parametrize("name", RUNS)
def test_every_kind_of_run_lowers_the_loss(name: str) -> None:
    run = train(TASK, seed=0, **(SMALL | {"steps": 60} | RUNS[name]))
    assert run.outcome in (Outcome.STEPS_DONE, Outcome.TIME_REACHED)
    assert run.log_loss[-1] < run.log_loss[0] - 0.3
    assert len(run.log_loss) == run.steps[-1] + 1


BATCHES = {
    **RUNS,
    **{f"optimizer: {name}": options for name, (options, _) in TWINS.items()},
    "labels": {"labels": Labels(share=0.3, wrong=0.1)},
}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_of_seeds_is_each_of_them(name: str) -> None:
    options = SMALL | {"steps": 25} | BATCHES[name]
    together = train(TASK, seed=(0, 1, 2), **options)
    for i in range(3):
        alone = train(TASK, seed=i, **options)
        rows = len(alone.log_loss)
        np.testing.assert_array_equal(together.net[i].weights, alone.net.weights)
        np.testing.assert_array_equal(together.log_loss[:rows, i], alone.log_loss)
        np.testing.assert_array_equal(together.log_loss[rows:, i], alone.log_loss[-1])
        assert together.steps[-1, i] == alone.steps[-1]
        assert together.outcomes[i] == alone.outcome


@pytest.mark.parametrize(
    "options",
    [
        {"controller": "loss-based", "lr": 0.1, "steps": 60},
        {"controller": "loss-based", "lr": 0.1, "steps": 60, "stepper": "momentum"},
        {"controller": "loss-based", "lr": 0.1, "steps": 30, "stepper": "adam"},
        {"stepper": "flow", "time": 5.0, "steps": 40},
    ],
    ids=str,
)
def test_seeds_that_reject_steps_do_not_wait_for_their_companions(options) -> None:
    """Every seed takes its own steps: a batch once counted those that any seed accepted."""
    task = MultiCluster(k=4, d=60)
    save_at = SaveAt(every=7, per_decade=2)
    batch = draw_many(task, 20, 10, (0, 1, 2, 3), "ambient")
    together = train(batch, Recipe(**options), save_at=save_at)
    for i in range(4):
        alone = train(draw(task, 20, 10, i, "ambient"), Recipe(**options), save_at=save_at)
        rows, saves = len(alone.log_loss), len(alone.steps)
        np.testing.assert_array_equal(together.log_loss[:rows, i], alone.log_loss)
        np.testing.assert_array_equal(together.log_rate[: rows - 1, i], alone.log_rate)
        np.testing.assert_array_equal(together.steps[:saves, i], alone.steps)
        np.testing.assert_array_equal(together.log_times[:saves, i], alone.log_times)
        for name, array in alone.parameters.items():
            np.testing.assert_array_equal(together.parameters[name][:saves, i], array)
            np.testing.assert_array_equal(together.parameters[name][-1, i], array[-1])
        assert together.outcomes[i] is alone.outcome


def test_seeds_run_in_groups_are_the_batch_they_are_cut_from(monkeypatch) -> None:
    options = SMALL | {"seed": range(5), "steps": 12, "save_at": SaveAt(every=5)}
    whole = train(TASK, **options)
    monkeypatch.setattr("featavg.training.train._CACHE", 2 * 8 * 40 * 50)
    cut = train(TASK, **options)
    for part in ("steps", "log_times", "log_loss", "log_rate"):
        np.testing.assert_allclose(getattr(whole, part), getattr(cut, part), rtol=1e-12)
    np.testing.assert_allclose(whole.net.weights, cut.net.weights, rtol=1e-9, atol=1e-15)
    assert cut.settings["seeds"] == [0, 1, 2, 3, 4] == whole.settings["seeds"]
    assert len(cut.outcomes) == 5


def test_a_seed_that_ends_early_stays_where_it_ended(monkeypatch) -> None:
    monkeypatch.setattr("featavg.training.train._CACHE", 1)
    options = SMALL | {"seed": range(3), "steps": 30}
    levels = train(TASK, **options).log_loss[-1]
    cut = train(TASK, **options, target_log_loss=float(np.sort(levels)[1]) + 0.01)
    assert Outcome.TARGET_LOSS in cut.outcomes
    assert cut.log_loss.shape[1] == 3
    assert np.isfinite(cut.log_loss).all()


@pytest.mark.parametrize("sigma_b", [1e-5, 0.0], ids=["random biases", "biases at zero"])
def test_gradient_flow_is_the_limit_of_small_steps(sigma_b: float) -> None:
    data = draw(TASK, 40, 6, seed=0)
    start: dict[str, Any] = {"m": 3, "sigma_w": 1e-3, "sigma_b": sigma_b}
    flow = train(data, **start, stepper=GradientFlow(), time=0.5, steps=10_000)
    small = train(data, **start, lr=5e-4, steps=1000)
    np.testing.assert_allclose(flow.log_loss[-1], small.log_loss[-1], rtol=1e-2)
    np.testing.assert_allclose(flow.net.weights, small.net.weights, atol=5e-3)
    assert abs(flow.log_times[-1] - math.log(0.5)) < 2e-3


def test_the_loss_based_rate_never_lets_the_loss_rise_and_goes_far() -> None:
    run = train(TASK, seed=0, controller=LossBased(0.01), **(SMALL | {"steps": 4000}), target_log_loss=-2030.0)
    assert run.outcome is Outcome.TARGET_LOSS
    assert (np.diff(run.log_loss) <= 0).all()


class Bouncing(Controller):
    """A controller that refuses every second proposal, to see that a refusal leaves no trace."""

    name = "bouncing"

    def __init__(self) -> None:
        self.calls = 0

    def init(self, evaluation):
        return np.full_like(evaluation.log_loss, math.log(0.01))

    def log_rate(self, state, evaluation):
        return state

    def judge(self, state, before, proposal):
        self.calls += 1
        return Judgement(np.full(state.shape, self.calls % 2 == 0), state)


def test_a_rejected_step_leaves_no_trace() -> None:
    options = {key: value for key, value in SMALL.items() if key != "lr"}
    plain = train(TASK, seed=0, steps=10, lr=0.01, **options)
    bounced = train(TASK, seed=0, steps=10, controller=Bouncing(), **options)
    np.testing.assert_array_equal(plain.net.weights, bounced.net.weights)


def test_divergence_has_a_name() -> None:
    run = train(TASK, seed=0, steps=50, **(SMALL | {"lr": 1e200}), layers="both")
    assert run.outcome is Outcome.DIVERGED


def test_states_are_saved_when_asked() -> None:
    run = train(TASK, seed=0, steps=10, save_at=SaveAt(every=4, steps=(7,)), **SMALL)
    assert run.steps.tolist() == [0, 4, 7, 8, 10]
    flow = train(TASK, seed=0, save_at=SaveAt(per_decade=1), **(SMALL | RUNS["flow"] | {"time": 1e6}))
    assert 4 <= len(flow) <= len(flow.log_loss)


class Killed(Exception):  # noqa: N818
    """The run dies here."""


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("seed", [0, (0, 1)], ids=["one seed", "two seeds"])
def test_a_killed_run_resumes_to_the_same_bits(name: str, seed, tmp_path) -> None:
    options = SMALL | {"steps": 20} | RUNS[name] | {"seed": seed, "save_at": SaveAt(every=3)}
    options["steps"] = min(options["steps"], 40)
    whole = train(TASK, **options)

    def die(fraction: float, note: str) -> None:
        nonlocal steps
        steps += 1
        if steps == 12:
            raise Killed

    steps = 0
    checkpoint = Checkpoint(tmp_path / "state", seconds=0.0)
    with pytest.raises(Killed):
        train(TASK, **options, checkpoint=checkpoint, progress=die)
    resumed = train(TASK, **options, checkpoint=Checkpoint(tmp_path / "state", seconds=0.0))
    for part in ("steps", "log_times", "log_loss", "log_rate"):
        np.testing.assert_array_equal(getattr(whole, part), getattr(resumed, part))
    for part, array in whole.parameters.items():
        np.testing.assert_array_equal(array, resumed.parameters[part])


def test_recorders_resume_with_the_run(tmp_path) -> None:
    data = draw(TASK, 40, 6, seed=0)
    recipe = Recipe(m=3, lr=0.01, steps=20)
    whole, cut = Coefficients(data), Coefficients(data)
    train(data, recipe, recorders=(whole,))

    def die(fraction: float, note: str) -> None:
        if fraction >= 0.5:
            raise Killed

    with pytest.raises(Killed):
        train(data, recipe, recorders=(cut,), checkpoint=Checkpoint(tmp_path / "s", 0.0), progress=die)
    again = Coefficients(data)
    train(data, recipe, recorders=(again,), checkpoint=Checkpoint(tmp_path / "s", 0.0))
    np.testing.assert_array_equal(whole.history, again.history)
    np.testing.assert_array_equal(whole.sigma, again.sigma)


def test_a_checkpoint_of_another_run_is_refused_and_kept(tmp_path) -> None:
    folder = tmp_path / "state"
    train(TASK, seed=0, steps=5, checkpoint=Checkpoint(folder, 0.0), **SMALL)
    before = sorted((path.name, path.read_bytes()) for path in folder.iterdir())
    with pytest.raises(InputError, match="holds the checkpoint of another run"):
        train(TASK, seed=1, steps=5, checkpoint=Checkpoint(folder, 0.0), **SMALL)
    assert sorted((path.name, path.read_bytes()) for path in folder.iterdir()) == before


def test_an_empty_folder_holds_no_checkpoint_and_takes_one(tmp_path) -> None:
    run = train(TASK, seed=0, steps=5, checkpoint=Checkpoint(tmp_path, 0.0), **SMALL)
    assert run.outcome is Outcome.STEPS_DONE
    (tmp_path / "mine.txt").write_text("mine")
    for name in (ARRAYS, META):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"has no meta\.json"):
        train(TASK, seed=0, steps=5, checkpoint=Checkpoint(tmp_path, 0.0), **SMALL)
    assert (tmp_path / "mine.txt").read_text() == "mine"


CORRUPTED = {
    "NaN": lambda arrays, meta: arrays["params/0"].fill(np.nan),
    "flipped weights": lambda arrays, meta: np.negative(arrays["params/0"], out=arrays["params/0"]),
    "another step": lambda arrays, meta: meta.update(step=-5),
    "another count": lambda arrays, meta: arrays["steps"].fill(-5),
}


def _meta(folder: Path):
    return json.loads((folder / META).read_text())


@pytest.mark.parametrize("name", CORRUPTED)
def test_a_checkpoint_that_is_not_what_was_written_is_refused(name: str, tmp_path) -> None:
    folder = tmp_path / "state"
    train(TASK, seed=0, steps=5, checkpoint=Checkpoint(folder, 0.0), **SMALL)
    arrays, meta = {k: v.copy() for k, v in load_file(folder / ARRAYS).items()}, _meta(folder)
    CORRUPTED[name](arrays, meta)
    save_file(arrays, folder / ARRAYS)
    (folder / META).write_text(json.dumps(meta))
    with pytest.raises(InputError, match="is damaged"):
        train(TASK, seed=0, steps=5, checkpoint=Checkpoint(folder, 0.0), **SMALL)


def test_a_trajectory_survives_the_disk(tmp_path) -> None:
    run = train(TASK, seed=(0, 1), steps=5, save_at=SaveAt(every=2), **SMALL)
    run.save(tmp_path / "run")
    again = load_trajectory(tmp_path / "run")
    np.testing.assert_array_equal(again.net.weights, run.net.weights)
    np.testing.assert_array_equal(again.log_loss, run.log_loss)
    assert again.settings == run.settings
    assert again.outcomes == run.outcomes


DAMAGE = {
    "truncated arrays": lambda f: (f / "arrays.safetensors").write_bytes(b"\x00" * 20),
    "no arrays": lambda f: (f / "arrays.safetensors").unlink(),
    "no meta": lambda f: (f / "meta.json").unlink(),
    "broken meta": lambda f: (f / "meta.json").write_text("{"),
    "foreign meta": lambda f: (f / "meta.json").write_text("[]"),
    "another kind": lambda f: (f / "meta.json").write_text("{}"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_result_is_named(name: str, tmp_path) -> None:
    train(TASK, seed=0, steps=2, **SMALL).save(tmp_path / "run")
    DAMAGE[name](tmp_path / "run")
    with pytest.raises(InputError) as caught:
        load_trajectory(tmp_path / "run")
    assert str(tmp_path / "run") in str(caught.value)


REFUSED = {
    "labels": ({"labels": "medium"}, "labels is 'medium'"),
    "no neurons": ({"m": 0}, "m is 0"),
    "negative rate": ({"lr": -1.0}, "lr is -1.0"),
    "negative steps": ({"steps": -1}, "steps is -1"),
    "unknown": ({"rate": 1.0}, "rate is not part of a recipe"),
    "adam compressed": ({"stepper": Adam(), "coordinates": "compressed"}, "stepper is adam"),
    "no seeds": ({"seed": ()}, "seeds are empty"),
    "negative seed": ({"seed": -1}, "seed is -1"),
    "a rate of NaN": ({"lr": math.nan}, "lr is nan"),
    "no error": ({"controller": "error"}, "controller is error with stepper gd: it needs the stepper flow"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_recipe_is_refused(name: str) -> None:
    options, words = REFUSED[name]
    with pytest.raises(InputError) as caught:
        train(TASK, **({"n": 20} | options))
    assert str(caught.value).startswith(words)


def test_steps_that_are_no_number_are_refused_and_do_not_hang() -> None:
    """Without the shape checker of the tests, which would speak first."""
    code = (
        "import featavg as fa\n"
        "for steps in (float('nan'), 2.5, True):\n"
        "    try:\n        fa.train(fa.MultiCluster(k=2, d=9), n=9, steps=steps)\n"
        "    except fa.InputError as error:\n        print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "steps is nan",
        "steps is 2.5",
        "steps is true",
    ]


def test_nan_in_the_data_is_refused() -> None:
    data = draw(TASK, 20, 10, seed=0)
    data.x[3, 4] = np.nan
    with pytest.raises(InputError, match="x holds NaN"):
        train(data)


def test_settings_say_what_was_run() -> None:
    run = train(TASK, seed=3, steps=2, controller=Constant(0.5), **SMALL)
    assert run.settings["seeds"] == [3]
    assert run.settings["recipe"]["controller"] == "constant:rate=0.5"
    assert run.settings["coordinates"] == "compressed"
