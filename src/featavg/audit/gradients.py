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


@dataclass(frozen=True, eq=False)
class Passes:
    """Everything that forward and backward passes over the images gave.

    Attributes:
        outputs: the logits.
        features: the input of the last linear layer, or None.
        weight: of the last linear layer, or None.
        gradients: of the margin, by layer, in order from the input to the head.
    """

    outputs: Float[ndarray, "n c"]
    features: Float[ndarray, "n N"] | None
    weight: Float[ndarray, "c N"] | None
    gradients: dict[str, Float[ndarray, "n D"]]


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
) -> Passes:
    """Run the network over the images, forwards and backwards once each."""
    module = classifier.module
    outputs: list[ndarray] = []
    features: list[ndarray] = []
    gradients: dict[str, list[ndarray]] = {}
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
            _, covector = decision.objective(outputs[-1], own, np.full(len(own), ALL))
            for name, rows in _pulled(logits, covector, part, seen, layers).items():
                gradients.setdefault(name, []).append(rows)
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
    return Passes(np.concatenate(outputs), whole, matrix, complete)


def _pulled(
    logits: Tensor, covector: ndarray, x: Tensor, seen: Seen, layers: Sequence[int]
) -> dict[str, ndarray]:
    named: dict[str, Tensor] = {INPUT: x}
    count = len(seen.activations)
    for i in layers:
        if i < count:
            named[f"activation {i + 1} of {count}"] = seen.activations[i]
    if seen.features is not None and seen.features.requires_grad:
        named = {n: t for n, t in named.items() if t is not seen.features}
        named[FEATURES] = seen.features
    v = torch.as_tensor(covector).to(logits)
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
) -> tuple[LayerGradient, ...]:
    """The statistic at every layer, over the rows that are decided rightly."""
    return tuple(
        LayerGradient(name, shared_gradient(rows[right], fine[right], groups, seed=seed))
        for name, rows in gradients.items()
    )


def check_layer(wanted: str, layers: Iterable[str]) -> None:
    """Refuse a layer that the network does not have."""
    if wanted not in (AUTO, *layers):
        raise InputError("layer", f"is {wanted!r}", f"choose {AUTO} or {', '.join(layers)}")


def reported(layers: Sequence[LayerGradient], wanted: str = AUTO) -> LayerGradient | None:
    """The first layer from the input on where A is well defined; None if there is none.

    Towards the head gradients of single images agree more and more: at the input of a deep network
    they are nearly orthogonal even inside a sub-class, and A is noise over noise.
    """
    return next((each for each in layers if each.valid and wanted in (AUTO, each.layer)), None)
