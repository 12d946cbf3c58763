"""Simulations: the numbers, the folder and back, killed and resumed, points of the user's own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from featavg.__main__ import main
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.simulate.run import load_simulation, simulate
from featavg.simulate.setting import PRESETS, Setting, compose
from featavg.training.train import train

SMALL = {"k": 4, "d": 1000, "n": 40, "steps": 5, "n_test": 50, "lr": 1e-3}

ROUND_TRIPS: dict[str, dict[str, object]] = {
    "paper": {},
    "many": {"seeds": (3, 1), "k": 3, "positive": (0, 2), "norms": (1.0, 2.0, 3.0)},
    "gram": {"k": 2, "gram": ((4.0, 1.0), (1.0, 4.0)), "probabilities": (0.25, 0.75)},
    "flow": {"stepper": "flow", "controller": "error", "time": 1e-3, "tolerance": 1e-2},
    "loss": {"loss": "exponential", "labels": "coarse", "controller": "loss-based"},
    "adam": {"stepper": "adam", "coordinates": "ambient", "layers": "both", "readout": "max"},
    "momentum": {"stepper": "momentum", "beta": 0.5, "target_loss": 0.1, "save_every": 7},
    "huge": {"d": 10**15, "sigma_w": 1e-300, "orientation": "axes"},
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_settings_survive_toml(tmp_path: Path, name: str) -> None:
    setting = Setting(**ROUND_TRIPS[name])
    path = tmp_path / "setting.toml"
    path.write_text(setting.to_toml())
    assert Setting.from_toml(path) == setting
    assert Setting.from_toml(path).key == setting.key


def test_different_settings_have_different_keys() -> None:
    keys = {Setting(**values).key for values in ROUND_TRIPS.values()}
    assert len(keys) == len(ROUND_TRIPS)


@pytest.mark.parametrize("name", ["gram.npy", "gram.csv", "gram.txt"])
def test_a_gram_matrix_beside_the_toml_file(tmp_path: Path, name: str) -> None:
    gram = np.diag([4.0, 9.0])
    if name.endswith(".npy"):
        np.save(tmp_path / name, gram)
    else:
        delimiter = "," if name.endswith(".csv") else " "
        np.savetxt(tmp_path / name, gram, delimiter=delimiter, header="inner products")
    (tmp_path / "setting.toml").write_text(f'k = 2\ngram = "{name}"\n')
    assert Setting.from_toml(tmp_path / "setting.toml").gram == ((4.0, 0.0), (0.0, 9.0))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("paper", {}, {"k": 10, "d": 3072, "m": 5, "h": 1, "n": 1000, "steps": 100}),
        ("paper", {}, {"lr": 1e-3, "sigma_w": 1e-5, "sigma_b": 1e-5, "alpha": 1.0, "sigma": 1.0}),
        ("talk", {}, {"sigma_w": 3072**-0.5, "sigma_b": 1 / 3072}),
        ("talk", {"d": 100}, {"sigma_w": 0.1, "sigma_b": 0.01}),
        ("theorem", {}, {"k": 3, "d": 3**10, "n": 3**7, "m": 3, "h": 1, "stepper": "flow"}),
        ("theorem", {"k": 2}, {"d": 1024, "n": 128, "time": 256.0}),
        ("theorem", {"k": 2}, {"sigma_w": (2**-5) ** 0.5 / 1024}),
        ("theorem", {"k": 4}, {"d": 1_048_576, "n": 16_384, "time": 65_536.0}),
    ],
)
def test_presets(name: str, given: dict[str, object], expected: dict[str, object]) -> None:
    setting = compose(name, **given)
    assert {key: getattr(setting, key) for key in expected} == pytest.approx(expected)


def test_the_defaults_are_the_papers() -> None:
    assert Setting() == compose("paper") == compose()
    assert set(PRESETS) == {"paper", "talk", "theorem"}


@pytest.mark.parametrize("labels", ["coarse", "fine"])
def test_a_simulation_is_a_training_run(labels: str) -> None:
    """One network on one seed is `train` with the same setting, to the last bit."""
    run = simulate(labels=labels, seeds=(3,), **SMALL).runs[labels]
    task = MultiCluster(k=4, d=1000)
    twin = train(task, labels=labels, n=40, seed=3, steps=5, lr=1e-3)
    assert np.array_equal(run.net.weights, twin.net.weights)
    assert np.array_equal(run.log_loss, twin.log_loss)


def test_both_networks_share_one_sample() -> None:
    both = simulate(**SMALL)
    coarse, fine = both.runs["coarse"], both.runs["fine"]
    # A frame for all 10 + 4 neurons: n + k + M coordinates.
    assert coarse.net.dimension == fine.net.dimension == 40 + 4 + 14
    assert coarse.settings["coordinates"] == "compressed"


def test_seeds_are_independent_of_their_company() -> None:
    several = simulate(seeds=(0, 5), **SMALL)
    alone = simulate(seeds=(5,), **SMALL)
    assert several.net("fine", 5).weights == pytest.approx(alone.net("fine").weights, rel=1e-9)
    assert [one.seed for one in several.of("coarse")] == [0, 5]


def test_the_papers_numbers() -> None:
    """Figure 2: blocks of 0.44 for coarse labels, a diagonal of 0.99 for fine ones."""
    coarse, fine = simulate().numbers
    assert coarse.same_class_cosine == pytest.approx(0.44, abs=0.02)
    assert coarse.averaging_index is not None
    assert coarse.averaging_index > 0.95
    assert fine.own_cosine == pytest.approx(0.99, abs=0.01)
    assert fine.averaging_index is not None
    assert fine.averaging_index < 0.05
    # Both have nearly all of their weight in the span, so both have the same null.
    assert coarse.averaging_index_null == pytest.approx(fine.averaging_index_null, rel=0.05)
    assert coarse.test_accuracy is not None
    assert coarse.test_accuracy.value == 1.0
    assert coarse.train_accuracy.low > 0.99


@pytest.mark.parametrize("name", [*ROUND_TRIPS])
def test_every_kind_of_setting_runs_and_reads_back(tmp_path: Path, name: str) -> None:
    small = {"n": 20, "d": 60, "steps": 4, "n_test": 10, "k": 4} | ROUND_TRIPS[name]
    done = simulate(Setting(**small), tmp_path / "result", figures=False)
    back = load_simulation(tmp_path / "result")
    assert back.setting == done.setting
    assert back.numbers == done.numbers
    assert back.about == done.about
    for labels, run in done.runs.items():
        assert np.array_equal(back.runs[labels].net.weights, run.net.weights)
        assert np.array_equal(back.cosines[labels], done.cosines[labels])
        assert back.runs[labels].outcomes == run.outcomes
    assert (tmp_path / "result").stat().st_mode & 0o055 == 0o055


def test_figures_and_numbers_agree(tmp_path: Path) -> None:
    done = simulate(out=tmp_path / "result", seeds=(0, 1), **SMALL)
    figures = tmp_path / "result" / "figures"
    names = {f"{stem}.{end}" for stem in ("cosines", "loss") for end in ("pdf", "svg", "png", "csv")}
    assert {path.name for path in figures.iterdir()} == names
    first = (figures / "cosines.csv").read_text().splitlines()[1].split(",")
    assert float(first[-1]) == pytest.approx(done.cosines["coarse"][:, 0, 0].mean(), rel=1e-6)


def test_a_run_that_diverges_has_an_outcome_and_a_folder(tmp_path: Path) -> None:
    extreme = SMALL | {"lr": 1e300, "steps": 50, "labels": "coarse", "layers": "both"}
    with np.errstate(all="ignore"):
        done = simulate(out=tmp_path / "result", **extreme)
    assert done.numbers[0].outcome == "DIVERGED"
    assert json.loads((tmp_path / "result" / "numbers.json").read_text())["runs"]


def _notes(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*note*")}


def test_nothing_is_deleted_that_featavg_did_not_write(tmp_path: Path) -> None:
    """A folder may hold a user's notes, radii/, and files that came during the run."""
    folder = tmp_path / "result"
    simulate(out=folder, **SMALL)
    (folder / "radii").mkdir()
    for name in ("notes.txt", "radii/note.csv", "figures/my-note.txt", "coarse/note"):
        (folder / name).write_text(name)

    def meddle(share: float, text: str) -> None:
        (folder / "note-during.txt").write_text("added during the run")

    simulate(out=folder, figures=False, progress=meddle, **SMALL)
    assert len(_notes(folder)) == 5
    # Another setting without the fine network: what that left is replaced or removed, no more.
    simulate(out=folder, figures=False, overwrite=True, **(SMALL | {"labels": "coarse", "steps": 2}))
    assert len(_notes(folder)) == 5
    assert not (folder / "fine").exists()
    assert load_simulation(folder).setting.steps == 2
    assert load_simulation(folder).setting.each_labels == ("coarse",)
    assert not [path for path in folder.iterdir() if path.name.startswith(".featavg")]


def _swap(a: Path, b: Path) -> None:
    a.rename(a.with_name("swap"))
    b.rename(a)
    a.with_name("swap").rename(b)


def _replace_by_another(folder: Path) -> None:
    other = folder.parent.with_name("other")
    simulate(out=other, figures=False, m=2, **(SMALL | {"steps": 6}))
    shutil.rmtree(folder)
    (other / "coarse").rename(folder)


MISFITS = {
    "networks swapped": lambda f: _swap(f / "coarse", f / "fine"),
    "weights of another network": lambda f: (f / "coarse" / "arrays.safetensors").write_bytes(
        (f / "fine" / "arrays.safetensors").read_bytes()
    ),
    "a network of another run": lambda f: _replace_by_another(f / "coarse"),
    "settings edited": lambda f: (f / "settings.toml").write_text(
        (f / "settings.toml").read_text().replace("lr = 0.001", "lr = 0.002")
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_parts_that_do_not_fit_together_are_not_believed(tmp_path: Path, name: str) -> None:
    simulate(out=tmp_path / "result", figures=False, m=2, **SMALL)
    MISFITS[name](tmp_path / "result")
    with pytest.raises(InputError, match="is damaged"):
        load_simulation(tmp_path / "result")


def test_a_comment_in_the_settings_does_no_harm(tmp_path: Path) -> None:
    simulate(out=tmp_path / "result", figures=False, **SMALL)
    path = tmp_path / "result" / "settings.toml"
    path.write_text(path.read_text() + "# a remark\n")
    assert load_simulation(tmp_path / "result").setting.k == 4


def test_the_help_shows_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    """In brackets, which rich would otherwise drop as markup."""
    assert main(["simulate", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "weight-decay [gd]" in shown
    assert "Clusters [10]" in shown


def test_a_new_field_changes_no_old_key() -> None:
    assert Setting().key == Setting(k=10, steps=100).key != Setting(steps=101).key


# The program kills itself once the state is on disk, so that no clock decides where.
DIES = """
import os, signal, sys
from featavg.__main__ import main
from featavg.storage.cache import Checkpoint
write = Checkpoint.write
def last(state, *given):
    write(state, *given)
    os.kill(os.getpid(), signal.SIGKILL)
Checkpoint.write = last
main(sys.argv[1:])
"""


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    flags = "--k 4 --d 1000 --n 200 --steps 60 --n-test 10 --labels coarse --no-figures"
    given = ["simulate", *flags.split(), "--checkpoint-every", "1e-9", "--out"]
    program = [sys.executable, "-c", DIES, *given, str(tmp_path / "killed")]
    assert subprocess.run(program, check=False).returncode == -signal.SIGKILL
    state = tmp_path / "killed" / "checkpoint" / "coarse" / "meta.json"
    assert 0 < json.loads(state.read_text())["step"] < 60
    for name in ("killed", "whole"):
        assert main([*given, str(tmp_path / name)]) == 0
    resumed, whole = (load_simulation(tmp_path / name) for name in ("killed", "whole"))
    assert np.array_equal(resumed.runs["coarse"].log_loss, whole.runs["coarse"].log_loss)
    for name, array in whole.runs["coarse"].parameters.items():
        assert np.array_equal(resumed.runs["coarse"].parameters[name], array)
    assert not (tmp_path / "killed" / "checkpoint").exists()


def _own(path: Path, **more: object) -> tuple[np.ndarray, np.ndarray]:
    sample = MultiCluster(k=4, d=30, orientation="random").sample(60, seed=0)
    np.savez(path, x=sample.x, clusters=sample.clusters, **more)  # type: ignore[arg-type]
    return sample.x, sample.clusters


def test_points_of_the_users_own(tmp_path: Path) -> None:
    x, clusters = _own(tmp_path / "own.npz", positive=np.array([1, 3]))
    done = simulate(data=str(tmp_path / "own.npz"), steps=50, lr=1e-2, seeds=(0, 1))
    assert [one.train_n for one in done.numbers] == [60] * 4
    assert all(one.test_n is None for one in done.numbers)
    net = done.net("coarse", 1)
    assert net.dimension == 30
    assert "k = 4, d = 30, n = 60" in done.summary()
    assert not {"k", "d", "n"} & done.to_json()["setting"].keys()
    # The twin: the same decision, computed by hand in the user's coordinates.
    right = (np.sign(net(x)[:, 0]) == np.where(np.isin(clusters, [1, 3]), 1, -1)).sum()
    assert done.of("coarse")[1].train_right == right
    means = np.stack([x[clusters == j].mean(axis=0) for j in range(4)])
    w = done.net("fine", 0).weights
    cosines = means @ w.T / np.linalg.norm(means, axis=1)[:, None] / np.linalg.norm(w, axis=1)
    assert done.cosines["fine"][0] == pytest.approx(cosines)
    assert done.of("fine")[0].train_accuracy.value == 1.0


def test_own_points_with_a_test_part_and_back(tmp_path: Path) -> None:
    x, clusters = _own(tmp_path / "own.npz")
    np.savez(
        tmp_path / "own.npz", x=x[:40], clusters=clusters[:40], x_test=x[40:], clusters_test=clusters[40:].astype(float)
    )
    setting = Setting(data=str(tmp_path / "own.npz"), positive=1, steps=20, lr=1e-2)
    done = simulate(setting, tmp_path / "result", figures=False)
    assert [one.test_n for one in done.numbers] == [20, 20]
    assert load_simulation(tmp_path / "result").setting == setting
    assert setting.task().positive_count == 1


def test_the_clock_runs_from_zero_to_one() -> None:
    shares: list[float] = []
    simulate(compose("theorem", k=2, labels="coarse"), progress=lambda share, note: shares.append(share))
    assert all(earlier <= later + 1e-12 for earlier, later in pairwise(shares))
    assert shares[0] < 0.1
    assert shares[-1] > 0.9


TINY = {"k": 4, "d": 60, "n": 20, "steps": 3, "figures": False}


def test_the_working_folder_and_a_link_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    simulate(out=tmp_path / "link", **TINY)
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    simulate(out=".", **TINY)
    assert load_simulation(tmp_path / "disk").numbers == load_simulation(".").numbers


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    from featavg.storage.folders import locked

    with locked(tmp_path / "o"), pytest.raises(InputError, match="in use by another run"):
        simulate(out=tmp_path / "o", **TINY)
    assert not (tmp_path / "o").exists()
