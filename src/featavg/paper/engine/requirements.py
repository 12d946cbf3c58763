"""What image claims need, or else the sentence that says how to get it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from featavg.data.image_sets.loading import data_folder, load
from featavg.errors import InputError
from featavg.paper.engine.claim import Context, NotRun
from featavg.storage.places import install_command


def torch_needed() -> None:
    """Without torch a claim on deep networks is not run."""
    if importlib.util.find_spec("torch") is None:
        raise NotRun(f"PyTorch is not installed: {install_command('torch')}.")


def data_needed(name: str, settings: Context) -> Any:
    """A task, or for "weights" the folder of weights; missing data is a reason, not a fault."""
    folder = data_folder(settings.data_dir)
    if name == "weights":
        if not (folder / "weights" / "resnet20-12fca82f.th").exists():
            raise NotRun(
                f"{folder / 'weights' / 'resnet20-12fca82f.th'} is not there: get it from "
                "github.com/akamaster/pytorch_resnet_cifar10 (pretrained_models)."
            )
        return folder / "weights"
    try:
        return load(name, folder)
    except InputError as error:
        if "is not there" in error.problem:
            raise NotRun(str(error)) from error
        raise


def run_folder(settings: Context) -> Path:
    """Where trained networks, features and finished parts of a long claim are kept."""
    return data_folder(settings.data_dir) / "runs"
