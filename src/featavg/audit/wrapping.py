"""Takes in a model of any kind: a torch module, a model of scikit-learn, or a network of the simulator."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from numpy import ndarray

from featavg.audit.classifier import Classifier
from featavg.audit.dense import dense_classifier
from featavg.errors import InputError, message_of


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
        raise InputError("device", f"is {device!r} ({message_of(error)})", remedy) from error
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
