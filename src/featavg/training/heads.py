"""Two-layer heads on frozen features, trained by the simulator's driver (Figure 2 c, d)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Seed
from featavg.boundary.public import check_fields, public
from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.errors import InputError, finite, one_of
from featavg.nets.two_layer import TwoLayer, binary, grouped
from featavg.progress import Progress
from featavg.registry import CONTROLLERS, LOSSES, STEPPERS
from featavg.training.driver import Stop, run
from featavg.training.objectives import TwoLayerObjective
from featavg.training.parts import Loss
from featavg.training.trajectory import Outcome

STARTS = ("awake", "gaussian", "samples")


@dataclass(frozen=True)
class HeadRecipe:
    """How a head is trained: full batch, momentum, a constant rate.

    Attributes:
        m: neurons of each class of the binary head.
        h: neurons of each group of the grouped head.
        scale: of the initial weights, in units of 1 / (mean length of a feature vector).
        rate: in units of 1 / (mean squared length of a feature vector), so that neither the width
            of a network nor the scale of its activations matters.
        start: "gaussian", or "awake": each neuron is mirrored, if need be, so that it is active on
            the mean of the class that it speaks for. Penultimate activations are not negative, so
            all of them lie to one side of half of all random neurons, which then never fire and
            never learn. To be active on the mean of all data is not enough: a neuron that is off
            for its own class is only ever pushed down, and one seed of five lost a class that way.
            "samples": each neuron begins at a point of the class that it speaks for, less the mean of all
            points. Neurons that compete need it: what all points share otherwise makes one neuron win
            every point.

    >>> import featavg as fa
    >>> fa.HeadRecipe(steps=100).momentum
    0.9
    """

    m: int = 15
    h: int = 3
    scale: float = 0.01
    rate: float = 1.0
    momentum: float = 0.9
    steps: int = 300
    start: str = "awake"

    def __post_init__(self) -> None:
        check_fields(self)
        one_of("start", self.start, STARTS)
        for name in ("m", "h", "scale", "rate", "steps"):
            finite(name, getattr(self, name), above=0)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def class_features(x: Float[ndarray, "n N"], classes: Int[ndarray, " n"], k: int) -> Float[ndarray, "k N"]:
    """mu_j: the mean of the activations of class j."""
    sums = np.zeros((k, x.shape[1]))
    counts = np.bincount(classes, minlength=k)
    if np.any(counts == 0):
        raise InputError("classes", "lack one of the classes", "give images of each")
    np.add.at(sums, classes, x)
    return sums / counts[:, None]


@public
def train_head(
    x: Float[ndarray, "n N"],
    classes: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    labels: Labels | str,
    recipe: HeadRecipe,
    seed: Seed,
    progress: Progress | None = None,
) -> TwoLayer:
    """A binary head on the coarse labels or a grouped head on the fine ones.

    Partly known labels give the grouped head too: a row whose fine class is not known has the loss
    -log of the summed probability of its class.

    Args:
        x: features, float64.
        classes: the fine class of each row.
        groups: the coarse class of each fine one, 0 or 1 (more only with fine labels).
        seed: of the initial weights.
        labels: "coarse", "fine", "competing" (coarse labels and a maximum over the neurons of a class,
            one output a neuron), or a `Labels` without groups: which rows carry their fine class.
        recipe: neurons, steps, step size and start.
        progress: called with the share done and a note.

    >>> import numpy as np
    >>> import featavg as fa
    >>> x = np.abs(np.random.default_rng(0).standard_normal((60, 8)))
    >>> classes = np.arange(60) % 4
    >>> net = fa.train_head(x, classes, np.array([0, 0, 1, 1]), "coarse", fa.HeadRecipe(steps=20), seed=0)
    >>> net(x).shape
    (60, 1)
    """
    known = ("coarse", "fine", "competing")
    kind = one_of("labels", labels, known) if isinstance(labels, str) else "fine"
    competing, kind = kind == "competing", "coarse" if kind == "competing" else kind
    net = initial_head(x, classes, groups, kind, recipe, seed)
    trainable: tuple[str, ...] = ("weights",)
    if isinstance(labels, Labels):
        task = MultiCluster(k=len(groups), d=len(groups), positive=groups == 1)
        if labels.groups is not None or groups.max() > 1:
            problem = "merge classes" if groups.max() == 1 else "are about more than two classes"
            raise InputError("labels", problem, "give a share of fine labels of two classes")
        signs = "".join("+" if group else "-" for group in groups)
        loss: Loss = LOSSES.build("partial-cross-entropy", positive=signs)
        targets = labels.targets(task, classes, seed)
    elif kind == "coarse":
        if groups.max() > 1:
            raise InputError("groups", "hold more than two classes", "train the fine head")
        if competing:
            net, loss = grouped(net.weights, 2 * recipe.m), LOSSES.build("pooled-logistic")
        else:
            loss, trainable = LOSSES.build("logistic"), ("weights", "biases")
        targets = np.where(groups[classes] == 1, 1, -1)
    else:
        loss, targets = LOSSES.build("cross-entropy"), classes
    objective = TwoLayerObjective(x, targets, net, loss, trainable)
    length = float(np.mean(np.einsum("ij,ij->i", x, x)))
    neurons = recipe.m if kind == "coarse" else recipe.h
    neurons = 1 if competing else neurons
    trajectory = run(
        objective,
        objective.params_of(net),
        stepper=STEPPERS.build("momentum", beta=recipe.momentum),
        # A neuron's gradient carries the 1/m (1/h) of the second layer: undo it.
        controller=CONTROLLERS.build("constant", rate=recipe.rate * neurons / length),
        stop=Stop(recipe.steps),
        progress=progress,
    )
    if trajectory.outcomes[0] is Outcome.DIVERGED:
        raise InputError("rate", f"{recipe.rate:g} made the loss infinite", "lower it")
    return trajectory.net


def initial_head(
    x: Float[ndarray, "n N"],
    classes: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    labels: str,
    recipe: HeadRecipe,
    seed: int,
) -> TwoLayer:
    """The head before training."""
    k = len(groups)
    neurons = 2 * recipe.m if labels == "coarse" else k * recipe.h
    length = float(np.sqrt(np.mean(np.einsum("ij,ij->i", x, x))))
    rng = stream(seed, f"{labels} head")
    weights = rng.standard_normal((neurons, x.shape[1]))
    weights *= recipe.scale / (length * np.sqrt(x.shape[1]))
    if recipe.start == "samples":
        kinds, order = (groups[classes], (1, 0)) if labels == "coarse" else (classes, range(k))
        each = neurons // len(order)
        rows = [rng.choice(np.flatnonzero(kinds == j), each) for j in order]
        weights = x[np.concatenate(rows)] - x.mean(axis=0)
        weights *= recipe.scale / (length * np.linalg.norm(weights, axis=1, keepdims=True))
    if recipe.start == "awake":
        if labels == "coarse":
            spoken_for = np.repeat(class_features(x, groups[classes], 2)[::-1], recipe.m, axis=0)
        else:
            spoken_for = np.repeat(class_features(x, classes, k), recipe.h, axis=0)
        asleep = np.einsum("ij,ij->i", weights, spoken_for) < 0
        weights *= np.where(asleep, -1.0, 1.0)[:, None]
    return binary(weights) if labels == "coarse" else grouped(weights, k)


def dead_neurons(net: TwoLayer, x: Float[ndarray, "n N"]) -> Bool[ndarray, " M"]:
    """Neurons that no point activates: they compute nothing and will never learn."""
    return np.asarray(~(net.preactivations(x) > 0).any(axis=0))


def lost_classes(net: TwoLayer, x: Float[ndarray, "n N"], classes: Int[ndarray, " n"]) -> list[int]:
    """Classes that no point is given to: their group is dead, or drowned by the others."""
    if net.outputs == 1:
        return []
    given = np.bincount(net(x).argmax(axis=1), minlength=net.outputs)
    present = np.bincount(classes, minlength=net.outputs) > 0
    return np.flatnonzero(present & (given == 0)).tolist()
