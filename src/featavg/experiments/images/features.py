"""Frozen features of a task, computed once and kept on disk (torch)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.experiments.images.heads import Features
from featavg.nets.torch.embedding import Embedding
from featavg.progress import Progress, part
from featavg.storage.folders import read_folder, write_folder
from featavg.training.checkpoint import fingerprint


def features_of(
    task: ImageTask,
    embedding: Embedding,
    folder: Path | None = None,
    train: int | None = None,
    progress: Progress | None = None,
) -> Features:
    """The features of the training and the test images.

    Args:
        folder: keep them there, and take them from there if they are of the same images and
            network.
        train: at most so many training images, the first ones.
    """
    some = task.train if train is None else task.train[slice(0, train)]
    parts = {"train": some, "test": task.test}
    name = fingerprint(
        [embedding(task.test.pixels[:4]).round(3), some.fine, task.test.fine],
        task.name,
        embedding.name,
    )
    found = _kept(folder, name)
    if found is None:
        found = {
            name_of_part: embedding(
                images.pixels, progress=part(progress, i / 2, (i + 1) / 2)
            ).astype(np.float32)
            for i, (name_of_part, images) in enumerate(parts.items())
        }
        if folder is not None:
            write_folder(folder, found, {"kind": "features", "run": name})
    return Features(
        found["train"].astype(np.float64),
        some.fine,
        found["test"].astype(np.float64),
        task.test.fine,
        task.groups,
        f"{embedding.name} on {task.name}",
    )


def _kept(folder: Path | None, name: str) -> dict[str, ndarray] | None:
    if folder is None or not folder.exists():
        return None
    arrays, meta = read_folder(folder)
    return arrays if meta.get("run") == name else None
