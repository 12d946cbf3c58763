"""The margin network: passes against autograd, scaled losses against plain ones, kill and resume."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.bad_inputs.files import DAMAGE  # noqa: E402

from featavg.data.image_sets.loading import load  # noqa: E402
from featavg.data.images import Images  # noqa: E402
from featavg.data.streams import stream  # noqa: E402
from featavg.errors import InputError  # noqa: E402
from featavg.paper.engine.claim import Context, NotRun  # noqa: E402
from featavg.paper.margins import table  # noqa: E402
from featavg.paper.margins.network import epoch as margin_epoch  # noqa: E402
from featavg.paper.margins.network import passes  # noqa: E402
from featavg.paper.margins.network.epoch import batch_margins, scaled_loss  # noqa: E402
from featavg.paper.margins.network.fit import CHECKPOINT, attempt, begin, fit, settle  # noqa: E402
from featavg.paper.margins.network.passes import module_of, outputs  # noqa: E402
from featavg.paper.margins.network.run import (  # noqa: E402
    MarginCNN,
    MarginRun,
    MarginSettings,
    SupportRule,
    images_of,
    parameter_norm,
    read_run,
    settings_of,
    tensors,
    write_run,
)
from featavg.paper.margins.network.support import play_round, support_of  # noqa: E402
from featavg.paper.margins.table import PUBLISHED_MARGINS, attack_radii  # noqa: E402
from featavg.training.controllers._rules import Constant  # noqa: E402
from featavg.training.trajectory import Outcome  # noqa: E402

TINY = MarginCNN(size=8, channels=(3, 4), hidden=12)
SETTINGS = MarginSettings(network=TINY, threads=1, batch=50)


@functools.cache
def digits(count: int = 300) -> Images:
    return load("digits").train[slice(0, count)]


def batch(n: int = 20) -> tuple[torch.Tensor, torch.Tensor]:
    draw = np.random.default_rng(0)
    x = torch.tensor(draw.random((n, 8, 8, 1)), dtype=torch.float32).permute(0, 3, 1, 2)
    return x, torch.tensor(draw.integers(0, 10, n))


def test_published_shape() -> None:
    shapes = MarginCNN().shapes()
    assert shapes["fc1.weight"] == (1024, 7 * 7 * 64)
    assert [name for name in shapes if name.endswith("bias")] == ["conv1.bias"]
    assert settings_of(json.loads(json.dumps(SUPPORT.plain()))) == SUPPORT


def test_initial_weights_have_he_s_deviation() -> None:
    params = MarginCNN().initial(0)
    assert params["fc1.weight"].std() == pytest.approx(math.sqrt(2 / 3136), rel=0.01)
    assert np.abs(params["fc1.weight"]).max() <= 2 * math.sqrt(2 / 3136) / 0.8796 + 1e-6
    assert not params["conv1.bias"].any()


@pytest.mark.parametrize("biases", ["first", "all"])
def test_pass_against_autograd(biases: str) -> None:
    network = MarginCNN(size=8, channels=(3, 4), hidden=12, biases=biases)
    params = network.initial(1)
    x, y = batch()
    slow = {name: torch.tensor(array, requires_grad=True) for name, array in params.items()}
    loss = torch.nn.functional.cross_entropy(outputs(slow, x), y)
    gradients = torch.autograd.grad(loss, list(slow.values()))
    fast = tensors(params)
    kept = passes.forward(fast, x)
    assert torch.allclose(kept.outputs, outputs(slow, x), atol=1e-5)
    passes.descend(fast, kept, scaled_loss(kept.outputs, y, 0.0).slopes / len(y), 0.5)
    for (name, array), gradient in zip(params.items(), gradients, strict=True):
        assert torch.allclose(fast[name], torch.tensor(array) - 0.5 * gradient, atol=1e-6), name


def test_outputs_are_homogeneous_of_order_four() -> None:
    params, (x, _) = TINY.initial(0), batch()
    params["conv1.bias"] += 0.3
    twice = {name: 2.0 * array for name, array in params.items()}
    assert torch.allclose(module_of(twice)(x), 16.0 * module_of(params)(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 30.0, 2000.0])
def test_scaled_loss_against_high_precision(scale: float) -> None:
    draw = np.random.default_rng(0)
    out = torch.tensor(draw.standard_normal((6, 10)) * scale)
    y = out.argmax(dim=1)
    y[0] = (y[0] + 1) % 10
    found = scaled_loss(out, y, -5.0)
    for i in range(6):
        s = torch.logsumexp(torch.cat([out[i, : y[i]], out[i, y[i] + 1 :]]) - out[i, y[i]], 0)
        log_loss = float(s) if s < -40 else math.log(float(torch.logaddexp(torch.zeros(()), s)))
        assert float(found.log_losses[i]) == pytest.approx(log_loss, rel=1e-9)
    free = out.clone().requires_grad_()
    torch.nn.functional.cross_entropy(free, y, reduction="sum").backward()
    assert torch.allclose(found.slopes * math.exp(-5.0), free.grad, atol=1e-12)
    others = out.scatter(1, y[:, None], -math.inf).amax(dim=1)
    assert torch.allclose(batch_margins(out, y), out.gather(1, y[:, None])[:, 0] - others)


def test_a_loss_of_1e_minus_900_still_has_a_gradient() -> None:
    out = torch.tensor([[2100.0, 0.0, 1.0]])
    found = scaled_loss(out, torch.tensor([0]), -2099.0)
    assert float(found.log_losses[0]) / math.log(10) < -900
    assert float(found.weights[0]) == pytest.approx(1 + math.exp(-1), rel=1e-9)


def test_light_samples_change_a_pass_by_round_off_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass over fitted data with margins far apart, and the same with every sample in it."""
    params = {name: 4.2 * array for name, array in TINY.initial(0).items()}
    data = images_of(digits())
    with torch.no_grad():
        fitted = outputs(tensors(params), data.x.permute(0, 3, 1, 2)).argmax(dim=1)
    data = data._replace(y=fitted)
    before = margin_epoch.measure(tensors(params), data)
    assert before is not None
    log_scale, order = before.log_loss, np.random.default_rng(0).permutation(len(data.y))
    light = margin_epoch.light_samples(before.log_losses, log_scale)
    assert 10 < light.sum() < len(light)
    ends = []
    for left_out in (light, np.zeros_like(light)):
        moved = tensors(params)
        assert margin_epoch.descend_once(moved, data, order, left_out, log_scale=log_scale, rate=1e-6, batch=50)
        ends.append(moved)
        monkeypatch.setattr(margin_epoch, "that_matter", lambda weights, size: None)
    for name, array in params.items():
        step = (ends[1][name] - torch.tensor(array)).abs().max()
        assert step > 0
        assert (ends[0][name] - ends[1][name]).abs().max() <= 1e-2 * step, name
    after = margin_epoch.measure(ends[0], data, before.log_losses)
    assert after is not None
    assert not margin_epoch.light_samples_matter(after, light, log_scale)
    assert margin_epoch.measure(ends[0], data, before.log_losses, after.log_loss - 0.1) is None


def test_loss_based_rate_accepts_and_takes_back() -> None:
    run = begin(SETTINGS)
    data = images_of(digits())
    losses, rates = [run.log_loss], [run.rate]
    for _ in range(25):
        before = {name: array.copy() for name, array in run.params.items()}
        counted = settle(run, attempt(run, data))
        assert run.rate / rates[-1] == pytest.approx(2 ** (0.2 if counted else -0.1))
        if not counted:
            assert all(np.array_equal(run.params[name], before[name]) for name in before)
        losses.append(run.log_loss)
        rates.append(run.rate)
    assert np.all(np.diff(losses) <= 0)
    entry = run.history[-1]
    assert entry["norm"] == pytest.approx(parameter_norm(run.params))
    assert entry["normalized_margin"] == pytest.approx(entry["smallest_margin"] / entry["norm"] ** 4)
    layers = ("conv1", "conv2", "fc1", "fc2")
    by_layer = [
        np.linalg.norm(np.concatenate([p.ravel() for n, p in run.params.items() if layer in n])) for layer in layers
    ]
    assert entry["product_margin"] == pytest.approx(entry["smallest_margin"] / np.prod(by_layer), rel=1e-5)


def test_side_by_side_is_the_same_bits_as_one_by_one(tmp_path: Path) -> None:
    alone = fit(tmp_path / "alone", SETTINGS, digits(), epochs=12)
    parallel = fit(tmp_path / "parallel", SETTINGS, digits(), epochs=12, workers=2)
    assert alone.passes > alone.epoch, "no attempt failed: this tests nothing"
    for name, array in alone.params.items():
        assert array.tobytes() == parallel.params[name].tobytes()
    unlike = {"seconds"}
    for one, other in zip(alone.history, parallel.history, strict=True):
        assert {k: v for k, v in one.items() if k not in unlike} == {k: v for k, v in other.items() if k not in unlike}


def test_stopped_and_resumed_is_the_same_bits(begun: tuple, tmp_path: Path) -> None:
    whole = fit(tmp_path / "whole", SETTINGS, digits(), epochs=6)
    shutil.copytree(begun[0], tmp_path / "parts")
    parts = fit(tmp_path / "parts", SETTINGS, digits(), epochs=6)
    for name, array in whole.params.items():
        assert array.tobytes() == parts.params[name].tobytes()
    assert [e["log10_loss"] for e in whole.history] == [e["log10_loss"] for e in parts.history]


CLAIM = """
import sys
from pathlib import Path
from featavg.paper.engine.claim import Context
from featavg.paper.margins import table
table.cores = lambda: int(sys.argv[3])
run = Context(seeds=(0,), data_dir=Path(sys.argv[1]))
table.margin_digits.run(run, passes=int(sys.argv[2]), channels=(3, 4), hidden=12)
"""


def start_claim(folder: Path, workers: int) -> subprocess.Popen[str]:
    (folder / "claim.py").write_text(CLAIM)
    return subprocess.Popen(
        [sys.executable, str(folder / "claim.py"), str(folder), "1000", str(workers)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that a shell put into the background were started deaf to it, and so are their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )


def wait_for_checkpoint(folder: Path, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + 600
    while not list(folder.glob(f"runs/*/{CHECKPOINT}")) and time.monotonic() < until:
        assert process.poll() is None
        time.sleep(0.02)


def test_a_claim_that_was_killed_continues_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "cores", lambda: 1)
    process = start_claim(tmp_path, workers=1)
    wait_for_checkpoint(tmp_path, process)
    process.kill()
    process.communicate()
    (folder,) = (tmp_path / "runs").glob("margin-digits-*")
    run, seen = Context(seeds=(0,), data_dir=tmp_path), []
    begun = read_run(folder / CHECKPOINT)
    passes = begun.epoch + 3
    run = replace(run, progress=lambda share, note: seen.append(note))
    with pytest.raises(NotRun, match=f"after {passes} passes; row 1 is at -10.04"):
        table.margin_digits.run(run, passes=passes, channels=(3, 4), hidden=12)
    assert seen[0].startswith(f"pass {begun.epoch + 1}, log10 loss")
    whole = fit(tmp_path / "whole", begun.settings, load("digits").train, epochs=passes)
    continued = read_run(folder / CHECKPOINT)
    assert whole.epoch == continued.epoch == passes
    for name, array in whole.params.items():
        assert array.tobytes() == continued.params[name].tobytes()


def test_ctrl_c_with_two_workers_is_one_traceback(tmp_path: Path) -> None:
    process = start_claim(tmp_path, workers=2)
    wait_for_checkpoint(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert told.splitlines()[-1] == "KeyboardInterrupt"
    assert told.count("Traceback") == 1, "a worker raised too"


def test_a_claim_shows_the_rows_that_are_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny run whose losses count as those of the table: with no pass left, nothing is trained."""
    losses = (0.0, -0.2)
    rows = tuple(row._replace(log10_loss=loss) for row, loss in zip(PUBLISHED_MARGINS, losses, strict=False))
    monkeypatch.setattr("featavg.paper.margins.table.PUBLISHED_MARGINS", rows)
    monkeypatch.setattr(table, "MarginSettings", functools.partial(MarginSettings, save_at=losses))
    monkeypatch.setattr(table, "cores", lambda: 1)
    monkeypatch.setattr(table, "ATTACKED_PICTURES", 20)
    run = Context(seeds=(0,), data_dir=tmp_path)
    size = {"channels": (8, 16), "hidden": 32}
    first = table.margin_digits.run(run, until=losses[-1], **size)
    again = table.margin_digits.run(run, passes=1, **size)
    rows = again.numbers["runs"][0].rows
    assert [row.model for row in rows] == [1, 2]
    assert len(rows[0].radii) == 20
    assert [check.measured for check in again.checks] == [check.measured for check in first.checks]
    (folder,) = (tmp_path / "runs").glob("margin-digits-*")
    assert (folder / "row-2-radii.json").exists()


def test_rows_are_saved_when_the_loss_passes_them(tmp_path: Path) -> None:
    settings = MarginSettings(network=TINY, threads=1, batch=50, save_at=(0.2, 0.1))
    run = fit(tmp_path, settings, digits(), epochs=60, until=0.1)
    assert run.log10_loss <= 0.1
    first = read_run(tmp_path / "row-1")
    assert first.log10_loss <= 0.2
    assert first.history[-1]["epoch"] == first.epoch


def test_bad_input_writes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / CHECKPOINT, begin(SETTINGS), "other data")
    before = sorted(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    with pytest.raises(InputError, match="was trained on other data"):
        fit(tmp_path, SETTINGS, digits(), epochs=1)
    assert sorted(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()) == before
    with pytest.raises(NotRun, match="is not there"):
        table.margin_table.run(Context(data_dir=tmp_path / "no"))
    assert not (tmp_path / "no").exists()


IMPOSSIBLE = {
    "epochs": lambda place: fit(place, SETTINGS, digits(), epochs=0),
    "workers": lambda place: fit(place, SETTINGS, digits(), epochs=1, workers=0),
    "until": lambda place: fit(place, SETTINGS, digits(), epochs=1, until=math.nan),
    "threads": lambda place: MarginSettings(threads=0),
    "hidden": lambda place: MarginCNN(hidden=0),
    "channels": lambda place: MarginCNN(channels=(1.5, 2)),
    "channels are": lambda place: MarginCNN(channels=(3,)),
    "biases": lambda place: MarginCNN(biases="some"),
    "for a network of 1 x 28 x 28": lambda place: fit(place, MarginSettings(), digits(), epochs=1),
    "are 3 x 8 x 8": lambda place: fit(place, SETTINGS, Images(np.zeros((2, 3, 8, 8)), np.arange(2)), epochs=1),
}


@pytest.mark.parametrize("words", IMPOSSIBLE)
def test_impossible_runs_are_refused(tmp_path: Path, words: str) -> None:
    with pytest.raises(InputError, match=words):
        IMPOSSIBLE[words](tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_picture_with_two_labels(tmp_path: Path) -> None:
    pictures = digits(20)
    pixels = pictures.pixels.copy()
    pixels[7] = pixels[3]
    twins = type(pictures)(pixels, np.arange(20) % 10)
    with pytest.raises(InputError, match=r"two labels \(3 and 7\)"):
        fit(tmp_path / "run", SETTINGS, twins, epochs=1)
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_network(tmp_path: Path) -> None:
    run = begin(SETTINGS)
    run.params["fc1.weight"] = run.params["fc1.weight"][:-1]
    write_run(tmp_path / "run", run, "data")
    with pytest.raises(InputError, match="another network"):
        read_run(tmp_path / "run")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MarginRun]:
    """A run of two epochs, and where its checkpoint is."""
    folder = tmp_path_factory.mktemp("begun")
    return folder, fit(folder, SETTINGS, digits(), epochs=2)


@pytest.mark.parametrize("file", ["meta.json", "arrays.safetensors"])
@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_checkpoint(begun: tuple, tmp_path: Path, file: str, how: str) -> None:
    shutil.copytree(begun[0], tmp_path, dirs_exist_ok=True)
    DAMAGE[how](tmp_path / CHECKPOINT / file)
    with pytest.raises(InputError):
        fit(tmp_path, SETTINGS, digits(), epochs=3)


def test_attack_radii_are_in_pixels() -> None:
    run = begin(SETTINGS)
    data = images_of(digits())
    for _ in range(30):
        settle(run, attempt(run, data))
    radii = attack_radii(run.params, load("digits").test[slice(0, 20)], budget=20)
    assert np.all(radii >= 0)
    assert np.median(radii) < 8.0


WIDER = MarginCNN(size=8, channels=(8, 16), hidden=32)
SUPPORT = MarginSettings(
    network=WIDER,
    threads=1,
    batch=20,
    support=SupportRule(share=0.05, least=30, passes=4, heaviest=20, first_share=0.1, first_until=-1),
)


def test_a_constant_rate_is_plain_sgd(tmp_path: Path) -> None:
    """One pass against autograd and a loop, in the same order of samples."""
    settings = replace(SETTINGS, controller=Constant(0.05))
    run = fit(tmp_path, settings, digits(100), epochs=1)
    data = images_of(digits(100))
    slow = {n: torch.tensor(a, requires_grad=True) for n, a in TINY.initial(0).items()}
    order = stream(0, "margin-pass-0-0").permutation(100)
    for start in (0, 50):
        x, y = data.rows(torch.from_numpy(order[start : start + 50]))
        loss = torch.nn.functional.cross_entropy(outputs(slow, x), y)
        gradients = torch.autograd.grad(loss, list(slow.values()))
        for p, gradient in zip(slow.values(), gradients, strict=True):
            p.data -= 0.05 * gradient
    for name, p in slow.items():
        assert np.allclose(run.params[name], p.detach().numpy(), atol=1e-5), name
    assert run.rate == 0.05
    assert run.outcome is Outcome.STEPS_DONE


def test_the_support_holds_the_loss() -> None:
    log_losses = np.random.default_rng(0).normal(0.0, 10.0, 500)
    members = support_of(log_losses, share=1e-3, spare=1.0, least=1)
    losses = np.exp(log_losses)
    inside = losses[members].sum() / losses.sum()
    assert inside >= 1 - 1e-3
    lightest = members[np.argmin(losses[members])]
    assert inside - losses[lightest] / losses.sum() < 1 - 1e-3, "one sample too many"


@pytest.fixture(scope="module")
def support_run(tmp_path_factory: pytest.TempPathFactory) -> MarginRun:
    return fit(tmp_path_factory.mktemp("support"), SUPPORT, digits(100), epochs=60)


def test_rounds_over_the_support_never_raise_the_loss_after_the_fit(support_run) -> None:
    fitted = [e["log10_loss"] for e in support_run.history if e["errors"] == 0]
    assert len(fitted) > 5
    assert np.all(np.diff(fitted) <= 0)
    assert support_run.history[-1]["left_out"] > 0, "the support was everything: this tests nothing"
    data = images_of(digits(100))
    measured = margin_epoch.measure(tensors(support_run.params), data)
    assert measured.log_loss == pytest.approx(support_run.log_loss)


def test_a_round_that_forgets_others_is_undone(support_run) -> None:
    """The support is the one heaviest sample, and long steps for it alone cost the others."""
    alone = replace(SUPPORT, support=SupportRule(share=0.9, spare=1.0, least=1, passes=6))
    run = replace(support_run, settings=alone, rate=10.0, watched=None)
    result = play_round(run, images_of(digits(100)))
    assert result.left_out > 95
    assert result.measured is None
    worse = margin_epoch.measure(tensors(result.params), images_of(digits(100)))
    assert worse.log_loss > run.log_loss
    assert not settle(run, result)
    assert run.attempt == 1
    assert run.rate < 10.0
    for name, array in support_run.params.items():
        assert np.array_equal(run.params[name], array)


def test_a_support_run_resumes_to_the_same_bits(support_run, tmp_path: Path) -> None:
    fit(tmp_path, support_run.settings, digits(100), epochs=20)
    parts = fit(tmp_path, support_run.settings, digits(100), epochs=60)
    for name, array in support_run.params.items():
        assert array.tobytes() == parts.params[name].tobytes()


def test_a_kill_between_the_two_renames_does_not_hide_the_checkpoint(begun: tuple, tmp_path: Path) -> None:
    """`fit` once looked for the folder by name alone and silently began again."""
    shutil.copytree(begun[0] / CHECKPOINT, tmp_path / f".{CHECKPOINT}.replaced")
    resumed = fit(tmp_path, SETTINGS, digits(), epochs=2)
    assert resumed.seconds == begun[1].seconds  # nothing was trained again
    assert resumed.epoch == 2


def test_a_folder_is_one_run_at_a_time(tmp_path: Path) -> None:
    from featavg.storage.folders import locked

    with locked(tmp_path), pytest.raises(InputError, match="in use by another run"):
        fit(tmp_path, SETTINGS, digits(), epochs=1)
    assert not list(tmp_path.iterdir())


def test_a_target_above_a_loss_of_one_is_reached(tmp_path: Path) -> None:
    run = fit(tmp_path, SETTINGS, digits(), epochs=50, until=0.2)
    assert run.outcome is Outcome.TARGET_LOSS
