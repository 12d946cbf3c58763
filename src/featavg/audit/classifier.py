"""A classifier of anybody's, made something that can be audited.

Torch modules are taken as they are, by `torch_classifier`. Scikit-learn's networks and linear models
and the package's own networks have closed-form gradients, by `dense`, and need no torch.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError, told
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


def classifier(
    model: Any,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str | None = None,
) -> Classifier:
    """Take a model in, look at it once, and refuse what cannot be audited in one sentence."""
    title = name or type(model).__name__
    inner: Any = getattr(model, "net", None)  # of a Trajectory, or of a network trained on images
    if is_module(model) or (is_module(inner) and not hasattr(model, "coefs_")):
        from featavg.audit.torch_classifier import torch_classifier

        module = model if is_module(model) else inner
        return torch_classifier(module, x, bounds, mean, std, title)
    from featavg.audit.dense import dense_classifier

    return dense_classifier(model, x, bounds, mean, std, title)


@contextlib.contextmanager
def on_device(model: Any, device: str | None) -> Iterator[None]:
    """Moves a torch module to a device, and back afterwards."""
    inner: Any = model if is_module(model) else getattr(model, "net", None)
    if device is None or model is None:
        yield
        return
    if not is_module(inner):
        problem = f"is {device!r} for a {type(model).__name__}"
        raise InputError("device", problem, "leave it out: only torch modules have one")
    from featavg.nets.torch.outputs import device_of

    before = device_of(inner)
    try:
        inner.to(device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        remedy = "name one that torch has here, such as cpu, cuda or mps"
        raise InputError("device", f"is {device!r} ({told(error)})", remedy) from error
    try:
        yield
    finally:
        inner.to(before)


def named_input(model: Any, name: str | None) -> Any:
    """The model itself, or a module that gives it its images by name.

    `pixel_values`, the name in HuggingFace's models, is found where it is not the first argument.
    """
    inner = model if is_module(model) else None
    if inner is None and name is None:
        return model
    if inner is None:
        problem = f"is {name!r} for a {type(model).__name__}"
        raise InputError("input_name", problem, "leave it out: only torch modules have names")
    with contextlib.suppress(TypeError, ValueError):  # compiled modules have no signature
        accepted = list(inspect.signature(inner.forward).parameters)
        if name is None and "pixel_values" in accepted[1:]:
            name = "pixel_values"
    if name is None:
        return model
    from featavg.audit.torch_classifier import ByName

    return ByName(inner, name)


def is_module(model: Any) -> bool:
    """Whether it is a torch module; without torch nothing is."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
