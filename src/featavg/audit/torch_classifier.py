"""A torch module, asked as it is (torch)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from featavg.audit.classifier import WIDEST_EXACT, Batch, Classifier
from featavg.audit.dense import exact_twin
from featavg.audit.effective import effective_gradient
from featavg.audit.gradients import FEATURES, INPUT, spread
from featavg.errors import InputError
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
        return wrapped.shaped(x)

    def look(self, x: ndarray, covector: Callable[[ndarray], ndarray], effective: bool) -> Batch:
        """By autograd, at the input, a few activations and the features."""
        wrapped = torch_model(self.logits, self.bounds, self.mean, self.std).shaped(x)
        with torch.enable_grad():
            part = torch.from_numpy(np.ascontiguousarray(x)).to(wrapped.mean).requires_grad_()
            returned, seen = watch(self.module, (part - wrapped.mean) / wrapped.std)
            with answering(part):
                logits = self.logits.of(unwrapped(returned, len(part)))
                outputs = _numpy(logits)
                named = _named(part, seen)
                pulled = _pulled(logits, covector(outputs), named, seen, effective)
        features = None if seen.features is None else _numpy(seen.features)
        weight = seen.weight
        return Batch(
            outputs=outputs,
            features=None if features is None else features.reshape(len(part), -1),
            weight=None if weight is None or weight.ndim != 2 else _numpy(weight),
            values={name: _flat(tensor) for name, tensor in named.items()},
            gradients=pulled,
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
        again, _ = watch(module, prepared)
        with answering(prepared):
            outputs = unwrapped(returned, len(first))
            _check_outputs(outputs, unwrapped(again, len(first)), first)
        kind = kind_of(outputs.detach(), seen.last)
    exact = _two_layer(module, wrapped, x.shape[1:]) if kind == "logits" else None
    if exact is not None:
        exact = _same(exact, module, wrapped, x)
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
    )


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


def _pulled(
    logits: Tensor, covector: ndarray, named: dict[str, Tensor], seen: Seen, effective: bool
) -> dict[str, ndarray]:
    v = torch.as_tensor(covector).to(logits)
    pulled: Sequence[Tensor | None]
    if effective:
        pulled = [effective_gradient(logits, v, t, seen.activations) for t in named.values()]
    else:
        pulled = torch.autograd.grad(logits, list(named.values()), v, allow_unused=True)
    pairs = zip(named, pulled, strict=True)
    return {name: _flat(gradient) for name, gradient in pairs if gradient is not None}


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
        raise InputError(
            "model", "has no gradient in its input", "let its outputs depend on the images"
        )
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


def _same(net: TwoLayer, module: nn.Module, wrapped: TorchModel, x: ndarray) -> TwoLayer | None:
    """`net` if its outputs on the audited images are those of `module` up to rounding, or None."""
    whole = torch.from_numpy(np.ascontiguousarray(x)).to(wrapped.mean)
    rounding = ROUNDING * torch.finfo(whole.dtype).eps
    with unchanged(module), torch.no_grad():
        for part in torch.split(whole, 500):
            with answering(part):
                returned = module((part - wrapped.mean) / wrapped.std)
            expected = _numpy(unwrapped(returned, len(part)))
            flat = _numpy(part).reshape(len(part), -1)
            # Terms of a sum may cancel, but each is rounded.
            hidden = np.abs(flat) @ np.abs(net.weights).T + np.abs(net.biases)
            if np.any(np.abs(net(flat) - expected) > rounding * (hidden @ np.abs(net.head).T)):
                return None
    return net


def _numpy(tensor: Tensor) -> ndarray:
    return np.asarray(tensor.detach().cpu().double().numpy())


def _flat(tensor: Tensor) -> ndarray:
    return np.asarray(tensor.detach().reshape(len(tensor), -1).cpu().numpy())
