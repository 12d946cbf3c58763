"""Takes in a model of anybody's: a torch module, a model of scikit-learn, a network of the simulator, or a file.

Torch modules are taken as they are, by `torch_classifier`. Scikit-learn's networks and linear models
and the package's own networks have closed-form gradients, by `dense`, and need no torch.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy import ndarray

from featavg.audit.classifier import Classifier
from featavg.audit.dense import dense_classifier
from featavg.errors import InputError, message_of
from featavg.storage.reading import is_file, is_folder

if TYPE_CHECKING:
    from torch import nn

    from featavg.nets.deep import Deep


def classifier(
    model: Any,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str | None = None,
) -> Classifier:
    """Take a model in, look at it once, and refuse what cannot be audited in one sentence."""
    title, module = name or type(model).__name__, module_of(model)
    if module is None or (module is not model and hasattr(model, "coefs_")):
        return dense_classifier(model, x, bounds, mean, std, title)
    from featavg.audit.torch_classifier import torch_classifier

    return torch_classifier(module, x, bounds, mean, std, title)


def module_of(model: Any) -> nn.Module | None:
    """The torch module that this is or, as the result of a training, holds; without torch nothing is one."""
    torch = sys.modules.get("torch")
    found = (each for each in (model, getattr(model, "net", None)) if torch and isinstance(each, torch.nn.Module))
    return next(found, None)


@contextlib.contextmanager
def on_device(model: Any, device: str | None) -> Iterator[None]:
    """Moves a torch module to a device, and back afterwards."""
    if device is None or model is None:
        yield
        return
    module = module_of(model)
    if module is None:
        problem = f"is {device!r} for a {type(model).__name__}"
        raise InputError("device", problem, "leave it out: only torch modules have one")
    from featavg.nets.torch.outputs import device_of

    before = device_of(module)
    try:
        module.to(device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        remedy = "name one that torch has here, such as cpu, cuda or mps"
        raise InputError("device", f"is {device!r} ({message_of(error)})", remedy) from error
    try:
        yield
    finally:
        module.to(before)


def named_input(model: Any, name: str | None) -> Any:
    """The model itself, or a module that gives it its images by name.

    `pixel_values`, the name in HuggingFace's models, is found where it is not the first argument.
    """
    module = module_of(model)
    if module is None or module is not model:
        if name is None:
            return model
        problem = f"is {name!r} for a {type(model).__name__}"
        raise InputError("input_name", problem, "leave it out: only torch modules have names")
    with contextlib.suppress(TypeError, ValueError):  # compiled modules have no signature
        accepted = list(inspect.signature(module.forward).parameters)
        if name is None and "pixel_values" in accepted[1:]:
            name = "pixel_values"
    if name is None:
        return model
    from featavg.audit.torch_classifier import ByName

    return ByName(module, name)


def load_model(source: str, weights: Path | None = None, argument: str = "model") -> nn.Module | Deep:
    """A network for an audit (torch).

    Args:
        source: `MODULE:FACTORY`, a function without arguments that returns a torch module (importing
            MODULE runs the user's own code); the folder of a network that `train_images` wrote; an
            ONNX file; or a file with the weights of linear layers or of a public CIFAR ResNet.
        weights: a safetensors file, or a torch file that holds nothing but tensors, for what FACTORY
            makes. Weights never run code.
        argument: what to call it in an error.
    """
    from featavg.nets.loading.load import load_network
    from featavg.nets.loading.sequential import PARALLEL
    from featavg.nets.torch.image_nets import public_cifar_resnet, read_tensors
    from featavg.training.torch.image_network import load_trained

    path = Path(source)
    if weights is not None and (is_folder(path) or is_file(path)):
        problem = f"is given for {source}, which has its own"
        raise InputError("weights", problem, "leave it out, or name MODULE:FACTORY")
    if is_folder(path):
        return load_trained(path).net
    if is_file(path) or path.suffix == ".onnx":
        if path.suffix != ".onnx" and any(t.ndim == 4 for t in read_tensors(path).values()):
            return public_cifar_resnet(path)
        return load_network(path)
    if ":" not in source:
        remedy = "give MODULE:FACTORY, a folder of `featavg images train`, or a weights file"
        raise InputError(argument, f"is {source!r}", remedy)
    name, _, factory = source.partition(":")
    module = _made(name, factory, argument)
    if weights is not None:
        try:
            tensors = read_tensors(weights)
            if all(name.startswith(PARALLEL) for name in tensors):
                tensors = {name.removeprefix(PARALLEL): value for name, value in tensors.items()}
            module.load_state_dict(tensors)
        except RuntimeError as error:
            problem = "hold the weights of another network"
            raise InputError("weights", f"({weights}) {problem}", "check the factory") from error
    return module


def _made(module_name: str, factory: str, argument: str) -> nn.Module:
    # As with `python -m`: files of the working directory can be imported.
    sys.path.insert(0, "")
    try:
        found: Any = getattr(importlib.import_module(module_name), factory)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            argument, f"{module_name}:{factory} cannot be imported ({message_of(error)})", "name a function in a module"
        ) from error
    except (Exception, SystemExit) as error:  # whatever the user's code raises on import
        problem = f"{module_name} stopped while it was imported ({message_of(error)})"
        raise InputError(argument, problem, "repair it") from error
    finally:
        sys.path.remove("")
    try:
        made = found() if callable(found) and module_of(found) is not found else found
    except (Exception, SystemExit) as error:
        problem = f"{module_name}:{factory} stopped ({message_of(error)})"
        raise InputError(argument, problem, "give a function that needs no arguments") from error
    module = module_of(made)
    if module is None or module is not made:
        problem = f"{module_name}:{factory} returned a {type(made).__name__}"
        raise InputError(argument, problem, "return a torch.nn.Module")
    return module
