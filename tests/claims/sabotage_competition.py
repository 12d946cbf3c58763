"""Sabotage of the claims on competition: neurons that share every point, or learn from few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.claims.sabotage import Sabotage, setting

from featavg.paper.remedies import competition, competition_deep, competition_images, without_fine_labels
from featavg.training.train import train


def neurons_share_points(patch: pytest.MonkeyPatch) -> None:
    """Every active neuron is pulled by every point of its class."""

    def shared(task: Any, *, pooling: str = "mean", **options: Any) -> Any:
        return train(task, pooling=pooling if pooling == "mean" else "sum", **options)

    patch.setattr(competition, "train", shared)


def winners_learn_slowly(patch: pytest.MonkeyPatch) -> None:
    """A tenth of the rate where neurons compete."""

    def slow(task: Any, *, pooling: str, lr: float, **options: Any) -> Any:
        return train(task, pooling=pooling, lr=lr if pooling == "mean" else lr / 10, **options)

    patch.setattr(competition, "train", slow)


def labels_found_at_random(patch: pytest.MonkeyPatch) -> None:
    """What clustering finds has nothing to do with the clusters."""
    rng, half = np.random.default_rng(0), without_fine_labels.TASK.k // 2

    def drawn(data: Any, seed: int) -> np.ndarray:
        return rng.integers(half, size=len(data.y)) + np.where(data.y > 0, 0, half)

    patch.setattr(without_fine_labels, "found_labels", drawn)


def deep_experts_gain(factor: float):
    """Competing sub-networks are this much more robust than their mean; nothing else gains."""

    def measured(task: Any, kind: str, *_: Any) -> dict[str, float]:
        radius = factor if kind == "experts" else 1.0
        return {"accuracy": 0.95, "radius": radius, "harder": 1.0}

    def exactly(task: Any, pooling: str, *_: Any) -> dict[str, float]:
        radius = factor if pooling == "max" else 1.0
        both = {"certified": radius, "upper": radius}
        return both | {"over": 1.0, "within": 1.0, "open": 0.0, "accuracy": 1.0}

    made_up = {"measured": measured, "exactly": exactly, "data_needed": lambda *_: None}
    return setting(competition_deep, **made_up)


ROWS = (
    Sabotage(
        "competition",
        "all active neurons are pulled by a point",
        neurons_share_points,
        setting(competition, CHANGES={"k": (4,)}),
        {"widths": (20,), "networks": 1, "tops": (1, 3), "lengths": (400,), "points": 8},
    ),
    Sabotage(
        "competition-cost",
        "winners learn at a tenth of the rate",
        winners_learn_slowly,
        given={"sizes": (100,), "m": 5},
    ),
    Sabotage(
        "competition-images",
        "the network with a maximum has a sum",
        setting(competition_images, KINDS=competition_images.KINDS | {"max": competition_images.KINDS["sum"]}),
        given={"sets": ("digits",), "steps": 200, "points": 30},
        needs=("torch",),
    ),
    Sabotage(
        "competition-training",
        "the network with a maximum has a sum",
        setting(competition_images, KINDS=competition_images.KINDS | {"max": competition_images.KINDS["sum"]}),
        setting(competition_images, STARTS=(1e-3, 1e-2)),
        given={"data": "digits", "steps": (50, 100, 200), "points": 30},
        needs=("torch",),
    ),
    Sabotage(
        "competition-deep",
        "sub-networks that compete gain nothing",
        deep_experts_gain(1.0),
        deep_experts_gain(1.3),
        needs=("torch",),
    ),
    Sabotage(
        "without-fine-labels",
        "clustering finds random labels",
        labels_found_at_random,
        given={"ways": ("sum", "max, m = 20", "found labels", "fine labels", "apart"), "steps": 100, "points": 10},
        needs=("torch",),
    ),
)
