"""A module of the user's by the name of the function that makes it, and its weights from a file (torch)."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from torch import nn

from featavg.errors import InputError, message_of
from featavg.nets.deep import Deep
from featavg.nets.loading.load import load_network
from featavg.nets.loading.sequential import PARALLEL
from featavg.nets.torch.image_nets import public_cifar_resnet, read_tensors
from featavg.storage.reading import is_file, is_folder


def load_model(source: str, weights: Path | None = None, argument: str = "model") -> nn.Module | Deep:
    """A network for an audit.

    Args:
        source: `MODULE:FACTORY`, a function without arguments that returns a torch module (importing
            MODULE runs the user's own code); the folder of a network that `train_images` wrote; an
            ONNX file; or a file with the weights of linear layers or of a public CIFAR ResNet.
        weights: a safetensors file, or a torch file that holds nothing but tensors, for what FACTORY
            makes. Weights never run code.
        argument: what to call it in an error.
    """
    path = Path(source)
    if weights is not None and (is_folder(path) or is_file(path)):
        problem = f"is given for {source}, which has its own"
        raise InputError("weights", problem, "leave it out, or name MODULE:FACTORY")
    if is_folder(path):
        from featavg.training.torch.image_network import load_trained

        return load_trained(path).net
    if is_file(path) or path.suffix == ".onnx":
        if path.suffix != ".onnx" and any(t.ndim == 4 for t in read_tensors(path).values()):
            return public_cifar_resnet(path)
        return load_network(path)
    if ":" not in source:
        remedy = "give MODULE:FACTORY, a folder of `featavg images train`, or a weights file"
        raise InputError(argument, f"is {source!r}", remedy)
    module_name, _, factory = source.partition(":")
    module = _made(module_name, factory, argument)
    if weights is not None:
        _fill(module, weights)
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
        module = found() if callable(found) and not isinstance(found, nn.Module) else found
    except (Exception, SystemExit) as error:
        problem = f"{module_name}:{factory} stopped ({message_of(error)})"
        raise InputError(argument, problem, "give a function that needs no arguments") from error
    if not isinstance(module, nn.Module):
        problem = f"{module_name}:{factory} returned a {type(module).__name__}"
        raise InputError(argument, problem, "return a torch.nn.Module")
    return module


def _fill(module: nn.Module, weights: Path) -> None:
    try:
        tensors = read_tensors(weights)
        if all(name.startswith(PARALLEL) for name in tensors):
            tensors = {name.removeprefix(PARALLEL): value for name, value in tensors.items()}
        module.load_state_dict(tensors)
    except RuntimeError as error:
        problem = "hold the weights of another network"
        raise InputError("weights", f"({weights}) {problem}", "check the factory") from error
