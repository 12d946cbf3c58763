"""A simulation on disk: a folder that is whole, or not there, or says that it is unfinished."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.data.memory import readable
from featavg.errors import InputError
from featavg.experiments.simulation.measurements import RunNumbers
from featavg.experiments.simulation.setting import Setting
from featavg.figures.figure import Figure
from featavg.storage.folders import new_folder
from featavg.training.trajectory import Trajectory, load_trajectory

KIND = "featavg simulation"
NUMBERS, SETTINGS, CHECKPOINT = "numbers.json", "settings.toml", "checkpoint"


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
    parent = next(folder for folder in out.parents if folder.exists())
    try:
        Path(tempfile.mkdtemp(dir=parent, prefix=".featavg-")).rmdir()
        free = shutil.disk_usage(parent).free
    except OSError as error:
        raise _trouble(out, error) from error
    if free < size:
        told = f"({out}) has {readable(free)} free and the result takes about {readable(size)}"
        raise InputError("out", told, "free space or choose another folder")
    return out


def _check_free(out: Path, setting: Setting, overwrite: bool) -> None:
    if not out.exists() or (out.is_dir() and set(os.listdir(out)) <= {CHECKPOINT}):
        return
    if not out.is_dir():
        raise InputError("out", f"({out}) is a file", "name a folder")
    try:
        described = _numbers_in(out)
    except InputError:
        told = f"({out}) holds files that no simulation wrote"
        raise InputError("out", told, "choose a new or empty folder") from None
    if described.get("key") != setting.key and not overwrite:
        told = f"({out}) holds the result of another setting"
        raise InputError("out", told, "choose another folder, or overwrite it")


def write(
    out: Path,
    setting: Setting,
    about: Mapping[str, str],
    numbers: list[RunNumbers],
    cosines: Mapping[str, ndarray],
    runs: Mapping[str, Trajectory],
    figures: tuple[Figure, ...],
) -> None:
    """Write everything as one folder, under another name until it is complete."""
    described = {
        "kind": KIND,
        "key": setting.key,
        "about": dict(about),
        "setting": setting.model_dump(mode="json"),
        "seeds": list(setting.seeds),
        "runs": [asdict(one) for one in numbers],
        "cosines": {labels: matrices.tolist() for labels, matrices in cosines.items()},
    }
    try:
        with new_folder(out) as folder:
            folder.chmod(0o755)  # a temporary folder is private, a result is for sharing
            _write_text(folder / SETTINGS, f"# featavg {about['featavg']}\n\n{setting.to_toml()}")
            _write_text(folder / NUMBERS, json.dumps(described, indent=1, allow_nan=False) + "\n")
            _write_text(folder / "numbers.csv", _csv(numbers))
            for labels, run in runs.items():
                run.save(folder / labels)
                (folder / labels).chmod(0o755)
            _draw(folder / "figures", figures)
    except Exception as error:
        # safetensors has its own exception for a full disk, and storage names a temporary folder.
        if isinstance(error, InputError) or type(error).__name__ == "SafetensorError":
            raise _trouble(out, error) from error
        raise


def read(
    folder: Path,
) -> tuple[Setting, dict[str, str], list[RunNumbers], dict[str, ndarray], dict[str, Trajectory]]:
    """The inverse of `write`; a damaged or foreign folder is named, never half believed."""
    described = _numbers_in(folder)
    try:
        setting = Setting.from_toml(folder / SETTINGS)
        numbers = [RunNumbers(**row) for row in described["runs"]]
        cosines = {labels: np.asarray(m, float) for labels, m in described["cosines"].items()}
        expected = [(labels, seed) for labels in setting.each_labels for seed in setting.seeds]
        if [(one.labels, one.seed) for one in numbers] != expected:
            raise ValueError("its numbers and its settings do not fit")
        runs = {labels: load_trajectory(folder / labels) for labels in setting.each_labels}
        for run in runs.values():
            if len(run.outcomes) != len(setting.seeds) or not np.isfinite(run.net.weights).all():
                raise ValueError("its weights are not those of its settings")
        return setting, dict(described["about"]), numbers, cosines, runs
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # InputError is one
        told = str(error).rstrip(".")
        raise InputError(str(folder), f"is damaged ({told})", "run the simulation again") from error


def _numbers_in(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise InputError(str(folder), "is not a folder", "give the folder of a simulation")
    try:
        described = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        unfinished = (folder / CHECKPOINT).exists()
        told = "holds an unfinished simulation" if unfinished else f"has no {NUMBERS}"
        remedy = "run its command again" if unfinished else "give the folder of a simulation"
        raise InputError(str(folder), told, remedy) from None
    except (OSError, ValueError) as error:
        told = f"is damaged ({NUMBERS}: {error})"
        raise InputError(str(folder), told, "run the simulation again") from None
    if not isinstance(described, dict) or described.get("kind") != KIND:
        raise InputError(str(folder), "holds something else", "give the folder of a simulation")
    return described


def _csv(numbers: list[RunNumbers]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(RunNumbers)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(one) for one in numbers)
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


def _trouble(out: Path, error: Exception) -> InputError:
    cause = error.strerror if isinstance(error, OSError) else None
    if cause is None:
        known = error.__cause__ if isinstance(error.__cause__, OSError) else None
        cause = known.strerror if known is not None else str(error)
    told = f"({out}) cannot be written ({str(cause).lower()})"
    return InputError("out", told, "choose a folder with room and rights")
