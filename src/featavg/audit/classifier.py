"""A classifier of anybody's, made something that can be audited (torch).

Torch modules are taken as they are; scikit-learn's networks and linear models and the package's own
two-layer networks are rebuilt as modules, and keep an exact twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor, nn

from featavg.errors import InputError
from featavg.nets.torch.image_nets import Normalise
from featavg.nets.torch.inference import check_readable, unchanged
from featavg.nets.torch.outputs import Logits, kind_of, unwrapped
from featavg.nets.torch.spy import device_of, watch
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.torch_model import TorchModel, torch_model

# Exact radii of wider networks take minutes a point.
WIDEST_EXACT = 40
# Units in the last place of its largest terms by which an output may differ from the exact twin's.
ROUNDING = 16
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "logistic": nn.Sigmoid,
    "identity": nn.Identity,
}


@dataclass(frozen=True, eq=False)
class Classifier:
    """A classifier with logits, bounds and perhaps an exact twin.

    Attributes:
        name: for titles.
        module: the user's own, or one rebuilt from NumPy weights.
        logits: `module` behind a wrapper that returns logits.
        bounds, mean, std: of its input, see `featavg.torch_model`.
        exact: the same function of flat inputs as a two-layer network, where it is one and small.
        outputs: how many logits there are.
    """

    name: str
    module: nn.Module
    logits: Logits
    bounds: tuple[float, float] | None
    mean: Any
    std: Any
    exact: TwoLayer | None
    outputs: int

    def model(
        self, groups: Int[ndarray, " c"] | None, readout: str, batch: int = 128
    ) -> TorchModel:
        """The wrapped decision; `groups` None for one logit."""
        positive = None
        return torch_model(
            self.logits, self.bounds, self.mean, self.std, readout, positive, groups, batch
        )


def classifier(
    model: Any,
    x: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: Any = 0.0,
    std: Any = 1.0,
    name: str | None = None,
) -> Classifier:
    """Take a model in, look at it once, and refuse what cannot be audited in one sentence."""
    with torch.random.fork_rng(devices=[]):  # new layers draw weights before they get theirs
        module, exact = _module(model)
    check_readable(module, "model")
    _check_precision(module)
    title = name or type(model).__name__
    first = torch.from_numpy(np.ascontiguousarray(x[:4])).to(device_of(module))
    like = next((p for p in module.parameters() if p.is_floating_point()), first)
    with unchanged(module), torch.enable_grad():
        wrapped = torch_model(module, bounds, mean, std).shaped(x)
        _check_normalisation(module, wrapped)
        first = first.to(like.dtype).requires_grad_()
        prepared = (first - wrapped.mean) / wrapped.std
        try:
            returned, seen = watch(module, prepared)
            again, _ = watch(module, prepared)
        except InputError:
            raise
        except (Exception, SystemExit) as error:  # whatever a stranger's code raises
            raise InputError(
                "model",
                f"stopped on images of shape {tuple(x.shape[1:])} ({type(error).__name__}: {error})",
                "give images as the model takes them",
            ) from error
        outputs = unwrapped(returned, len(first))
        if not bool(torch.isfinite(outputs).all()):
            raise InputError("model", "returned a NaN or an infinity", "check weights and images")
        if not outputs.requires_grad:
            raise InputError(
                "model",
                "has no gradient in its input",
                "take torch.no_grad, .detach and .numpy out of its forward",
            )
        _check_repeats(outputs, unwrapped(again, len(first)))
        _check_gradient(outputs, first)
        kind = kind_of(outputs.detach(), seen.last)
    _check_decisions(model, module, wrapped, x)
    if exact is None and kind == "logits":
        exact = _two_layer(module)
    if exact is not None:
        exact = _same(_behind(wrapped, x.shape[1:], exact), module, wrapped, x)
    return Classifier(
        title, module, Logits(module, kind), bounds, mean, std, exact, outputs.shape[1]
    )


def _check_repeats(outputs: Tensor, again: Tensor) -> None:
    """A decision that is drawn anew at every call has no radius."""
    if not torch.allclose(outputs, again, rtol=1e-3, atol=1e-5):
        problem = "answers the same images differently a second time, in evaluation mode too"
        raise InputError("model", problem, "take dropout and other randomness out of its forward")


def _check_decisions(model: Any, module: nn.Module, wrapped: TorchModel, x: ndarray) -> None:
    """What was rebuilt from scikit-learn's weights must decide as its model says it does."""
    if not hasattr(model, "predict"):
        return
    with torch.no_grad():
        given = (torch.from_numpy(np.array(x[:200], dtype=float)) - wrapped.mean) / wrapped.std
        outputs = module(given).numpy()
    index = (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)
    classes = np.asarray(getattr(model, "classes_", ()))
    same = np.zeros(1)
    if classes.ndim == 1 and len(classes) == max(2, outputs.shape[1]):
        told = np.asarray(model.predict(given.numpy().reshape(len(given), -1)))
        same = told == classes[index] if told.shape == index.shape else same
    if np.mean(same) < 0.99:  # all but ties
        problem = f"is a {type(model).__name__}, which does not decide by its largest output"
        raise InputError("model", problem, "give a classifier with one output per class")


def _check_gradient(outputs: Tensor, x: Tensor) -> None:
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
        raise InputError(
            "model", "has weights of half precision", "give model.float(): radii need the digits"
        )


def _module(model: Any) -> tuple[nn.Module, TwoLayer | None]:
    if isinstance(model, nn.Module):
        return model, None
    if isinstance(model, TwoLayer):
        return from_two_layer(model), model if model.neurons <= WIDEST_EXACT else None
    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        return _perceptron(model)
    if hasattr(model, "coef_") and hasattr(model, "intercept_"):
        weights, bias = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
        module = nn.Sequential(nn.Flatten(), _linear(weights, bias))
        return module, _linear_as_two_layer(weights, bias)
    inner = getattr(model, "net", None)  # of a Trajectory, or of a network trained on images
    if isinstance(inner, nn.Module | TwoLayer):
        return _module(inner)
    raise InputError("model", *_no_model(model))


def _no_model(model: Any) -> tuple[str, str]:
    """Why this is none, and what to give instead."""
    kind = type(model).__name__
    if type(model).__module__.startswith("onnx"):
        remedy = "give the torch module that it was exported from"
        return "is an ONNX model, which has no gradients to audit", remedy
    if isinstance(model, type):
        return f"is the class {model.__name__}", "give a network that it made"
    if hasattr(model, "named_steps"):
        return f"is a {kind}", "give its last step, and x as the steps before it make it"
    if callable(model):
        return f"is a {kind}", "call it in the forward of a torch.nn.Module, and give that"
    if isinstance(model, dict):
        return f"is a {kind}", "load it into its torch.nn.Module, and give that"
    return (
        f"is a {kind}",
        "give a torch.nn.Module, a fitted MLP or linear model of scikit-learn, or a TwoLayer",
    )


def _perceptron(model: Any) -> tuple[nn.Module, TwoLayer | None]:
    """scikit-learn's MLPClassifier, whose logits come before its softmax or logistic."""
    parts: list[nn.Module] = [nn.Flatten()]
    weights = [np.asarray(w).T for w in model.coefs_]
    for i, (w, b) in enumerate(zip(weights, model.intercepts_, strict=True)):
        parts.append(_linear(w, np.asarray(b)))
        if i + 1 < len(weights):
            parts.append(ACTIVATIONS[model.activation]())
    exact = None
    if len(weights) == 2 and model.activation == "relu" and len(weights[0]) <= WIDEST_EXACT:
        exact = _with_output_bias(
            weights[0], model.intercepts_[0], weights[1], model.intercepts_[1]
        )
    return nn.Sequential(*parts), exact


def _linear(weights: Float[ndarray, "c d"], bias: Float[ndarray, " c"]) -> nn.Linear:
    # Without weights of its own: drawing them would change the user's random state.
    shape = weights.shape[::-1]
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, *shape, dtype=torch.float64)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.array(weights, dtype=float)))
        layer.bias.copy_(torch.from_numpy(np.array(bias, dtype=float)))
    return layer


def from_two_layer(net: TwoLayer) -> nn.Sequential:
    """The same function as a torch module, in float64."""
    if net.batch:
        raise InputError("model", "is a batch of networks", "pick one of them by index")
    head = _linear(net.head, np.zeros(net.outputs))
    return nn.Sequential(nn.Flatten(), _linear(net.weights, net.biases), nn.ReLU(), head)


def _with_output_bias(w: ndarray, b: ndarray, head: ndarray, bias: ndarray) -> TwoLayer:
    """A bias of the outputs is one more neuron, which is always 1."""
    weights = np.vstack([w, np.zeros((1, w.shape[1]))]).astype(float)
    return TwoLayer(weights, np.append(b, 1.0).astype(float), np.hstack([head, bias[:, None]]))


def _linear_as_two_layer(weights: ndarray, bias: ndarray) -> TwoLayer | None:
    """z = relu(z) - relu(-z)."""
    if 2 * len(weights) > WIDEST_EXACT:
        return None
    eye = np.eye(len(weights))
    both = np.vstack([weights, -weights]).astype(float)
    return TwoLayer(both, np.append(bias, -bias).astype(float), np.hstack([eye, -eye]))


def _two_layer(module: nn.Module) -> TwoLayer | None:
    """Linear, ReLU, linear in a plain Sequential without hooks."""
    parts = _plain_parts(module)
    if parts is None or any(_hooked(part) for part in module.modules()):
        return None
    parts = [p for p in parts if type(p) not in (nn.Flatten, nn.Identity, nn.Dropout)]
    if [type(p) for p in parts] != [nn.Linear, nn.ReLU, nn.Linear]:
        return None
    first, last = parts[0], parts[2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    if first.out_features > WIDEST_EXACT:
        return None
    w, b = _numpy(first.weight), _numpy(first.bias, first.out_features)
    return _with_output_bias(w, b, _numpy(last.weight), _numpy(last.bias, last.out_features))


def _plain_parts(module: nn.Module) -> list[nn.Module] | None:
    """The layers of a Sequential in order, a layer that occurs twice twice; None of any other module.

    A subclass has a forward of its own, which may do more than its layers.
    """
    if type(module) is not nn.Sequential or "forward" in vars(module):
        return None
    parts: list[nn.Module] = []
    for child in module:
        inner = _plain_parts(child) if isinstance(child, nn.Sequential) else [child]
        if inner is None or "forward" in vars(child):
            return None
        parts += inner
    return parts


def _hooked(module: nn.Module) -> bool:
    """Whether a hook may change what goes into the module or comes out of it."""
    return bool(module._forward_pre_hooks or module._forward_hooks)


def _same(net: TwoLayer, module: nn.Module, wrapped: TorchModel, x: ndarray) -> TwoLayer | None:
    """`net` if its outputs on the audited images are those of `module` up to rounding, or None."""
    whole = torch.from_numpy(np.ascontiguousarray(x)).to(wrapped.mean)
    rounding = ROUNDING * torch.finfo(whole.dtype).eps
    with unchanged(module), torch.no_grad():
        for part in torch.split(whole, 500):
            returned = module((part - wrapped.mean) / wrapped.std)
            expected = _numpy(unwrapped(returned, len(part)))
            flat = _numpy(part).reshape(len(part), -1)
            # Terms of a sum may cancel, but each is rounded.
            hidden = np.abs(flat) @ np.abs(net.weights).T + np.abs(net.biases)
            if np.any(np.abs(net(flat) - expected) > rounding * (hidden @ np.abs(net.head).T)):
                return None
    return net


def _behind(wrapped: TorchModel, shape: tuple[int, ...], net: TwoLayer) -> TwoLayer:
    """`net` with the normalisation before it folded into its first layer."""
    mean, std = (_numpy(v.expand(shape)).reshape(-1) for v in (wrapped.mean, wrapped.std))
    weights = net.weights / std
    return TwoLayer(weights, net.biases - weights @ mean, net.head)


def _numpy(tensor: Tensor | None, size: int = 0) -> ndarray:
    if tensor is None:
        return np.zeros(size)
    return np.asarray(tensor.detach().cpu().double().numpy())
