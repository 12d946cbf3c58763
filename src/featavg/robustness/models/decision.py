"""The coarse decision of a classifier, its margin, and what an attack pushes against.

Everything here happens between the outputs of a network and a decision, so it is the same for a
NumPy network and for a torch module: a model only has to evaluate its outputs and pull a covector
back to its inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import positive_mask
from featavg.errors import InputError
from featavg.nets.readouts._readout import ReadOut, readout_of

ALL = -1  # the rival "everything that is not my class": the margin itself


@dataclass(frozen=True, eq=False)
class Decision:
    """Outputs are grouped into coarse classes; the class with the best score is the decision.

    The score of a class is what the read-out makes of its outputs. For two classes the margin is y
    times `nets.readouts.registry.score`. A network with one output f (a sigmoid's logit) decides
    between the scores 0 and f.

    Attributes:
        groups: the coarse class of each output; None for a network with one output.
        readout: how the outputs of a class become its score.
        signed: labels are -1 and +1 rather than 0..C-1.

    >>> decide = Decision.of(positive=[True, True, False, False], readout="max")
    >>> decide.margins(np.array([[2.0, 0.0, 1.5, 1.4]]), decide.labels([1]))
    array([0.5])
    """

    groups: Int[ndarray, " c"] | None
    readout: ReadOut
    signed: bool

    @staticmethod
    def of(
        positive: Sequence[bool] | Bool[ndarray, " c"] | None = None,
        groups: Sequence[int] | Int[ndarray, " c"] | None = None,
        readout: str | ReadOut = "probability",
    ) -> Decision:
        """Two classes by a mask, several by the class of each output, or neither for one output."""
        rule = readout_of(readout)
        if positive is not None and groups is not None:
            raise InputError("groups", "are given beside positive", "give one of the two")
        if positive is None and groups is None:
            return Decision(None, rule, signed=True)
        if positive is not None:
            # The number of outputs is not known here, so this is a mask; `check` compares it.
            mask = positive_mask(positive, len(positive), "outputs")
            return Decision(mask.astype(int), rule, signed=True)
        index = np.asarray(groups)
        if index.ndim != 1 or not np.array_equal(np.unique(index), np.arange(index.max() + 1)):
            raise InputError("groups", "leave a class empty", "number the classes 0, 1, ... C-1")
        if index.max() < 1:
            raise InputError("groups", "hold one class", "a decision is between two or more")
        return Decision(index.astype(int), rule, signed=False)

    @property
    def classes(self) -> int:
        """How many coarse classes there are, C."""
        return 2 if self.groups is None else int(self.groups.max()) + 1

    def labels(self, y: Sequence[int] | Int[ndarray, " n"]) -> Int[ndarray, " n"]:
        """The labels as class numbers 0..C-1, or a sentence about what is wrong with them."""
        y = np.asarray(y)
        allowed = np.array([-1, 1]) if self.signed else np.arange(self.classes)
        if y.ndim != 1 or not np.all(np.isin(y, allowed)):
            names = "-1 and +1" if self.signed else f"0 to {self.classes - 1}"
            raise InputError("y", "holds other labels", f"give one label per point, {names}")
        return (y > 0).astype(int) if self.signed else y.astype(int)

    def check(self, outputs: Float[ndarray, "n c"]) -> None:
        """Refuse outputs of another width, and outputs that are not numbers."""
        expected = 1 if self.groups is None else len(self.groups)
        if outputs.shape[1] != expected:
            raise InputError(
                "model",
                f"has {outputs.shape[1]} outputs where the read-out expects {expected}",
                "give `positive` (or `groups`) an entry for each output, or neither for one logit",
            )
        if not np.all(np.isfinite(outputs)):
            raise InputError("model", "returned a NaN or an infinity", "check weights and points")

    def scores(self, outputs: Float[ndarray, "n c"]) -> Float[ndarray, "n C"]:
        """The coarse scores."""
        if self.groups is None:
            return np.concatenate([np.zeros_like(outputs), outputs], axis=1)
        members = [outputs[:, self.groups == g] for g in range(self.classes)]
        return np.stack([self.readout.class_score(part) for part in members], axis=1)

    def margins(self, outputs: Float[ndarray, "n c"], label: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Own score minus the best other: the decision is right where this is positive."""
        scores = self.scores(outputs)
        rows = np.arange(len(label))
        own = scores[rows, label]
        scores[rows, label] = -np.inf
        return np.asarray(own - scores.max(axis=1))

    def objective(
        self, outputs: Float[ndarray, "n c"], label: Int[ndarray, " n"], rival: Int[ndarray, " n"]
    ) -> tuple[Float[ndarray, " n"], Float[ndarray, "n c"]]:
        """What an attack lowers, own score minus rival, and its derivative in the outputs."""
        rows = np.arange(len(label))
        if self.groups is None:
            sign = np.where(label == 1, 1.0, -1.0)
            return sign * outputs[:, 0], sign[:, None]
        scores, parts = self.scores(outputs), self._parts(outputs)
        own = scores[rows, label]
        others = scores.copy()
        others[rows, label] = -np.inf
        best = others.argmax(axis=1)
        aimed = rival != ALL
        value = own - np.where(aimed, outputs[rows, rival], others[rows, best])
        down = parts * (self.groups == best[:, None])
        down[aimed] = np.eye(outputs.shape[1])[rival[aimed]]
        return value, parts * (self.groups == label[:, None]) - down

    def pull(self, outputs: Float[ndarray, "n c"], weights: Float[ndarray, "n C"]) -> Float[ndarray, "n c"]:
        """The derivative in the outputs of <weights, scores>."""
        if self.groups is None:
            return weights[:, 1:]
        return np.asarray(self._parts(outputs) * weights[:, self.groups])

    def _parts(self, outputs: Float[ndarray, "n c"]) -> Float[ndarray, "n c"]:
        """The derivative of each output's class score in that output."""
        assert self.groups is not None
        parts = np.zeros_like(outputs)
        for g in range(self.classes):
            inside = self.groups == g
            parts[:, inside] = self.readout.derivative(outputs[:, inside])
        return parts
