"""A simulation on disk: a folder that is whole, or not there, or says that it is unfinished."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.figure import Figure
from featavg.simulate.measurements import RunNumbers
from featavg.simulate.setting import LATER, Setting
from featavg.storage.files import check_writable, dumps
from featavg.storage.folders import UNFINISHED, into_folder
from featavg.storage.reading import read_json
from featavg.training.trajectory import Trajectory, load_trajectory

KIND = "featavg simulation"
NUMBERS, SETTINGS, CHECKPOINT = "numbers.json", "settings.toml", "checkpoint"
LABELS = ("coarse", "fine")
DRAWN = {f"{stem}.{end}" for stem in ("cosines", "loss") for end in ("pdf", "svg", "png", "csv")}


def claim_folder(out: Path, setting: Setting, size: float, overwrite: bool) -> Path:
    """`out` as an absolute path, after making sure that the result can be written there.

    Nothing is made yet, and no folder is ever replaced that featavg did not write.

    Args:
        out: where the result goes.
        setting: whose result it is; one of the same setting may be replaced.
        size: bytes that it will take.
        overwrite: the result of another setting may be replaced too.
    """
    out = out.absolute()
    _check_free(out, setting, overwrite)
    return check_writable(out, "out", size)


def _check_free(out: Path, setting: Setting, overwrite: bool) -> None:
    if out.exists() and not out.is_dir():
        raise InputError("out", f"({out}) is a file", "name a folder")
    names = set(os.listdir(out)) if out.exists() else set()
    unfinished = CHECKPOINT in names and NUMBERS not in names
    if not names or unfinished or any(name.startswith(UNFINISHED) for name in names):
        return
    try:
        stored = _numbers_in(out)
    except InputError:
        problem = f"({out}) holds files that no simulation wrote"
        raise InputError("out", problem, "choose a new or empty folder") from None
    if not _is_of(stored, setting) and not overwrite:
        problem = f"({out}) holds the result of another setting"
        raise InputError("out", problem, "choose another folder, or overwrite it")


def _is_of(stored: Mapping[str, Any], setting: Setting) -> bool:
    """Whether a result is of this setting; fields that only one of them states do not count."""
    said = setting.to_json()
    held = stored["setting"]
    # These are stated unless they have their default.
    later = all(said.get(name) == held.get(name) for name in LATER)
    return later and all(said[name] == value for name, value in held.items() if name in said)


def described(
    setting: Setting,
    about: Mapping[str, str],
    numbers: list[RunNumbers],
    cosines: Mapping[str, ndarray],
) -> dict[str, Any]:
    """All of a simulation but its weights, as plain values."""
    return {
        "kind": KIND,
        "key": setting.key,
        "about": dict(about),
        "setting": setting.to_json(),
        "seeds": list(setting.seeds),
        "runs": [asdict(row) for row in numbers],
        "cosines": {labels: matrices.tolist() for labels, matrices in cosines.items()},
    }


def write(
    out: Path,
    setting: Setting,
    about: Mapping[str, str],
    numbers: list[RunNumbers],
    cosines: Mapping[str, ndarray],
    runs: Mapping[str, Trajectory],
    figures: tuple[Figure, ...],
) -> None:
    """Write everything into `out` when it is complete; what else is there stays."""
    with into_folder(out, NUMBERS, "out", owned=(*LABELS, "figures")) as folder:
        _write_text(folder / SETTINGS, f"# featavg {about['featavg']}\n\n{setting.to_toml()}")
        _write_text(folder / NUMBERS, dumps(described(setting, about, numbers, cosines)))
        _write_text(folder / "numbers.csv", _csv(numbers))
        for labels, run in runs.items():
            run.save(folder / labels)
        _draw(folder / "figures", figures)
        _keep_strangers(out, folder)


def _keep_strangers(out: Path, new: Path) -> None:
    """Take along what somebody else put into the folders that are about to be replaced."""
    for name in (*LABELS, "figures"):
        own = {"arrays.safetensors", "meta.json"} if name in LABELS else DRAWN
        for path in (out / name).rglob("*"):
            target = new / path.relative_to(out)
            if path.is_file() and not (path.parent == out / name and path.name in own):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def read(
    folder: Path,
) -> tuple[Setting, dict[str, str], list[RunNumbers], dict[str, ndarray], dict[str, Trajectory]]:
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
        return setting, dict(stored["about"]), numbers, cosines, runs
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # InputError is one
        problem = str(error).rstrip(".")
        raise InputError(
            str(folder), f"is damaged ({problem})", "run the simulation again"
        ) from error


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
        names = os.listdir(folder)
        unfinished = CHECKPOINT in names or any(name.startswith(UNFINISHED) for name in names)
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


def _csv(numbers: list[RunNumbers]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(RunNumbers)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in numbers)
    return text.getvalue()


def _draw(folder: Path, figures: tuple[Figure, ...]) -> None:
    from featavg.figures.matplotlib_figure import render

    if figures:
        folder.mkdir()
    for figure in figures:
        for extension, content in render(figure).items():
            (folder / f"{figure.name}.{extension}").write_bytes(content)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
