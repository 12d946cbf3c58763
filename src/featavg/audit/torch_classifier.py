"""A torch module, asked as it is, and its effective gradients (torch)."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from featavg.audit.classifier import WIDEST_EXACT, Classifier, Passes
from featavg.audit.dense import exact_twin
from featavg.audit.gradients import FEATURES, INPUT, spread
from featavg.errors import InputError
from featavg.machine import available_bytes
from featavg.nets.deep import Deep
from featavg.nets.loading.load import behind_normalisation
from featavg.nets.loading.sequential import sequential_network
from featavg.nets.torch.image_nets import Normalise
from featavg.nets.torch.inference import check_readable, unchanged
from featavg.nets.torch.outputs import Logits, Seen, answering, device_of, kind_of, unwrapped, watch
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.torch_model import TorchModel, torch_model

# Units in the last place of its largest terms by which an output may differ from the exact twin's.
ROUNDING = 16


@dataclass(frozen=True, eq=False)
class TorchClassifier(Classifier):
    """A torch module behind its normalisation.

    Attributes:
        module: the user's own.
        logits: `module` behind a wrapper that returns logits.
        mean, std: of its input, see `featavg.torch_model`.
    """

    module: nn.Module = field(kw_only=True)
    logits: Logits = field(kw_only=True)
    mean: Any = field(kw_only=True)
    std: Any = field(kw_only=True)

    def model(self, decision: Decision, x: ndarray) -> TorchModel:
        """The wrapped decision."""
        groups, readout = decision.groups, decision.readout
        wrapped = torch_model(self.logits, self.bounds, self.mean, self.std, readout, groups=groups)
        return replace(wrapped.shaped(x), batch=min(wrapped.batch, self.batch))

    def look(self, x: ndarray, covector: Callable[[ndarray], ndarray], effective: bool) -> Passes:
        """By autograd, at the input, a few activations and the features."""
        wrapped = torch_model(self.logits, self.bounds, self.mean, self.std).shaped(x)
        with torch.enable_grad():
            part = torch.from_numpy(np.ascontiguousarray(x)).to(wrapped.mean).requires_grad_()
            returned, seen = watch(self.module, (part - wrapped.mean) / wrapped.std)
            with answering(part):
                logits = self.logits.of(unwrapped(returned, len(part)))
                outputs = _numpy(logits)
                named = _named(part, seen)
                v = torch.as_tensor(covector(outputs)).to(logits)
                behind = seen.activations if effective else ()  # without any it is the gradient itself
                pulled = {n: effective_gradient(logits, v, tensor, behind) for n, tensor in named.items()}
        features = None if seen.features is None else _numpy(seen.features)
        weight = seen.weight
        return Passes(
            outputs=outputs,
            features=None if features is None else features.reshape(len(part), -1),
            weight=None if weight is None or weight.ndim != 2 else _numpy(weight),
            values={name: _flat(tensor) for name, tensor in named.items()},
            gradients={name: _flat(gradient) for name, gradient in pulled.items() if gradient is not None},
        )

    def arrays(self) -> Sequence[ndarray]:
        """Parameters and buffers."""
        tensors = (*self.module.parameters(), *self.module.buffers())
        return [tensor.detach().cpu().numpy() for tensor in tensors]

    def unchanged(self) -> contextlib.AbstractContextManager[None]:
        """Leaves modes, buffers, attributes and the random state as they were."""
        return unchanged(self.module)


def torch_classifier(
    module: nn.Module,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str = "network",
) -> TorchClassifier:
    """Take a module in, look at it once, and refuse what cannot be audited in one sentence."""
    check_readable(module, "model")
    _check_precision(module)
    first = torch.from_numpy(np.ascontiguousarray(x[:4])).to(device_of(module))
    like = next((p for p in module.parameters() if p.is_floating_point()), first)
    with unchanged(module), torch.enable_grad():
        wrapped = torch_model(module, bounds, mean, std).shaped(x)
        _check_normalisation(module, wrapped)
        first = first.to(like.dtype).requires_grad_()
        prepared = (first - wrapped.mean) / wrapped.std
        returned, seen = watch(module, prepared)
        with _saved_bytes() as saved:
            again, _ = watch(module, prepared)
        with answering(prepared):
            outputs = unwrapped(returned, len(first))
            _check_outputs(outputs, unwrapped(again, len(first)), first)
        kind = kind_of(outputs.detach(), seen.last)
    exact = _two_layer(module, wrapped, x.shape[1:]) if kind == "logits" else None
    if exact is not None:
        groups = None if outputs.shape[1] == 1 else np.arange(outputs.shape[1])
        decided = torch_model(module, bounds, mean, std, groups=groups).shaped(x)
        exact = _same(exact, decided, x)
    return TorchClassifier(
        name,
        bounds,
        outputs.shape[1],
        kind,
        exact,
        versions={"torch": torch.__version__},
        module=module,
        logits=Logits(module, kind),
        mean=mean,
        std=std,
        batch=_batch(sum(saved.values()) / len(first)),
    )


@contextlib.contextmanager
def _saved_bytes() -> Iterator[dict[int, int]]:
    """The bytes of each tensor that a forward pass inside keeps for its backward pass, by address."""
    saved: dict[int, int] = {}

    def noted(tensor: Tensor) -> Tensor:
        if tensor.layout is torch.strided and not isinstance(tensor, nn.Parameter):
            saved[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(noted, lambda tensor: tensor):
        yield saved


def _batch(bytes_per_image: float) -> int:
    """As many images at a time as fit into a quarter of the free memory, at most 1 GB, and at most 100.

    Gradients on the way back take about as much again as what was kept for them.
    """
    room = min(1e9, (available_bytes() or 4e9) / 4)
    return int(np.clip(room / (2.0 * bytes_per_image + 1.0), 1, 100))


class ByName(nn.Module):
    """A module that is given its images by name: as a keyword of its forward, or in a table."""

    def __init__(self, net: nn.Module, name: str) -> None:
        super().__init__()
        self.net, self.name = net, name
        accepted = inspect.signature(net.forward).parameters
        keywords = any(each.kind is each.VAR_KEYWORD for each in accepted.values())
        self.as_keyword = name in accepted or keywords

    def forward(self, x: Tensor) -> Any:
        """What the module returns."""
        return self.net(**{self.name: x}) if self.as_keyword else self.net({self.name: x})


def as_module(net: Deep) -> nn.Sequential:
    """A network of NumPy arrays as a torch module, in float64."""
    if net.residual:
        raise InputError("model", "is residual", "give a plain network, or a torch.nn.Module")
    kinds = {"tanh": nn.Tanh, "logistic": nn.Sigmoid, "identity": nn.Identity, "relu": nn.ReLU}
    slope = net.phi.negative_slope
    parts: list[nn.Module] = [nn.Flatten()]
    for weights, biases, _ in net.layers:
        # Without weights of its own: drawing them would change the user's random state.
        shape = weights.shape[::-1]
        layer: nn.Linear = nn.utils.skip_init(nn.Linear, *shape, dtype=torch.float64)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weights.copy()))
            layer.bias.copy_(torch.from_numpy(biases.copy()))
        made = nn.LeakyReLU(slope) if slope else kinds[net.phi.name]()
        parts += [layer, made]
    return nn.Sequential(*parts[:-1])


def _named(x: Tensor, seen: Seen) -> dict[str, Tensor]:
    """The tensors at which gradients are taken, from the input to the head."""
    named: dict[str, Tensor] = {INPUT: x}
    count = len(seen.activations)
    for i in spread(count):
        named[f"activation {i + 1} of {count}"] = seen.activations[i]
    if seen.features is not None and seen.features.requires_grad:
        named = {n: t for n, t in named.items() if t is not seen.features}
        named[FEATURES] = seen.features
    return named


def _check_outputs(outputs: Tensor, again: Tensor, x: Tensor) -> None:
    """Refuse outputs that are not finite, have no gradient, or are drawn anew at every call."""
    if not bool(torch.isfinite(outputs).all()):
        raise InputError("model", "returned a NaN or an infinity", "check weights and images")
    if not outputs.requires_grad:
        remedy = "take torch.no_grad, .detach and .numpy out of its forward"
        raise InputError("model", "has no gradient in its input", remedy)
    if not torch.allclose(outputs, again, rtol=1e-3, atol=1e-5):
        problem = "answers the same images differently a second time, in evaluation mode too"
        raise InputError("model", problem, "take dropout and other randomness out of its forward")
    (gradient,) = torch.autograd.grad(outputs.sum(), x, retain_graph=True, allow_unused=True)
    if gradient is None:
        raise InputError("model", "has no gradient in its input", "let its outputs depend on it")
    if not bool(torch.isfinite(gradient).all()):
        raise InputError("model", "has a gradient that is not finite", "check its weights")


def _check_normalisation(module: nn.Module, wrapped: TorchModel) -> None:
    given = bool((wrapped.mean != 0).any() or (wrapped.std != 1).any())
    if given and any(isinstance(part, Normalise) for part in module.modules()):
        problem = "or std is given for a network that normalises its own input"
        raise InputError("mean", problem, "leave out both")


def _check_precision(module: nn.Module) -> None:
    kinds = {p.dtype for p in module.parameters() if p.is_floating_point()}
    if kinds - {torch.float32, torch.float64}:
        remedy = "give model.float(): radii need the digits"
        raise InputError("model", "has weights of half precision", remedy)


def _two_layer(module: nn.Module, wrapped: TorchModel, shape: tuple[int, ...]) -> TwoLayer | None:
    """The module behind its normalisation as one small hidden layer, if it is that."""
    try:
        net = sequential_network(module, shape, WIDEST_EXACT)
    except InputError:
        return None
    mean, std = (_numpy(v.expand(shape)) for v in (wrapped.mean, wrapped.std))
    return exact_twin(behind_normalisation(net, mean, std, shape))


def _same(net: TwoLayer, wrapped: TorchModel, x: ndarray) -> TwoLayer | None:
    """`net` if its outputs on the audited images are those of the module up to rounding, or None."""
    flat = wrapped.rows(x)
    # Terms of a sum may cancel, but each is rounded.
    terms = (np.abs(flat) @ np.abs(net.weights).T + np.abs(net.biases)) @ np.abs(net.head).T
    apart = np.abs(net(flat.astype(float)) - wrapped.outputs(flat))
    return None if np.any(apart > ROUNDING * np.finfo(flat.dtype).eps * terms) else net


def _numpy(tensor: Tensor) -> ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def _flat(tensor: Tensor) -> ndarray:
    return np.asarray(tensor.detach().reshape(len(tensor), -1).cpu().numpy())


def effective_gradient(output: Tensor, covector: Tensor, layer: Tensor, activations: Sequence[Tensor]) -> Tensor | None:
    r"""The gradient of <covector, output> at `layer`, weighed by the activations a behind it.

        sum over units m of  |a_m| * d<covector, output>/da_m * grad a_m.

    The gradient itself counts a unit that barely fires on noise as much as one that carries the
    decision: a network with one neuron per feature and no biases has most of its mean gradient from
    neurons of foreign features, half of which fire at any point.

    Where a path leads around the next activations, as in a residual network, or none is left, this is
    the gradient itself; None if nothing depends on `layer`.
    """
    behind = next_activations(output, layer, activations)
    if not behind:
        return torch.autograd.grad(output, layer, covector, retain_graph=True, allow_unused=True)[0]
    slopes = torch.autograd.grad(output, behind, covector, retain_graph=True)
    strengths = [slope * unit.detach().abs() for slope, unit in zip(slopes, behind, strict=True)]
    return torch.autograd.grad(behind, layer, strengths, retain_graph=True)[0]


def next_activations(output: Tensor, layer: Tensor, activations: Sequence[Tensor]) -> list[Tensor]:
    """The activations that `layer` reaches directly, if everything behind it passes them once."""
    later = {a.grad_fn: a for a in activations if a is not layer and a.grad_fn is not None}
    met = {node: _met(_before(node), layer, later) for node in later}
    around = _met([output.grad_fn], layer, later)
    if None in around:
        return []
    used, left = set[Any](), list(around)
    while left:
        node = left.pop()
        if node not in used:
            used.add(node)
            left += met[node] - {None}
    first = [node for node in later if node in used and None in met[node]]
    # Of one that follows another the gradient would be counted twice.
    if any(_follows(other, met) for node in first for other in met[node] - {None}):
        return []
    return [later[node] for node in first]


def _follows(node: Any, met: dict[Any, set[Any]]) -> bool:
    """Whether the layer is somewhere before `node`."""
    left, seen = [node], set[Any]()
    while left:
        one = left.pop()
        if None in met[one]:
            return True
        seen.add(one)
        left += met[one] - seen
    return False


def _met(start: Iterable[Any], layer: Tensor, stops: dict[Any, Tensor]) -> set[Any]:
    """What one meets first on all ways back through the graph: nodes of `stops`, None for `layer`."""
    met, seen, open_nodes = set[Any](), set[Any](), list(start)
    while open_nodes:
        node = open_nodes.pop()
        if node in seen:
            continue
        seen.add(node)
        if node is layer.grad_fn or getattr(node, "variable", None) is layer:
            met.add(None)
        elif node in stops:
            met.add(node)
        else:
            open_nodes += _before(node)
    return met


def _before(node: Any) -> list[Any]:
    return [given for given, _ in node.next_functions if given is not None]
