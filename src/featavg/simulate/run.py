"""Run a simulation, the Python side of `featavg simulate`; its folder is whole or says that it is not."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shutil
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.boundary.kinds import NotNegative
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.figures.figure import Figure, Result
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.simulate.measurements import RunNumbers, cosine_figure, loss_figure, measure, net_of, table_rows
from featavg.simulate.points import SimulationPoints, gather_points, require_memory, share_points, states_size
from featavg.simulate.setting import LATER, Setting, compose
from featavg.storage.cache import Checkpoint
from featavg.storage.files import check_writable, dumps, usable_folder
from featavg.storage.folders import UNFINISHED, into_folder, locked
from featavg.storage.provenance import provenance
from featavg.storage.reading import read_json
from featavg.training.driver import SaveAt
from featavg.training.recipe import LABELS
from featavg.training.train import train
from featavg.training.trajectory import Trajectory, load_trajectory

KIND = "featavg simulation"
NUMBERS, SETTINGS, CHECKPOINT = "numbers.json", "settings.toml", "checkpoint"
DRAWN = {f"{stem}.{end}" for stem in ("cosines", "loss") for end in ("pdf", "svg", "png", "csv")}


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Result):
    """What a simulation found.

    Attributes:
        setting: what was asked for.
        runs: the trajectory of each network, by its labels ("coarse", "fine").
        numbers: one entry for each network and seed.
        cosines: the matrix of Figure 2 for each seed, by labels.
        about: the versions and the machine that made it.
        folder: where it is on disk, if it is.

    Returned by `fa.load_simulation` and `fa.simulate`, which have examples.
    """

    setting: Setting
    runs: dict[str, Trajectory]
    numbers: list[RunNumbers]
    cosines: dict[str, ndarray]
    about: dict[str, str]
    folder: Path | None = None

    def net(self, labels: str, seed: int | None = None) -> TwoLayer | Deep:
        """The trained network for `labels`, of the first seed by default."""
        seeds = self.setting.seeds
        return net_of(self.runs[labels], 0 if seed is None else seeds.index(seed))

    def of(self, labels: str) -> list[RunNumbers]:
        """The numbers of one network, an entry for each seed."""
        return [row for row in self.numbers if row.labels == labels]

    def figures(self) -> tuple[Figure, ...]:
        """What the weights point at, and how the loss fell."""
        return cosine_figure(self.cosines, self.setting.task()), loss_figure(self.runs)

    def figure(self) -> Figure:
        """What the weights point at: the matrix of Figure 2 for each network."""
        return self.figures()[0]

    def to_json(self) -> dict[str, Any]:
        """The setting, the numbers and the cosines, with what made them."""
        return {
            "kind": KIND,
            "key": self.setting.key,
            "about": self.about,
            "setting": self.setting.to_json(),
            "seeds": list(self.setting.seeds),
            "runs": [asdict(row) for row in self.numbers],
            "cosines": {labels: matrices.tolist() for labels, matrices in self.cosines.items()},
        }

    @property
    def shapes(self) -> str:
        """k, d and n of the training points; those of a file say them themselves."""
        about = next(iter(self.runs.values())).settings
        return f"k = {about['task']['k']}, d = {about['task']['d']}, n = {about['n']}"

    def rows(self) -> list[tuple[str, list[str]]]:
        """The numbers as text for a table: a name, and a cell for each network."""
        return table_rows([self.of(labels) for labels in self.setting.each_labels])

    def summary(self) -> str:
        """A line for each network: the median over its seeds."""
        lines = [f"Simulation of {self.shapes}"]
        for labels in self.setting.each_labels:
            rows = self.of(labels)
            parts = [f"{labels} labels, {len(rows)} seed{'s' if len(rows) > 1 else ''}"]
            for name, column in _SUMMARY.items():
                values = [value for row in rows if (value := getattr(row, column)) is not None]
                parts += [f"{name} {statistics.median(values):.3f}"] if values else []
            lines.append("  " + ", ".join(parts))
        return "\n".join(lines)


_SUMMARY = {
    "log10 loss": "log10_loss",
    "cosine with the own feature": "own_cosine",
    "with others of its class": "same_class_cosine",
    "averaging index": "averaging_index",
}


@public
def simulate(
    setting: Setting | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    *,
    figures: bool = True,
    overwrite: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: NotNegative = 30.0,
    **changes: Any,
) -> Simulation:
    """Train the networks of a setting on one sample and measure them.

    Args:
        setting: what to do; or give single values as `changes` to the paper's (or `preset=...`).
        out: if given, a folder for settings, numbers, weights and figures. A run that was killed
            resumes from its checkpoint when it is started again with the same folder.
        progress: called with the share done and a note.
        figures: whether to draw them into `out`.
        overwrite: replace the result of another setting.
        checkpoint: where the state of an unfinished run is kept; `out/checkpoint` by default.
        checkpoint_seconds: how often, so that short runs write none; zero for never.

    >>> import featavg as fa
    >>> both = fa.simulate(k=4, d=1000, n=50, steps=20, lr=1e-2)
    >>> [row.labels for row in both.numbers], both.net("fine").weights.shape
    (['coarse', 'fine'], (4, 68))
    """
    if setting is None:
        setting = compose(**changes)
    elif changes:
        setting = Setting(**(setting.given | changes))
    require_memory(setting)
    if checkpoint is not None:
        usable_folder(Path(checkpoint), "checkpoint")
    folder = None if out is None else _claimed(Path(out), setting, overwrite)
    with contextlib.nullcontext() if folder is None else locked(folder):
        points = gather_points(setting)
        states = Path(checkpoint) if checkpoint is not None else folder and folder / CHECKPOINT
        runs = {
            labels: _train(setting, points, labels, progress, states, checkpoint_seconds)
            for labels in setting.each_labels
        }
        measured = {labels: measure(setting, points, labels, run) for labels, run in runs.items()}
        numbers = [row for rows, _ in measured.values() for row in rows]
        cosines = {labels: matrices for labels, (_, matrices) in measured.items()}
        done = Simulation(setting, runs, numbers, cosines, provenance(), folder)
        if folder is not None:
            _write(done, folder, done.figures() if figures else ())
        if states is not None:
            for labels in setting.each_labels:
                shutil.rmtree(states / labels, ignore_errors=True)
            with contextlib.suppress(OSError):  # not empty: it holds other states
                states.rmdir()
        return done


@public
def load_simulation(folder: str | Path) -> Simulation:
    """Read back what `simulate` wrote: the same weights to the last bit.

    Args:
        folder: the `out` of `simulate`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa  # long
    >>> folder = Path(tempfile.mkdtemp())
    >>> done = fa.simulate(fa.compose(k=4, d=100, n=40, steps=20), out=folder)
    >>> fa.load_simulation(folder).setting.k
    4
    """
    path = Path(folder)
    stored = _numbers_in(path)
    try:
        setting = Setting.from_toml(path / SETTINGS)
        numbers = [RunNumbers(**row) for row in stored["runs"]]
        cosines = {labels: np.asarray(m, float) for labels, m in stored["cosines"].items()}
        expected = [(labels, seed) for labels in setting.each_labels for seed in setting.seeds]
        if [(row.labels, row.seed) for row in numbers] != expected:
            raise ValueError("its numbers and its settings do not fit")
        runs = {labels: load_trajectory(path / labels) for labels in setting.each_labels}
        if not _is_of(stored, setting):
            raise ValueError("its settings are not those that it was run with")
        for labels, run in runs.items():
            _check_run(setting, labels, run)
        return Simulation(setting, runs, numbers, cosines, dict(stored["about"]), path)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # InputError is one
        problem = f"is damaged ({str(error).rstrip('.')})"
        raise InputError(str(path), problem, "run the simulation again") from error


def _train(
    setting: Setting,
    points: SimulationPoints,
    labels: str,
    progress: Progress | None,
    states: Path | None,
    seconds: float,
) -> Trajectory:
    before = setting.each_labels.index(labels)

    def report(share_done: float, note: str) -> None:
        if progress is not None:
            progress((before + share_done) / len(setting.each_labels), f"{labels} labels, {note}")

    return train(
        share_points(setting, points, labels),
        setting.recipe(labels),
        save_at=SaveAt(every=setting.save_every),
        checkpoint=Checkpoint(states / labels, seconds) if states and seconds > 0 else None,
        progress=report,
    )


def _claimed(out: Path, setting: Setting, overwrite: bool) -> Path:
    """`out` as an absolute path, where the result can be written; nothing is made yet.

    No folder is ever replaced that featavg did not write, and the result of another setting only to `overwrite`.
    """
    out = out.absolute()
    if out.exists() and not out.is_dir():
        raise InputError("out", f"({out}) is a file", "name a folder")
    names = os.listdir(out) if out.exists() else []
    if names and not _unfinished(names):
        try:
            stored = _numbers_in(out)
        except InputError:
            problem = f"({out}) holds files that no simulation wrote"
            raise InputError("out", problem, "choose a new or empty folder") from None
        if not _is_of(stored, setting) and not overwrite:
            problem = f"({out}) holds the result of another setting"
            raise InputError("out", problem, "choose another folder, or overwrite it")
    # From above: the saved states, a checkpoint, the figures.
    return check_writable(out, "out", 2 * states_size(setting) + 4e6)


def _unfinished(names: list[str]) -> bool:
    """Whether a folder with these files is what a killed simulation left."""
    killed = any(name.startswith(UNFINISHED) for name in names)
    return killed or (CHECKPOINT in names and NUMBERS not in names)


def _is_of(stored: Mapping[str, Any], setting: Setting) -> bool:
    """Whether a result is of this setting; fields that only one of them states do not count."""
    said = setting.to_json()
    later = any(name in LATER and name not in stored["setting"] for name in said)
    compared = {n: v for n, v in stored["setting"].items() if n in said or n in LATER}
    same = all(said.get(n) == value for n, value in compared.items())
    return not later and same


def _write(done: Simulation, out: Path, figures: tuple[Figure, ...]) -> None:
    """Write everything into `out` when it is complete; what else is there stays."""
    from featavg.figures.matplotlib_figure import render

    stored, text = done.to_json(), io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(RunNumbers)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(stored["runs"])
    files: dict[str, str | bytes] = {
        SETTINGS: f"# featavg {done.about['featavg']}\n\n{done.setting.to_toml()}",
        NUMBERS: dumps(stored),
        "numbers.csv": text.getvalue(),
    }
    for figure in figures:
        files |= {f"figures/{figure.name}.{extension}": content for extension, content in render(figure).items()}
    with into_folder(out, NUMBERS, "out", owned=(*LABELS, "figures")) as folder:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        for labels, run in done.runs.items():
            run.save(folder / labels)
        _keep_strangers(out, folder)


def _keep_strangers(out: Path, new: Path) -> None:
    """Copies files of the user's from the folders that are about to be replaced."""
    for name in (*LABELS, "figures"):
        own = {"arrays.safetensors", "meta.json"} if name in LABELS else DRAWN
        for path in (out / name).rglob("*"):
            target = new / path.relative_to(out)
            if path.is_file() and not (path.parent == out / name and path.name in own):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def _check_run(setting: Setting, labels: str, run: Trajectory) -> None:
    """Refuse the weights of another network, or of another simulation."""
    recipe = run.settings["recipe"]
    plain = ("m", "h", "sigma_w", "sigma_b", "lr", "steps", "layers", "depth", "residual", "head")
    known = setting.recipe(labels).labels
    named = known if isinstance(known, str) else known.to_json()
    fits = recipe["labels"] == named and run.settings["seeds"] == list(setting.seeds)
    same = all(recipe[name] == getattr(setting, name) for name in plain if name in recipe)
    if not fits or not same or len(run.outcomes) != len(setting.seeds):
        raise ValueError(f"the weights in {labels} are not those of its settings")


def _numbers_in(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(str(folder), "is not a folder", "give the folder of a simulation")
    if not (folder / NUMBERS).exists():
        unfinished = _unfinished(os.listdir(folder))
        problem = "holds an unfinished simulation" if unfinished else f"has no {NUMBERS}"
        remedy = "run its command again" if unfinished else "give the folder of a simulation"
        raise InputError(str(folder), problem, remedy)
    try:
        stored = read_json(folder / NUMBERS)
    except InputError as error:
        problem = f"is damaged ({NUMBERS} {error.problem})"
        raise InputError(str(folder), problem, "run the simulation again") from None
    if not isinstance(stored, dict) or stored.get("kind") != KIND:
        raise InputError(str(folder), "holds something else", "give the folder of a simulation")
    return stored
