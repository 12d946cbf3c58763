"""Small objects that tests of the public surface hand to it: each is made once."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import featavg as fa
from featavg.paper.images.features import FeatureSet


@cache
def task() -> Any:
    return fa.MultiCluster(k=4, d=30)


@cache
def run(labels: str = "coarse", coordinates: str = "ambient") -> Any:
    return fa.train(task(), n=24, steps=8, lr=0.05, labels=labels, coordinates=coordinates)


@cache
def points() -> Any:
    return task().sample(6, seed=1)


@cache
def deep() -> Any:
    random = np.random.default_rng(0)
    return fa.Deep(tuple(random.normal(size=shape) for shape in ((5, 30), (4, 5), (3, 4))))


@cache
def features() -> Any:
    random = np.random.default_rng(0)
    classes = np.arange(40) % 4
    vectors = np.eye(4, 8)[classes] + 0.1 * random.normal(size=(40, 8))
    return FeatureSet(vectors, classes, vectors[:20], classes[:20], np.array([0, 0, 1, 1]), "toy")


@cache
def pictures() -> Any:
    random = np.random.default_rng(0)
    train = fa.Images(random.integers(0, 255, (40, 1, 8, 8), dtype=np.uint8), np.arange(40) % 4)
    test = fa.Images(random.integers(0, 255, (80, 1, 8, 8), dtype=np.uint8), np.arange(80) % 4)
    names = tuple("abcd")
    return fa.ImageTask("toy", train, test, np.array([0, 0, 1, 1]), names, ("odd", "even"))


@cache
def module() -> Any:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return net.train()  # as it is in the middle of a user's training
