"""A network of the theory and how it is trained, as plain values. Nothing here imports NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from featavg.errors import InputError
from featavg.fields import about, fit_fields
from featavg.registry import ACTIVATIONS, CONTROLLERS, LOSSES, STEPPERS

if TYPE_CHECKING:
    from featavg.nets.activations import Activation
    from featavg.training.controllers import Controller
    from featavg.training.losses import Loss
    from featavg.training.steppers import Stepper

LABELS = ("coarse", "fine")
# "both" says "all" of two layers.
LAYERS = ("first", "hidden", "all", "both")
HEADS = ("theory", "random")
_nets, _training = partial(about, section="The networks"), partial(about, section="The training")
_ONE = "give at least one neuron"


@dataclass(frozen=True, kw_only=True)
class RecipeFields:
    """What `Recipe` and `featavg.simulate.setting.Setting` share; `Recipe` says what each field means."""

    m: int = _nets(5, "Neurons per class, coarse labels", least=1, remedy=_ONE)
    h: int = _nets(1, "Neurons per cluster, fine labels", least=1, remedy=_ONE)
    depth: int = _nets(2, "Layers of weights", least=2)
    residual: bool = _nets(False, "Hidden layers add what they are fed")
    activation: Activation | str = _nets(
        "relu", "Activation (options: leaky-relu:leak=0.1)", choices=ACTIVATIONS
    )
    biases: bool | None = _nets(None, "Hidden biases", unset="with coarse labels only")
    head: str = _nets("theory", "Last layer", choices=HEADS)
    inner_scale: float = _nets(1.0, "Scale of layers behind the first", least=0)
    sigma_w: float = _nets(1e-5, "Scale of the first weights", least=0)
    sigma_b: float = _nets(1e-5, "Scale of the first biases", least=0)
    layers: str = _nets("first", "Layers that are trained", choices=LAYERS)

    loss: Loss | str | None = _training(None, "Loss", choices=LOSSES, unset="by the labels")
    stepper: Stepper | str = _training(
        "gd", "Stepper (options: momentum:beta=0.5)", choices=STEPPERS
    )
    controller: Controller | str | None = _training(
        None, "Controller", choices=CONTROLLERS, unset="by the stepper"
    )
    lr: float = _training(1e-3, "Learning rate", above=0)
    steps: int = _training(100, "The most steps to take", least=0)
    time: float = _training(math.inf, "Stop at this gradient-flow time", above=0)


@dataclass(frozen=True, kw_only=True)
class Recipe(RecipeFields):
    """A network and how it is trained; the defaults are the paper's.

    Args:
        labels: "coarse" trains the binary network on y, "fine" the grouped one on the cluster.
        m: neurons of each class of the binary network.
        h: neurons of each group of the grouped network.
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

    labels: str = about("coarse", "Labels", choices=LABELS)
    target_log_loss: float = about(-math.inf, "Stop at this logarithm of the loss")

    def __post_init__(self) -> None:
        fit_fields(self)
        ACTIVATIONS.build(self.activation)
        if self.residual and self.depth == 2:
            raise InputError("residual", "is set with depth 2", "it needs a depth of 3 or more")
        stepper, controller, loss = self.chosen_stepper, self.chosen_controller, self.chosen_loss
        if controller.needs_error and not stepper.estimates_error:
            able = [name for name in STEPPERS if STEPPERS[name].estimates_error]
            problem = f"is {controller.name} with stepper {stepper.name}"
            raise InputError("controller", problem, f"it needs the stepper {' or '.join(able)}")
        if loss.one_output != (self.labels == "coarse"):
            fitting = [n for n in LOSSES if LOSSES[n].one_output == (self.labels == "coarse")]
            problem = f"is {loss.name} for {self.labels} labels"
            raise InputError("loss", problem, f"choose {' or '.join(fitting)}")

    def neurons(self, k: int) -> int:
        """M, the number of hidden neurons of the network for k clusters."""
        return 2 * self.m if self.labels == "coarse" else k * self.h

    @property
    def chosen_stepper(self) -> Stepper:
        """The stepper as an object."""
        return STEPPERS.build(self.stepper)

    @property
    def chosen_controller(self) -> Controller:
        """The controller as an object, by default the one that fits the stepper."""
        fitting = "error" if self.chosen_stepper.estimates_error else "constant"
        return CONTROLLERS.build(self.controller or fitting, rate=self.lr, steps=self.steps)

    @property
    def chosen_loss(self) -> Loss:
        """The loss as an object, by default the one that fits the labels."""
        fitting = "logistic" if self.labels == "coarse" else "cross-entropy"
        return LOSSES.build(self.loss or fitting)

    @property
    def has_biases(self) -> bool:
        """Whether hidden neurons have biases."""
        return self.labels == "coarse" if self.biases is None else self.biases

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
