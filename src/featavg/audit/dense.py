"""Networks of NumPy arrays: scikit-learn's and the package's own, with closed-form gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.special import expit

from featavg.audit.classifier import WIDEST_EXACT, Classifier, Passes
from featavg.audit.gradients import FEATURES, INPUT, spread
from featavg.errors import InputError
from featavg.nets.activations._activation import Activation, ReLU
from featavg.nets.deep import Deep
from featavg.nets.loading.load import behind_normalisation, normalisation
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Covector, Model, space_of


@dataclass(frozen=True)
class Smooth(Activation):
    """An activation of scikit-learn's by its function and derivative."""

    name: str  # type: ignore[misc]
    function: Callable[[ndarray], ndarray]
    derivative: Callable[[ndarray], ndarray]

    def value(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """phi(z)."""
        return self.function(z)

    def slope(self, z: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """phi'(z)."""
        return self.derivative(z)


IDENTITY = Smooth("identity", lambda z: z, np.ones_like)
ACTIVATIONS: dict[str, Activation] = {
    "relu": ReLU(),
    "identity": IDENTITY,
    "tanh": Smooth("tanh", np.tanh, lambda z: 1.0 - np.tanh(z) ** 2),
    "logistic": Smooth("logistic", expit, lambda z: expit(z) * expit(-z)),
}


@dataclass(frozen=True, eq=False)
class DenseModel(Model):
    """A fully connected network as a model that can be attacked."""

    net: Deep = field(kw_only=True)

    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n c"]:
        return self.net(x)

    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n c"], Float[ndarray, "n D"]]:
        z = self.net.preactivations(x)
        *_, (slope, _) = self.net.backward(x, z, covector(z[-1], slice(None)))
        return z[-1], slope @ self.net.weights[0]


@dataclass(frozen=True, eq=False)
class DenseClassifier(Classifier):
    """A fully connected network of flat inputs, its normalisation folded into the first layer."""

    net: Deep = field(kw_only=True)

    def model(self, decision: Decision, x: ndarray) -> Model:
        """The decision with gradients in closed form."""
        slack = 32 * float(np.finfo(float).eps)
        return DenseModel(decision, self.bounds, space_of(self.bounds), slack, net=self.net)

    def look(self, x: ndarray, covector: Callable[[ndarray], ndarray], effective: bool) -> Passes:
        """By hand what torch does by autograd."""
        net, flat = self.net, x.reshape(len(x), -1).astype(float)
        z = net.preactivations(flat)
        fed = [flat, *net.hidden(z)]
        gradients = pulled_back(net, z, covector(z[-1]), effective)
        count = 0 if net.phi is IDENTITY else net.depth - 1
        at = {INPUT: 0}
        at |= {f"activation {i + 1} of {count}": i + 1 for i in spread(count) if i + 1 < count}
        at |= {FEATURES: net.depth - 1}
        return Passes(
            outputs=z[-1],
            features=fed[-1],
            weight=net.weights[-1],
            values={name: fed[i] for name, i in at.items()},
            gradients={name: gradients[i] for name, i in at.items()},
        )

    def arrays(self) -> Sequence[ndarray]:
        """Weights and biases."""
        return list(self.net.arrays().values())


def pulled_back(
    net: Deep, z: Sequence[ndarray], covector: Float[ndarray, "n c"], effective: bool
) -> list[Float[ndarray, "n _"]]:
    """The gradient of <covector, F> at what each layer was fed, h_0 = x to h_{L-1}.

    The effective one weighs each unit of the next activation by how strongly it fires; see
    `effective_gradient`, which does the same for any torch module.
    """
    slope = covector
    found = [slope @ net.weights[-1]]
    plain = found[0]
    for number in range(net.depth - 2, -1, -1):
        layer = net.layers[number]
        slope = plain * net.phi.slope(z[number])
        weighed = effective and not layer.skip and net.phi is not IDENTITY
        strength = np.abs(net.phi.value(z[number])) if weighed else 1.0
        around = plain if layer.skip else 0.0
        found.insert(0, (slope * strength) @ layer.weights + around)
        plain = slope @ layer.weights + around
    return found


def dense_classifier(
    model: Any, x: ndarray, bounds: tuple[float, float] | None, mean: Any, std: Any, name: str
) -> DenseClassifier:
    """Take in a network of NumPy arrays."""
    given = net_of(model)
    shape = x.shape[1:]
    if given.dimension != int(np.prod(shape)):
        problem = f"takes {given.dimension} numbers, and images have shape {tuple(shape)}"
        raise InputError("model", problem, "give images as the model takes them")
    net = behind_normalisation(given, mean, std, shape)
    _check_decisions(model, given, x, mean, std)
    return DenseClassifier(name, bounds, net.outputs, "logits", exact_twin(net), net=net)


def net_of(model: Any) -> Deep:
    """The network as layers; anything else is refused."""
    if isinstance(model, Deep | TwoLayer) and model.batch:
        raise InputError("model", "is a batch of networks", "pick one of them by index")
    if isinstance(model, Deep):
        return model
    if isinstance(model, TwoLayer):
        return Deep((model.weights, model.head), (model.biases, None))
    if hasattr(model, "coefs_") and hasattr(model, "intercepts_"):
        weights = tuple(np.array(w, dtype=float).T for w in model.coefs_)
        biases = tuple(np.array(b, dtype=float) for b in model.intercepts_)
        return Deep(weights, biases, ACTIVATIONS[model.activation])
    if hasattr(model, "coef_") and hasattr(model, "intercept_"):
        weight = np.atleast_2d(np.asarray(model.coef_, dtype=float))
        return Deep((weight,), (np.atleast_1d(np.asarray(model.intercept_, dtype=float)),))
    inner = getattr(model, "net", None)  # of a Trajectory
    if isinstance(inner, Deep | TwoLayer):
        return net_of(inner)
    raise InputError("model", *_no_model(model))


def _no_model(model: Any) -> tuple[str, str]:
    """Why this is none, and what to give instead."""
    kind = type(model).__name__
    if type(model).__module__.startswith("onnx"):
        return "is an ONNX model", "save it, and give fa.load_network(FILE)"
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
        "give a torch.nn.Module, a fitted MLP or linear model of scikit-learn, a TwoLayer or a Deep",
    )


def _check_decisions(model: Any, net: Deep, x: ndarray, mean: Any, std: Any) -> None:
    """What was read from scikit-learn's weights must decide as its model says it does."""
    if not hasattr(model, "predict"):
        return
    shift, scale = normalisation(mean, std, x.shape[1:])
    flat = (x[:200].reshape(len(x[:200]), -1).astype(float) - shift) / scale
    outputs = net(flat)
    index = (outputs[:, 0] > 0).astype(int) if net.outputs == 1 else outputs.argmax(axis=1)
    classes = np.asarray(getattr(model, "classes_", ()))
    same = np.zeros(1)
    if classes.ndim == 1 and len(classes) == max(2, net.outputs):
        named = np.asarray(model.predict(flat))
        same = named == classes[index] if named.shape == index.shape else same
    if np.mean(same) < 0.99:  # all but ties
        problem = f"is a {type(model).__name__}, which does not decide by its largest output"
        raise InputError("model", problem, "give a classifier with one output per class")


def exact_twin(net: Deep) -> TwoLayer | None:
    """The network as one hidden layer of ReLUs, if it is that or linear, and small."""
    layers = net.layers
    if net.depth == 1 and 2 * net.outputs <= WIDEST_EXACT:  # z = relu(z) - relu(-z)
        w, b, eye = layers[0].weights, layers[0].biases, np.eye(net.outputs)
        return TwoLayer(np.vstack([w, -w]), np.append(b, -b), np.hstack([eye, -eye]))
    if net.depth != 2 or net.phi != ReLU() or net.widths[0] > WIDEST_EXACT:
        return None
    (w, b, _), (head, bias, _) = layers
    if not bias.any():
        return TwoLayer(w, b, head)
    # A bias of the outputs is one more neuron, which is always 1.
    weights = np.vstack([w, np.zeros((1, w.shape[1]))])
    return TwoLayer(weights, np.append(b, 1.0), np.hstack([head, bias[:, None]]))
