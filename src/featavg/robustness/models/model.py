"""A model wrapped once, with its input bounds and its decision, so that a radius has a unit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import positive_mask
from featavg.errors import InputError
from featavg.nets.network import one_network
from featavg.nets.readouts._readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import ALL, Decision
from featavg.robustness.models.norms import Bounds

# From the outputs of some rows, and which rows they are, to the covector that is pulled back.
Covector = Callable[[ndarray, Any], ndarray]


@dataclass
class Cost:
    """How often a model was asked, a point counted once each time.

    A gradient is one forward and one backward pass; an evaluation is a forward pass alone.
    """

    evaluations: int = 0
    gradients: int = 0


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """What an attack may ask of a classifier: its outputs, and a covector pulled back to its input.

    Points are rows of flat arrays; a model that wants images reshapes them itself. `bounds` are
    those of the input, the same for every coordinate, or None where any point of R^D is allowed.

    Attributes:
        decision: from outputs to a coarse decision.
        bounds: (low, high) or None.
        space: the unit of a radius, without its norm.
        slack: a flip must be this share of the largest output deep. In float32 the same point has
            other last digits in another batch, and a witness must flip there too.
        cost: counts every question asked.
    """

    decision: Decision
    bounds: Bounds
    space: str
    slack: float = 0.0
    cost: Cost = field(default_factory=Cost)

    @abstractmethod
    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n c"]:
        """F(x), without incrementing the query counter."""

    @abstractmethod
    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n c"], Float[ndarray, "n D"]]:
        """F(x), and the gradient in x of <v, F(x)> at v = covector(F(x), rows)."""

    def rows(self, x: ndarray) -> Float[ndarray, "n D"]:
        """Points as flat rows of the model's own precision, checked."""
        return checked_points(np.asarray(x, dtype=float).reshape(len(x), -1), self.bounds)

    def outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n c"]:
        """F(x), counted and checked."""
        self.cost.evaluations += len(x)
        outputs = self._outputs(x)
        self.decision.check(outputs)
        return outputs

    def margins(self, x: Float[ndarray, "n D"], label: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Positive where the decision is the label, by plain evaluation; a tie counts as fooled."""
        return self._margins(self.outputs(x), label)

    def _margins(self, outputs: Float[ndarray, "n c"], label: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
        depth = self.slack * np.abs(outputs).max(axis=1)
        return np.asarray(self.decision.margins(outputs, label) + depth)

    def flips(self, outputs: Float[ndarray, "n c"], label: Int[ndarray, " n"]) -> Bool[ndarray, " n"]:
        """Where these outputs decide against the label."""
        return self._margins(outputs, label) <= 0

    def descend(
        self, x: Float[ndarray, "n D"], label: Int[ndarray, " n"], rival: Int[ndarray, " n"] | None = None
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"], Float[ndarray, "n D"]]:
        """The margin, and the objective against a rival (ALL by default) with its gradient."""
        rivals = np.full(len(label), ALL) if rival is None else rival
        objective = self.decision.objective
        outputs, gradient = self.pull(x, lambda f, at: objective(f, label[at], rivals[at])[1])
        value, _ = objective(outputs, label, rivals)
        return self._margins(outputs, label), value, gradient

    def pull(self, x: Float[ndarray, "n D"], covector: Covector) -> tuple[Float[ndarray, "n c"], Float[ndarray, "n D"]]:
        """`_pull`, counted and checked."""
        self.cost.gradients += len(x)

        def checked(outputs: ndarray, at: slice) -> ndarray:
            self.decision.check(outputs)
            return covector(outputs, at)

        outputs, gradient = self._pull(x, checked)
        if not np.all(np.isfinite(gradient)):
            raise InputError("model", "has a gradient that is not finite", "check its weights")
        return outputs, gradient

    def unit(self, norm: str) -> str:
        """The unit of a radius, such as "l2, pixels in [0,1]"."""
        return f"{norm}, {self.space}"


def space_of(bounds: Bounds) -> str:
    """The name of a unit from the bounds of the input.

    >>> space_of((0.0, 1.0)), space_of(None)
    ('pixels in [0,1]', 'raw')
    """
    return "raw" if bounds is None else f"pixels in [{bounds[0]:g},{bounds[1]:g}]"


def checked_bounds(bounds: Bounds) -> Bounds:
    """The bounds as two increasing numbers, or None."""
    if bounds is None:
        return None
    low, high = bounds
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError("bounds", f"are ({low}, {high})", "give low < high, or None for raw inputs")
    return float(low), float(high)


def checked_points(x: Float[ndarray, "n D"], bounds: Bounds) -> Float[ndarray, "n D"]:
    """Refuse points that are not numbers or lie outside the bounds."""
    if len(x) == 0:
        raise InputError("x", "is empty", "give at least one point")
    if not np.all(np.isfinite(x)):
        raise InputError("x", "holds a NaN or an infinity", "give finite points")
    if bounds is not None and (x.min() < bounds[0] or x.max() > bounds[1]):
        raise InputError(
            "x",
            f"reaches from {x.min():.4g} to {x.max():.4g}, outside the bounds {bounds}",
            "scale the points, or state the bounds they have",
        )
    return x


@dataclass(frozen=True, eq=False)
class TwoLayerModel(Model):
    """A two-layer ReLU network with closed-form gradients.

    >>> net = TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, -1.0]]))
    >>> model = network_model(net)
    >>> model.margins(np.array([[3.0, 1.0]]), np.array([1])), model.unit("l2")
    (array([2.]), 'l2, raw')
    """

    net: TwoLayer = field(kw_only=True)

    def rows(self, x: ndarray) -> Float[ndarray, "n D"]:
        """Points as float64 rows with as many coordinates as the network has."""
        x = np.asarray(x, dtype=float)
        if x.ndim != 2 or x.shape[1] != self.net.dimension:
            raise InputError("x", f"has shape {x.shape}", f"give rows of {self.net.dimension} coordinates")
        return checked_points(x, self.bounds)

    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n c"]:
        return self.net(x)

    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n c"], Float[ndarray, "n D"]]:
        z = self.net.preactivations(x)
        outputs = np.maximum(z, 0.0) @ self.net.head.T
        pulled = covector(outputs, slice(None)) @ self.net.head
        return outputs, (pulled * (z >= 0)) @ self.net.weights


@public
def network_model(
    net: TwoLayer,
    positive: Sequence[int] | Sequence[bool] | ndarray | None = None,
    readout: str | ReadOut = "probability",
    bounds: Bounds = None,
) -> TwoLayerModel:
    """Wrap a network of the theory: one output is its own score, more need `positive`.

    Args:
        net: one network, not a batch.
        positive: which outputs belong to the class +1, as a mask or as indices.
        readout: a name from `fa.readouts.NAMES`, or a read-out of your own.
        bounds: the box its inputs live in, or None.

    >>> import numpy as np
    >>> import featavg as fa
    >>> model = fa.network_model(fa.binary(np.array([[1.0, 0.0], [0.0, 1.0]])))
    >>> model.outputs(np.array([[3.0, 1.0]])), model.unit("l2")
    (array([[2.]]), 'l2, raw')
    """
    one_network(net)
    if net.outputs > 1 and positive is None:
        raise InputError("positive", "is missing", f"say which of {net.outputs} outputs are +1")
    mask = None
    if positive is not None and net.outputs > 1:
        mask = positive_mask(positive, net.outputs, "outputs")
    decision = Decision.of(mask, readout=readout)
    box = checked_bounds(bounds)
    return TwoLayerModel(decision, box, space_of(box), net=net)
