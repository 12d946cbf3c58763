"""A classifier that can be audited, and what is asked about it."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.audit.labels import AuditData
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Model

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
