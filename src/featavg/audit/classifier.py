"""A classifier of anybody's, made something that can be audited, and what is asked about it.

Torch modules are taken as they are, by `torch_classifier`. Scikit-learn's networks and linear models
and the package's own networks have closed-form gradients, by `dense`, and need no torch.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.audit.labels import AuditData
from featavg.errors import InputError, message_of
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Model
from featavg.storage.reading import is_file, is_folder

if TYPE_CHECKING:
    from torch import nn

    from featavg.nets.deep import Deep

# Exact radii of wider networks take minutes a point.
WIDEST_EXACT = 40


@dataclass(frozen=True, eq=False)
class Passes:
    """What forward and backward passes over images gave.

    Attributes:
        outputs: the logits.
        features: the input of the last linear layer, or None.
        weight: of the last linear layer, or None.
        gradients: by layer, in order from the input to the head.
        values: of the same layers; of a whole audit they are not kept.
        constant: layers behind which the network is linear: a class has one gradient there, whatever
            the network does before; left out of `gradients`.
    """

    outputs: Float[ndarray, "n c"]
    features: Float[ndarray, "n N"] | None
    weight: Float[ndarray, "c N"] | None
    gradients: Mapping[str, Float[ndarray, "n D"]]
    values: Mapping[str, Float[ndarray, "n D"]] = field(default_factory=dict)
    constant: tuple[str, ...] = ()


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
    def look(self, x: ndarray, covector: Callable[[ndarray], ndarray], effective: bool) -> Passes:
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


@dataclass(frozen=True, eq=False)
class Subject:
    """One network, its decision, the images it is audited on, and what is asked; see `audit`."""

    network: Classifier
    decision: Decision
    data: AuditData
    layer: str
    radii: int
    gradients: int
    seed: int
    folder: Path | None
    clusters: int | None
    embedding: ndarray | None
    names: Sequence[str] | None

    def kept(self, name: str) -> Path | None:
        """Where a finished part of that name is kept."""
        return None if self.folder is None else self.folder / f"{name}.json"


def decision_of(outputs: int, data: AuditData, given: ndarray | None, readout: str) -> Decision:
    """Outputs are classes, sub-classes, of the classes given, or one logit; others are refused."""
    classes, known = data.classes, data.groups
    groups: ndarray | None
    if outputs == 1:
        if classes != 2:
            raise InputError("model", "has one logit", f"there are {classes} classes")
        groups = None
    elif outputs == classes:
        groups = np.arange(classes)
    elif given is not None:
        groups = given
        if len(groups) != outputs or set(groups.tolist()) != set(range(classes)):
            problem = f"are {groups.tolist()} for {outputs} outputs and {classes} classes"
            raise InputError("groups", problem, "give the class of each output, 0 to C-1")
    elif known is not None and outputs == len(known):
        groups = known
    else:
        labels = f"{classes} classes"
        labels += "" if known is None else f" and {len(known)} sub-classes"
        remedy = f"the labels have {labels}; give `groups`, the class of each output"
        raise InputError("model", f"has {outputs} outputs", remedy)
    return Decision.of(groups=groups, readout=readout)


def classifier(
    model: Any,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str | None = None,
) -> Classifier:
    """Take a model in, look at it once, and refuse what cannot be audited in one sentence."""
    from featavg.audit.dense import dense_classifier

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
