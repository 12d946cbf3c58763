"""Train both layers of a shallow network of power or leaky ReLUs, from a small balanced start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.paper.connections.power_relu import DegreeOneActivation, Shallow
from featavg.progress import Progress
from featavg.training.controllers import Controller
from featavg.training.controllers.error import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import Loss, LossValue, check_targets
from featavg.training.losses.exponential import Exponential
from featavg.training.objectives.objective import Params, check_points
from featavg.training.steppers import Stepper
from featavg.training.steppers.flow import GradientFlow
from featavg.training.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class ShallowEvaluation:
    """The network on its training set; the gradient is computed when it is asked for."""

    x: Float[ndarray, "*s n N"]
    net: Shallow
    preactivations: Float[ndarray, "*s n h"]
    norms: Float[ndarray, "*s 1 h"]
    activations: Float[ndarray, "*s n h"]
    loss: LossValue

    @property
    def log_loss(self) -> Float[ndarray, "*s"]:
        """The logarithm of the mean loss."""
        return self.loss.log_mean

    @cached_property
    def gradient(self) -> Params:
        """(dL/dW) / L and (dL/dv) / L."""
        outer = self.loss.slopes  # n x 1
        by_head = (np.swapaxes(self.activations, -1, -2) @ outer)[..., 0]
        slope = self.net.activation.slope(self.preactivations, self.norms)
        by_weights = np.swapaxes(outer * slope, -1, -2) @ self.x
        # r dphi/dr = (1 - q) phi for an activation of degree q in z, and dr/dw = w / r.
        radial = (1.0 - self.net.activation.degree) * by_head / self.norms[..., 0, :] ** 2
        by_weights += radial[..., None] * self.net.weights
        return by_weights * self.net.head[..., None], by_head


@dataclass(frozen=True, eq=False)
class ShallowObjective:
    """The mean loss of f(x) = sum_j v_j phi(<w_j, x>, |w_j|), in closed form.

    Args:
        x: the points.
        y: labels, +1 or -1.
        activation: phi.
        loss: of the margin.
    """

    x: Float[ndarray, "*s n N"]
    y: Int[ndarray, "*s n"]
    activation: DegreeOneActivation
    loss: Loss = field(default_factory=Exponential)

    def __post_init__(self) -> None:
        check_points(self.x, self.y)
        check_targets(self.y, 1)

    @property
    def trainable(self) -> Sequence[str]:
        """Both layers."""
        return ("weights", "head")

    @property
    def data(self) -> Sequence[ndarray]:
        """The points and their labels."""
        return self.x, self.y

    def net_with(self, params: Params) -> Shallow:
        """The network that has these parameters."""
        return Shallow(params[0], params[1], self.activation)

    def evaluate(self, params: Params) -> ShallowEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z, norms = self.x @ np.swapaxes(net.weights, -1, -2), net.norms
        active = self.activation.value(z, norms)
        outputs = active @ net.head[..., None]
        return ShallowEvaluation(self.x, net, z, norms, active, self.loss(outputs, self.y))


def balanced_start(
    unit_weights: Float[ndarray, "*s h N"], scale: float
) -> tuple[Float[ndarray, "*s h N"], Float[ndarray, "*s h"]]:
    """w_j = scale * direction, v_j = +-|w_j|, signs in turn; the flow keeps |v_j| = |w_j|."""
    if not scale > 0:
        raise InputError("scale", f"is {scale}", "start from weights that are not all zero")
    if unit_weights.shape[-2] < 2:
        raise InputError("width", f"is {unit_weights.shape[-2]}", "give a neuron of each sign")
    weights = scale * unit_weights
    signs = np.where(np.arange(weights.shape[-2]) % 2 == 0, 1.0, -1.0)
    return weights, signs * np.linalg.norm(weights, axis=-1)


def train_shallow(
    objective: ShallowObjective,
    unit_weights: Float[ndarray, "*s h N"],
    *,
    scale: float = 1e-7,
    steps: int = 4000,
    time: float = 16_000.0,
    stepper: Stepper | None = None,
    controller: Controller | None = None,
    save_at: SaveAt = SaveAt(),
    progress: Progress | None = None,
) -> tuple[Shallow, Trajectory]:
    """Follow the gradient flow to `time`; the default is Min and Vidal's 401 epochs at rate 0.2.

    Returns the trained network and the trajectory, whose parameters are "weights" and "head".
    """
    if not time > 0:
        raise InputError("time", f"is {time}", "follow the flow for a positive time")
    start = balanced_start(unit_weights, scale)
    trajectory = run(
        objective,
        start,
        stepper=stepper or GradientFlow(1e-2),
        controller=controller or ErrorControl(),
        stop=Stop(steps, log_time=math.log(time)),
        save_at=save_at,
        progress=progress,
        settings={"activation": objective.activation.name, "scale": scale, "time": time},
    )
    return trajectory.net, trajectory
