"""The points of a simulation: drawn from the task or the user's own, and the memory they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw, draw_many
from featavg.data.user_points import OwnPoints, own_points, training_set
from featavg.machine import require
from featavg.simulate.setting import Setting


@dataclass(frozen=True, eq=False)
class SimulationPoints:
    """One training set with the directions of all networks, the features, and fresh points.

    Attributes:
        training: the seeds are its first axis if there are several.
        features: mu_j, or the clusters' means, in the coordinates of the training set.
        own: the file the points are from, if they were not drawn.
    """

    training: TrainingSet
    features: Float[ndarray, "k N"]
    own: OwnPoints | None = None

    @property
    def task(self) -> MultiCluster:
        """The distribution, or the one that comes closest to the user's points."""
        return self.training.task

    def trained_on(self, index: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
        """The training points of the seed at `index`, and their clusters."""
        if self.training.x.ndim == 2:
            return self.training.x, self.training.clusters
        return self.training.x[index], self.training.clusters[index]

    def fresh(self, seed: int, n: int) -> tuple[Float[ndarray, "t N"], Int[ndarray, " t"]] | None:
        """Test points and their clusters; None if the user's file has none."""
        if self.own is None:
            sample = self.task.sample(n, seed)
            return sample.coordinates(self.training.dimension), sample.clusters
        if self.own.x_test is None or self.own.clusters_test is None:
            return None
        return self.own.x_test, self.own.clusters_test


def gather_points(setting: Setting) -> SimulationPoints:
    """Draw the points, or read them; `labels = "both"` shares them between the networks."""
    if setting.data is not None:
        return _read(setting, own_points(Path(setting.data), setting.positive))
    task, neurons, frame = setting.task(), _neurons(setting, setting.k), _frame(setting)
    if len(setting.seeds) == 1:
        training = draw(task, setting.n, neurons, setting.seeds[0], frame)
    else:
        training = draw_many(task, setting.n, neurons, setting.seeds, frame)
    return SimulationPoints(training, training.features)


def share_points(setting: Setting, points: SimulationPoints, labels: str) -> TrainingSet:
    """The training set with the directions that the network for `labels` starts from."""
    k, first = points.task.k, 0
    for each in setting.each_labels:
        count = setting.recipe(each).neurons(k)
        if each == labels:
            return points.training.share(first, count)
        first += count
    raise KeyError(labels)


def memory_needed(setting: Setting) -> float:
    """Bytes that a simulation takes at its peak, from its shapes alone."""
    if setting.data is not None:
        return 0.0  # The points are in memory by the time their number is known.
    neurons, seeds = _neurons(setting, setting.k), len(setting.seeds)
    dimension = _dimension(setting)
    points = seeds * setting.n * dimension * (1.5 if seeds == 1 else 2.0)
    states = states_size(setting) / 8 + seeds * neurons * dimension * 6
    passes = seeds * setting.n * neurons * 6 * (setting.depth - 1)
    tests = 2.0 * setting.n_test * dimension
    return 8.0 * (points + states + passes + tests + 4.0 * setting.k**2)


def require_memory(setting: Setting) -> float:
    """Refuse a setting that this machine has no memory for; return the bytes it needs."""
    needed = memory_needed(setting)
    largest = max(
        ("n", setting.n),
        ("seeds", len(setting.seeds)),
        ("n_test", setting.n_test),
        ("d", setting.d if _dimension(setting) == setting.d else 0),
        ("m", setting.m if "coarse" in setting.each_labels else 0),
        ("h", setting.h if "fine" in setting.each_labels else 0),
        ("save_every", saves(setting)),
        ("depth", setting.depth),
        ("k", setting.k),
        key=lambda pair: pair[1],
    )[0]
    remedy = "save fewer states" if largest == "save_every" else f"lower {largest}"
    if len(setting.seeds) > 1:
        remedy += ", or run fewer seeds at once"
    require(needed, largest, remedy)
    return needed


def saves(setting: Setting) -> int:
    """How many states are kept, both ends included."""
    return 2 + (setting.steps // setting.save_every if setting.save_every else 0)


def states_size(setting: Setting) -> float:
    """Bytes of all states that are kept."""
    if setting.data is not None:
        return 0.0
    neurons = _neurons(setting, setting.k)
    deeper = (setting.depth - 2) * neurons
    return 8.0 * len(setting.seeds) * neurons * (_dimension(setting) + deeper) * saves(setting)


def _neurons(setting: Setting, k: int) -> int:
    return sum(setting.recipe(labels).neurons(k) for labels in setting.each_labels)


def _dimension(setting: Setting) -> int:
    """The coordinates that a drawn training set will have."""
    size = setting.k + _neurons(setting, setting.k) + setting.n
    compressible = setting.orientation == "axes" and _frame(setting) != "ambient"
    return size if compressible and size < setting.d else setting.d


def _frame(setting: Setting) -> str:
    if setting.coordinates != "auto":
        return setting.coordinates
    return setting.recipe(setting.each_labels[0]).coordinates()


def _read(setting: Setting, own: OwnPoints) -> SimulationPoints:
    neurons, seeds = _neurons(setting, own.task.k), setting.seeds
    require(8.0 * len(seeds) * neurons * own.task.d * 8, "m, h", "use fewer neurons")
    training = training_set(own, neurons, seeds)
    return SimulationPoints(training, own.means, own)
