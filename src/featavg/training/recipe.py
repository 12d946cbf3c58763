"""A network of the theory and how it is trained, as plain values. Nothing here imports NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from featavg.errors import InputError
from featavg.fields import about, fit_fields
from featavg.registry import ACTIVATIONS, CONTROLLERS, LOSSES, POOLINGS, STEPPERS

if TYPE_CHECKING:
    from numpy import ndarray

    from featavg.data.clusters import MultiCluster
    from featavg.data.labels import Labels
    from featavg.nets.activations._activation import Activation
    from featavg.training.parts import Controller, Loss, Stepper

LABELS = ("coarse", "fine")
# "both" says "all" of two layers.
LAYERS = ("first", "hidden", "all", "both")
HEADS = ("theory", "random")
_nets, _training = partial(about, section="The networks"), partial(about, section="The training")
_ONE = "give at least one neuron"
Net = TypeVar("Net")


@dataclass(frozen=True, kw_only=True)
class RecipeFields:
    """What `Recipe` and `featavg.simulate.setting.Setting` share; `Recipe` says what each field means."""

    m: int = _nets(5, "Neurons per class, coarse labels", least=1, remedy=_ONE)
    h: int = _nets(1, "Neurons per cluster, fine labels", least=1, remedy=_ONE)
    pooling: str = _nets("mean", "How neurons make the score of a class (options: top:q=3)", choices=POOLINGS)
    depth: int = _nets(2, "Layers of weights", least=2, most=1000)
    residual: bool = _nets(False, "Hidden layers add what they are fed")
    activation: Activation | str = _nets("relu", "Activation (options: leaky-relu:leak=0.1)", choices=ACTIVATIONS)
    biases: bool | None = _nets(None, "Hidden biases", unset="with coarse labels only")
    head: str = _nets("theory", "Last layer", choices=HEADS)
    inner_scale: float = _nets(1.0, "Scale of layers behind the first", least=0)
    sigma_w: float = _nets(1e-5, "Scale of the first weights", least=0)
    sigma_b: float = _nets(1e-5, "Scale of the first biases", least=0)
    layers: str = _nets("first", "Layers that are trained", choices=LAYERS)

    loss: Loss | str | None = _training(None, "Loss", choices=LOSSES, unset="by the labels")
    stepper: Stepper | str = _training("gd", "Stepper (options: momentum:beta=0.5)", choices=STEPPERS)
    controller: Controller | str | None = _training(None, "Controller", choices=CONTROLLERS, unset="by the stepper")
    lr: float = _training(1e-3, "Learning rate", above=0)
    steps: int = _training(100, "The most steps to take", least=0)
    time: float = _training(math.inf, "Stop at this gradient-flow time", above=0)


@dataclass(frozen=True, kw_only=True)
class Recipe(RecipeFields):
    """A network and how it is trained; the defaults are the paper's.

    Args:
        labels: "coarse" trains the binary network on y, "fine" the grouped one on the cluster; a
            `Labels` is anything between, on the grouped network with an output for each super-label.
        m: neurons of each class of the binary network.
        h: neurons of each group of the grouped network.
        pooling: with coarse labels, how the m neurons of a class make its score: their "mean", or a
            read-out such as "max", for which each neuron is an output (and has no bias).
        sigma_w, sigma_b: scale of the initial weights and biases.
        lr: learning rate of the constant controller.
        steps: the most steps to take.
        time: gradient-flow time to stop at (for the stepper "flow").
        target_log_loss: logarithm of the loss to stop at.
        layers: train the "first" layer only, all "hidden" ones, or "all" ("both" of two).
        depth: layers of weights; every hidden layer has as many neurons as the first.
        residual: whether hidden layers behind the first add what they are fed.
        activation: an activation or its name, such as "leaky-relu:leak=0.1".
        biases: whether hidden neurons have biases; None for those of the theory, which has them with
            coarse labels and not with fine ones.
        head: the last layer starts as that of the "theory" (+-1/m, or averages of groups), or
            "random", Gaussian.
        inner_scale: of the Gaussian layers behind the first, in units of sqrt(2 / neurons).
        loss: a loss or its name; None for logistic (coarse) and cross-entropy (fine).
        stepper: a stepper or its name, such as "momentum:beta=0.5".
        controller: a controller or its name; None for the constant rate `lr`, or for the control of
            the error where the stepper estimates one.

    >>> import featavg as fa
    >>> fa.Recipe(labels="fine", steps=50, stepper="momentum:beta=0.5").stepper
    'momentum:beta=0.5'
    """

    labels: Labels | str = about("coarse", "Labels", choices=LABELS)
    target_log_loss: float = about(-math.inf, "Stop at this logarithm of the loss")

    def __post_init__(self) -> None:
        fit_fields(self)
        ACTIVATIONS.build(self.activation)
        pooling = POOLINGS.build(self.pooling)
        if self.competes:
            pooling.check(self.m)
        if self.residual and self.depth == 2:
            raise InputError("residual", "is set with depth 2", "it needs a depth of 3 or more")
        stepper, controller, loss = self.chosen_stepper, self.chosen_controller, self.chosen_loss
        if controller.needs_error and not stepper.estimates_error:
            able = [name for name in STEPPERS if STEPPERS[name].estimates_error]
            problem = f"is {controller.name} with stepper {stepper.name}"
            raise InputError("controller", problem, f"it needs the stepper {' or '.join(able)}")
        if not self._takes(loss):
            fitting = [name for name in LOSSES if self._takes(LOSSES[name])]
            kind = self.labels if isinstance(self.labels, str) else "partly fine"
            problem = f"is {loss.name} for {kind} labels"
            raise InputError("loss", problem, f"choose {' or '.join(fitting)}")

    def _takes(self, loss: Any) -> bool:
        """Whether a loss is for the outputs of this network."""
        return loss.one_output == self.one_output and loss.pools == self.competes

    @property
    def one_output(self) -> bool:
        """Whether the network is the binary one."""
        return self.labels == "coarse" and self.pooling == "mean"

    @property
    def competes(self) -> bool:
        """Whether the neurons of a class are pooled by a read-out."""
        return self.labels == "coarse" and self.pooling != "mean"

    def outputs(self, k: int) -> int:
        """The number of outputs of the network for k clusters."""
        if self.labels == "coarse":
            return 1 if self.one_output else 2 * self.m
        return k if isinstance(self.labels, str) else self.labels.count(k)

    def neurons(self, k: int) -> int:
        """M, the number of hidden neurons of the network for k clusters."""
        return 2 * self.m if self.labels == "coarse" else self.outputs(k) * self.h

    def decision(self, task: MultiCluster, readout: str) -> tuple[ndarray | None, str]:
        """Which outputs are of the class +1 (None for one output), and how they are read out."""
        import numpy as np

        if self.labels == "coarse":
            return (None, readout) if self.one_output else (np.arange(2 * self.m) < self.m, self.pooling)
        if isinstance(self.labels, str):
            return task.positive_clusters, readout
        return self.labels.output_classes(task), readout

    def targets(self, task: MultiCluster) -> ndarray:
        """The output that stands for each cluster, of a network with several."""
        import numpy as np

        return np.arange(task.k) if isinstance(self.labels, str) else self.labels.outputs(task)

    def by_cluster(self, net: Net, task: MultiCluster) -> Net:
        """The same neurons below an output for each cluster (or one output), for measures of weights."""
        from featavg.nets.two_layer import TwoLayer, binary_head

        if isinstance(self.labels, str) and not self.competes:
            return net
        last = "head" if isinstance(net, TwoLayer) else f"weights{self.depth}"
        head = net.arrays()[last]  # type: ignore[attr-defined]
        rows = binary_head(self.m) @ head if self.competes else head[..., self.targets(task), :]
        return net.with_arrays({last: rows})  # type: ignore[attr-defined]

    @property
    def chosen_stepper(self) -> Stepper:
        """The stepper as an object."""
        return STEPPERS.build(self.stepper)

    @property
    def chosen_controller(self) -> Controller:
        """The controller as an object, by default the one that fits the stepper."""
        fitting = "error" if self.chosen_stepper.estimates_error else "constant"
        chosen = fitting if self.controller is None else self.controller
        return CONTROLLERS.build(chosen, rate=self.lr, steps=self.steps)

    @property
    def chosen_loss(self) -> Loss:
        """The loss as an object, by default the one that fits the labels."""
        if isinstance(self.labels, str):
            coarse = "pooled-logistic" if self.competes else "logistic"
            fitting = coarse if self.labels == "coarse" else "cross-entropy"
        else:
            fitting = "partial-cross-entropy"
        return LOSSES.build(fitting if self.loss is None else self.loss, pooling=self.pooling)

    @property
    def has_biases(self) -> bool:
        """Whether hidden neurons have biases."""
        return self.one_output if self.biases is None else self.biases

    @property
    def two_layers_of_the_theory(self) -> bool:
        """Whether the network is one of the theory's own, which have a faster path."""
        plain = self.depth == 2 and ACTIVATIONS.build(self.activation).name == "relu"
        return plain and self.biases is None and self.head == "theory"

    @property
    def trainable(self) -> tuple[str, ...]:
        """What is trained, in the order in which it is counted."""
        if self.two_layers_of_the_theory:
            first = ("weights", "biases") if self.has_biases else ("weights",)
            return (*first, "head") if self.layers in ("all", "both") else first
        hidden = 1 if self.layers == "first" else self.depth - 1
        parts = ("weights", "biases") if self.has_biases else ("weights",)
        names = [f"{part}{number}" for number in range(1, hidden + 1) for part in parts]
        last = [f"weights{self.depth}"] if self.layers in ("all", "both") else []
        return (*names, *last)

    def coordinates(self) -> str:
        """Compression leaves a run unchanged only if turning the data turns the run."""
        return "auto" if self.chosen_stepper.keeps_rotations else "ambient"
