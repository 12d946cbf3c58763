"""The shared gradient of a network at several layers, and the layer where it means something (torch)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

from featavg.audit.classifier import Classifier
from featavg.audit.effective import effective_gradient
from featavg.errors import InputError
from featavg.measures.shared_gradient import SharedGradient, shared_gradient
from featavg.nets.torch.inference import unchanged
from featavg.nets.torch.outputs import unwrapped
from featavg.nets.torch.spy import Seen, spread, watch
from featavg.progress import Progress
from featavg.robustness.models.decision import ALL, Decision

AUTO, INPUT, FEATURES = "auto", "input", "features before the last layer"
# A permutation null above this says that A is well defined at a layer.
VALID_NULL = 0.9
# Activations looked at between the input and the last layer.
MOST_LAYERS = 4
# Rows longer than this are hashed to fewer coordinates, which keeps inner products to a percent.
LONGEST, HASHED = 1 << 16, 1 << 14
# Unit gradients of a class nearer than this are one direction, up to float32.
SAME_DIRECTION = 1e-4
# A mean is a direction that the images share if its squared length exceeds this many times its variance.
SHARED_MEAN = 10.0


@dataclass(frozen=True, eq=False)
class Passes:
    """Everything that forward and backward passes over the images gave.

    Attributes:
        outputs: the logits.
        features: the input of the last linear layer, or None.
        weight: of the last linear layer, or None.
        gradients: by layer, in order from the input to the head.
        constant: layers behind which the network is linear: a class has one gradient there, whatever
            the network does before; left out of `gradients`.
    """

    outputs: Float[ndarray, "n c"]
    features: Float[ndarray, "n N"] | None
    weight: Float[ndarray, "c N"] | None
    gradients: dict[str, Float[ndarray, "n D"]]
    constant: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class LayerGradient:
    """The shared gradient at one layer."""

    layer: str
    shared: SharedGradient

    @property
    def valid(self) -> bool:
        """Whether the permutation null says that A means something here."""
        return self.shared.null > VALID_NULL and self.shared.undefined == 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"layer": self.layer, "valid": self.valid} | self.shared.to_json()


def passes(
    classifier: Classifier,
    decision: Decision,
    x: ndarray,
    label: Int[ndarray, " n"],
    batch: int = 100,
    progress: Progress | None = None,
    effective: bool = False,
) -> Passes:
    """Run the network over the images, forwards and backwards.

    Args:
        effective: take the effective gradient of the own class's score above the mean output, without
            the direction that all images share, instead of the gradient of the margin.
    """
    module = classifier.module
    outputs: list[ndarray] = []
    features: list[ndarray] = []
    gradients: dict[str, list[ndarray]] = {}
    means: dict[str, _Mean] = {}
    weight: Tensor | None = None
    layers: list[int] | None = None
    with unchanged(module), torch.enable_grad():
        wrapped = classifier.model(decision.groups, decision.readout.name, batch).shaped(x)
        for start in range(0, len(x), batch):
            part = torch.from_numpy(np.ascontiguousarray(x[start : start + batch]))
            part = part.to(wrapped.mean).requires_grad_()
            returned, seen = watch(module, (part - wrapped.mean) / wrapped.std)
            logits = classifier.logits.of(unwrapped(returned, len(part)))
            outputs.append(logits.detach().cpu().double().numpy())
            decision.check(outputs[-1])
            if layers is None:
                layers = spread(len(seen.activations), MOST_LAYERS)
            own = label[start : start + batch]
            covector = _covector(decision, outputs[-1], own, effective)
            named = _named(part, seen, layers)
            for name, rows in _pulled(logits, covector, named, seen, effective).items():
                gradients.setdefault(name, []).append(rows)
                if effective:
                    means.setdefault(name, _Mean()).add(named[name])
            if seen.features is not None:
                features.append(_flat(seen.features).double().numpy())
                weight = seen.weight
            if progress is not None:
                progress(min(1.0, (start + batch) / len(x)), "gradients of the decision")
    complete = {
        name: np.concatenate(rows)
        for name, rows in gradients.items()
        if sum(map(len, rows)) == len(x) and len({row.shape[1] for row in rows}) == 1
    }
    for name, rows in complete.items():
        if not np.all(np.isfinite(rows)):
            raise InputError(
                "model", f"has a gradient that is not finite ({name})", "check weights"
            )
    whole = np.concatenate(features) if sum(map(len, features)) == len(x) else None
    matrix = None
    if weight is not None and whole is not None and weight.ndim == 2:
        matrix = np.asarray(weight.detach().cpu().double().numpy())
    constant: tuple[str, ...] = ()
    if effective:
        constant = tuple(n for n, r in complete.items() if n != INPUT and _one_each(r, label))
        complete = {n: means[n].removed(r) for n, r in complete.items() if n not in constant}
    return Passes(np.concatenate(outputs), whole, matrix, complete, constant)


def _covector(
    decision: Decision, outputs: Float[ndarray, "n c"], label: Int[ndarray, " n"], effective: bool
) -> Float[ndarray, "n c"]:
    """The derivative of the margin in the outputs, or of the own score above the mean output.

    Sub-classes of a class share the rivals of a margin. What is added to all outputs changes no
    decision; the mean takes it out again.
    """
    if not effective or decision.groups is None:
        return decision.objective(outputs, label, np.full(len(label), ALL))[1]
    own = decision.pull(outputs, np.eye(decision.classes)[label])
    return np.asarray(own - own.mean(axis=1, keepdims=True))


class _Mean:
    """The mean of the values at a layer, batch by batch."""

    def __init__(self) -> None:
        self.n, self.total, self.squares = 0, np.zeros(1), 0.0

    def add(self, values: Tensor) -> None:
        rows = _hashed(_flat(values)).double()
        self.n += len(rows)
        self.total = self.total + rows.sum(dim=0).numpy()
        self.squares += float((rows**2).sum())

    def removed(self, gradients: Float[ndarray, "n D"]) -> Float[ndarray, "n D"]:
        """Gradients without the direction of the mean: what all images have tells none from another.

        Features at a cosine of 0.9 have it in common, and so have the weights of a network that
        keeps them apart. A mean that may be 0 is no direction.
        """
        mean = self.total / self.n
        squared = float(mean @ mean)
        if squared <= SHARED_MEAN * (self.squares / self.n - squared) / self.n:
            return gradients
        unit = (mean / np.sqrt(squared)).astype(gradients.dtype)
        return gradients - np.outer(gradients @ unit, unit)


def _one_each(gradients: Float[ndarray, "n D"], label: Int[ndarray, " n"]) -> bool:
    """Whether the gradients of each class have one direction."""
    lengths = np.linalg.norm(gradients, axis=1)
    for c in np.unique(label):
        rows = gradients[(label == c) & (lengths > 0)]
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        if len(unit) and np.linalg.norm(unit - unit[0], axis=1).max() > SAME_DIRECTION:
            return False
    return True


def _named(x: Tensor, seen: Seen, layers: Sequence[int]) -> dict[str, Tensor]:
    """The tensors at which gradients are taken, from the input to the head."""
    named: dict[str, Tensor] = {INPUT: x}
    count = len(seen.activations)
    for i in layers:
        if i < count:
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
    return {
        name: _hashed(_flat(gradient)).numpy()
        for name, gradient in zip(named, pulled, strict=True)
        if gradient is not None
    }


def _flat(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(len(tensor), -1).cpu()


def _hashed(rows: Tensor) -> Tensor:
    """Coordinates summed into fewer with random signs: inner products keep their expectation."""
    if rows.shape[1] <= LONGEST:
        return rows
    generator = torch.Generator().manual_seed(0)
    where = torch.randint(0, HASHED, (rows.shape[1],), generator=generator)
    signs = torch.randint(0, 2, (rows.shape[1],), generator=generator) * 2 - 1
    return torch.zeros(len(rows), HASHED).index_add_(1, where, rows.float() * signs)


def by_layer(
    gradients: dict[str, Float[ndarray, "n D"]],
    right: Int[ndarray, " m"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    seed: int = 0,
    weigh: str = "pairs",
) -> tuple[LayerGradient, ...]:
    """The statistic at every layer, over the rows that are decided rightly."""
    return tuple(
        LayerGradient(
            name, shared_gradient(rows[right], fine[right], groups, seed=seed, weigh=weigh)
        )
        for name, rows in gradients.items()
    )


def check_layer(wanted: str, layers: Iterable[str], constant: Sequence[str] = ()) -> None:
    """Refuse a layer that the network does not have, or where A is 1 whatever the network does."""
    if wanted in constant:
        problem = f"is {wanted!r}, behind which the network is linear: A is 1 there for any network"
        raise InputError("layer", problem, f"choose {AUTO} or {', '.join(layers)}")
    if wanted not in (AUTO, *layers):
        raise InputError("layer", f"is {wanted!r}", f"choose {AUTO} or {', '.join(layers)}")


def reported(layers: Sequence[LayerGradient], wanted: str = AUTO) -> LayerGradient | None:
    """The first layer from the input on where A is well defined; None if there is none.

    Towards the head gradients of single images agree more and more: at the input of a deep network
    they are nearly orthogonal even inside a sub-class, and A is noise over noise.
    """
    return next((each for each in layers if each.valid and wanted in (AUTO, each.layer)), None)
