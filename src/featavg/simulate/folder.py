"""A simulation on disk: a folder that is whole, or not there, or says that it is unfinished."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.figure import Figure
from featavg.simulate.measurements import RunNumbers
from featavg.simulate.points import states_size
from featavg.simulate.setting import LATER, Setting
from featavg.storage.files import check_writable, dumps
from featavg.storage.folders import UNFINISHED, into_folder
from featavg.storage.reading import read_json
from featavg.training.trajectory import Trajectory, load_trajectory

KIND = "featavg simulation"
NUMBERS, SETTINGS, CHECKPOINT = "numbers.json", "settings.toml", "checkpoint"
LABELS = ("coarse", "fine")
DRAWN = {f"{stem}.{end}" for stem in ("cosines", "loss") for end in ("pdf", "svg", "png", "csv")}


def claim_folder(out: Path, setting: Setting, overwrite: bool) -> Path:
    """`out` as an absolute path, after making sure that the result can be written there.

    Nothing is made yet, and no folder is ever replaced that featavg did not write.

    Args:
        out: where the result goes.
        setting: whose result it is; one of the same setting may be replaced.
        overwrite: the result of another setting may be replaced too.
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


def write(
    out: Path, setting: Setting, stored: Mapping[str, Any], runs: Mapping[str, Trajectory], figures: tuple[Figure, ...]
) -> None:
    """Write everything into `out` when it is complete; what else is there stays."""
    from featavg.figures.matplotlib_figure import render

    files: dict[str, str | bytes] = {
        SETTINGS: f"# featavg {stored['about']['featavg']}\n\n{setting.to_toml()}",
        NUMBERS: dumps(stored),
        "numbers.csv": _csv(stored["runs"]),
    }
    for figure in figures:
        files |= {f"figures/{figure.name}.{extension}": content for extension, content in render(figure).items()}
    with into_folder(out, NUMBERS, "out", owned=(*LABELS, "figures")) as folder:
        for name, data in files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        for labels, run in runs.items():
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


def read(folder: Path) -> tuple[Setting, dict[str, Any], list[RunNumbers], dict[str, ndarray], dict[str, Trajectory]]:
    """The inverse of `write`; a damaged or foreign folder is named, never half believed."""
    stored = _numbers_in(folder)
    try:
        setting = Setting.from_toml(folder / SETTINGS)
        numbers = [RunNumbers(**row) for row in stored["runs"]]
        cosines = {labels: np.asarray(m, float) for labels, m in stored["cosines"].items()}
        expected = [(labels, seed) for labels in setting.each_labels for seed in setting.seeds]
        if [(row.labels, row.seed) for row in numbers] != expected:
            raise ValueError("its numbers and its settings do not fit")
        runs = {labels: load_trajectory(folder / labels) for labels in setting.each_labels}
        if not _is_of(stored, setting):
            raise ValueError("its settings are not those that it was run with")
        for labels, run in runs.items():
            _check_run(setting, labels, run)
        dict(stored["about"])
        return setting, stored, numbers, cosines, runs
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # InputError is one
        problem = f"is damaged ({str(error).rstrip('.')})"
        raise InputError(str(folder), problem, "run the simulation again") from error


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


def _csv(runs: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(RunNumbers)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(runs)
    return text.getvalue()
