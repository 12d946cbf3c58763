"""A classifier of anybody's, made something that can be audited.

Torch modules are taken as they are, by `torch_classifier`. Scikit-learn's networks and linear models
and the package's own networks have closed-form gradients, by `dense`, and need no torch.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from numpy import ndarray

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Model

# Exact radii of wider networks take minutes a point.
WIDEST_EXACT = 40


@dataclass(frozen=True, eq=False)
class Batch:
    """What one pass over a few images gave: `values` and `gradients` by layer, the rest as in `Passes`."""

    outputs: Float[ndarray, "n c"]
    features: Float[ndarray, "n N"] | None
    weight: Float[ndarray, "c N"] | None
    values: dict[str, Float[ndarray, "n D"]]
    gradients: dict[str, Float[ndarray, "n D"]]


@dataclass(frozen=True, eq=False)
class Classifier(ABC):
    """A classifier with logits, bounds and perhaps an exact twin.

    Attributes:
        name: for titles.
        bounds: of its input.
        outputs: how many logits there are.
        kind: what it returns: "logits", "softmax" or "sigmoid".
        exact: the same function of flat inputs as a two-layer network, where it is one and small.
        versions: of the libraries that evaluate it.
        batch: images that go through it at a time; fewer where one needs much memory.
    """

    name: str
    bounds: tuple[float, float] | None
    outputs: int
    kind: str
    exact: TwoLayer | None
    versions: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    batch: int = field(default=100, kw_only=True)

    @abstractmethod
    def model(self, decision: Decision, x: ndarray) -> Model:
        """The decision on inputs like `x`, for attacks."""

    @abstractmethod
    def look(self, x: ndarray, covector: Callable[[ndarray], ndarray], effective: bool) -> Batch:
        """Outputs, features and gradients of a few images.

        Args:
            covector: from outputs to what is pulled back from them.
            effective: pull it back to the effective gradient, see `effective_gradient`.
        """

    @abstractmethod
    def arrays(self) -> Sequence[ndarray]:
        """Its weights: other weights, another network."""

    def unchanged(self) -> contextlib.AbstractContextManager[None]:
        """Leaves the user's object as it was."""
        return contextlib.nullcontext()
