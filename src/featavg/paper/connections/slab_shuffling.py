"""Shah et al. (2020): train on slab data, shuffle blocks of coordinates, and see what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.figures.result import Result
from featavg.paper.connections.block_shuffle import shuffled_auc
from featavg.paper.connections.numpy_sgd import Minibatch, train_minibatch
from featavg.paper.connections.slabs import Slabs, lms, ms
from featavg.progress import Progress, silent

TEST = 20_000
AREAS = ("as it is", "simplest shuffled", "others shuffled")
TASKS = ("lms-3", "lms-5", "lms-7", "noisy-lms-7", "ms-5-7", "slabs-5")


@dataclass(frozen=True, repr=False)
class SlabReliance(Result):
    """On which coordinates a network relies, one row for each seed.

    Attributes:
        task: its name.
        seeds: the seeds.
        aucs: areas under the ROC curve on fresh points: as they are, with the simplest coordinates
            shuffled, with all others shuffled.
        accuracy, train_accuracy: on fresh and on training points.

    Returned by `fa.slab_reliance`, which has an example.
    """

    task: str
    seeds: tuple[int, ...]
    aucs: Float[ndarray, "s 3"]
    accuracy: Float[ndarray, " s"]
    train_accuracy: Float[ndarray, " s"]

    @property
    def mean(self) -> Float[ndarray, " 3"]:
        """The areas, averaged over the seeds."""
        return np.asarray(self.aucs.mean(axis=0))

    def figure(self) -> Figure:
        """The three areas as bars, with the range over seeds."""
        bar = Bar(self.task, self.mean, "neutral", self.aucs.min(axis=0), self.aucs.max(axis=0))
        panel = Bars(
            AREAS, (bar,), Axis("AUC", range=(0.0, 1.05)), rules=(Rule(0.5, label="a coin"),)
        )
        caption = "Area under the ROC curve with blocks of coordinates shuffled among test points."
        return Figure("reliance", f"On what a network relies: {self.task}", caption, (panel,))

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "task": self.task,
            "seeds": list(self.seeds),
            "aucs": self.aucs.tolist(),
            "accuracy": self.accuracy.tolist(),
            "train_accuracy": self.train_accuracy.tolist(),
        }

    def summary(self) -> str:
        """The areas of every seed."""
        head = f"{self.task}: AUC " + ", ".join(AREAS) + "; test and training accuracy"
        rows = [
            f"  seed {seed}: " + "  ".join(f"{v:.3f}" for v in (*areas, test, train))
            for seed, areas, test, train in zip(
                self.seeds, self.aucs, self.accuracy, self.train_accuracy, strict=True
            )
        ]
        return "\n".join([head, *rows])


def slab_task(name: str, d: int) -> Slabs:
    """A slab task by name; "slabs-5" has no simple coordinate.

    >>> slab_task("ms-5-7", 4).blocks
    (5, 7, 7, 7)
    """
    tasks = {
        "lms-3": lambda: lms(3, d),
        "lms-5": lambda: lms(5, d),
        "lms-7": lambda: lms(7, d, margin=0.05),
        "noisy-lms-7": lambda: lms(7, d, noise=0.1, margin=0.05),
        "ms-5-7": lambda: ms(5, 7, d),
        "slabs-5": lambda: Slabs((5,) * d),
    }
    return tasks[one_of("task", name, tasks)]()


def slab_reliance(
    task: str = "lms-5",
    *,
    d: int = 50,
    n: int = 20_000,
    widths: Sequence[int] = (100, 100),
    steps: int = 800,
    lr: float = 0.3,
    momentum: float = 0.9,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> SlabReliance:
    """Train a fully connected network on a slab task, then shuffle blocks of coordinates.

    Args:
        task: one of `TASKS`, such as "lms-5" (one linear and many five-slab coordinates).
        d: dimension.
        n: training points.
        widths: of the hidden layers.
        steps, lr, momentum: of SGD with batches of 256.
        seeds: one network each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.slab_reliance("lms-5", d=5, n=600, widths=(8,), steps=300).mean.shape
    (3,)
    """
    if not seeds:
        raise InputError("seeds", "are none", "give at least one")
    rows = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"{task}, seed {seed}")
        rows.append(_one(task, seed, d, n, tuple(widths), steps, lr, momentum))
    aucs, accuracy, fitted = (np.array(column) for column in zip(*rows, strict=True))
    return SlabReliance(task, tuple(seeds), aucs, accuracy, fitted)


@lru_cache(maxsize=64)
def _one(
    name: str,
    seed: int,
    d: int,
    n: int,
    widths: tuple[int, ...],
    steps: int,
    lr: float,
    momentum: float,
) -> tuple[list[float], float, float]:
    """The areas, the test accuracy and the training accuracy of one seed."""
    task = slab_task(name, d)
    coordinates, y = task.sample(n, seed)
    turn = task.rotation(seed)
    net = train_minibatch(coordinates @ turn, y, Minibatch(widths, lr, momentum, 256, steps), seed)

    def classify(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return net(x)[:, 0]

    fresh, labels = task.sample(TEST, seed, "test")
    blocks: tuple[list[int], ...] = ([], task.simple, task.complex)
    aucs = [shuffled_auc(classify, fresh, labels, block, turn, seed) for block in blocks]
    accuracy = float(np.mean(classify(fresh @ turn) * labels > 0))
    return aucs, accuracy, float(np.mean(classify(coordinates @ turn) * y > 0))
