"""The shared gradient of a network at several layers, and the layer where it means something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.classifier import Classifier, Passes
from featavg.audit.parts import Audited, Part, Row
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Figure, Heatmap
from featavg.measures.shared_gradient import SharedGradient, shared_gradient
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


@dataclass(frozen=True, eq=False)
class Sharing(Part):
    """The shared gradient at each layer, from the input to the head.

    Attributes:
        wanted: the layer to report, or "auto".
    """

    layers: tuple[LayerGradient, ...]
    wanted: str = AUTO

    @property
    def reported(self) -> LayerGradient | None:
        """The first layer from the input on where A is well defined; None if there is none.

        Towards the head gradients of single images agree more and more: at the input of a deep network
        they are nearly orthogonal even inside a sub-class, and A is noise over noise.
        """
        found = (each for each in self.layers if self.wanted in (AUTO, each.layer))
        return next((each for each in found if each.valid), None)

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """A with its interval, class by class; its null is a detail."""
        if self.reported is None:
            undefined = (("shared gradient", "not defined at any layer"), ("class by class", "not defined"))
            return [Row(*each) for each in undefined]
        a, verdicts = self.reported.shared, audit.judgement.by_class
        classes = "; ".join(
            f"class {each.label}: {each.value:.2f} [{each.low:.2f}, {each.high:.2f}]"
            + (f", {verdicts[each.label].value}" if each.label in verdicts else "")
            for each in a.by_class
        )
        value = (
            f"{a.value:.2f} [{a.low:.2f}, {a.high:.2f}] at {self.reported.layer}; 1 is one direction for "
            f"a class, 0 one for each sub-class: lower is better, because harder to attack"
        )
        null = f"{a.null:.2f}, of sub-classes drawn at random; near 1 the shared gradient means something"
        return [
            Row("shared gradient", value),
            Row("class by class", classes),
            Row("permutation null", null, is_detail=True),
        ]

    def figures(self, audit: Audited) -> list[Figure]:
        """The directions of the sub-classes at the reported layer, and A layer by layer."""
        heat = [] if self.reported is None else [_heat_map(self.reported, audit)]
        return heat + ([layers_figure(self.layers)] if self.layers else [])

    def entries(self, name: str) -> dict[str, object]:
        """The layers, and the name of the one that is reported."""
        reported = None if self.reported is None else self.reported.layer
        return {"layer": reported, "layers": [layer.to_json() for layer in self.layers]}


def _heat_map(layer: LayerGradient, audit: Audited) -> Figure:
    """The sub-classes of a class side by side."""
    order = np.argsort(audit.groups, kind="stable")
    breaks = tuple(int(b) for b in np.flatnonzero(np.diff(audit.groups[order])) + 1)
    matrix = np.clip(np.nan_to_num(layer.shared.matrix)[np.ix_(order, order)], -1.5, 1.5)
    names = tuple(audit.names[j] for j in order)
    return Figure(
        "directions",
        "Which sub-classes are sensitive to the same direction",
        f"Shared gradient of every pair of sub-classes at the layer '{layer.layer}': 1 inside a "
        "block is one direction for a whole class, 0 are directions with nothing in common.",
        (Heatmap(matrix, names, names, "shared gradient", limit=1.0, row_breaks=breaks, column_breaks=breaks),),
    )


def layers_figure(layers: Sequence[LayerGradient]) -> Figure:
    """A and its null, layer by layer."""
    names = [each.layer.replace(FEATURES, "features") for each in layers]
    # Names that fit under a bar: 'activation 5 of 19' is 5/19.
    ticks = [name.removeprefix("activation ").replace(" of ", "/") for name in names]
    short = [f"; {t} is {n}" for t, n in zip(ticks, names, strict=True) if "/" in t]
    value, low, high, null, null_low, null_high = (
        np.nan_to_num([getattr(each.shared, name) for each in layers]).tolist()
        for name in ("value", "low", "high", "null", "null_low", "null_high")
    )
    bars = (Bar("A", value, "averaged", low, high), Bar("permutation null", null, "neutral", null_low, null_high))
    return Figure(
        "layers",
        "Where the shared gradient means something",
        "A (95% interval) and its permutation null (5% to 95%) at each layer. A layer counts where the "
        f"null exceeds {VALID_NULL:g}; the first such layer from the input on is reported. Intervals "
        f"that leave the picture are cut{short[0] if short else ''}.",
        (Bars(tuple(ticks), bars, Axis("shared gradient", range=(-0.5, 1.5))),),
    )


def passes(
    classifier: Classifier,
    decision: Decision,
    x: ndarray,
    label: Int[ndarray, " n"],
    progress: Progress | None = None,
    effective: bool = False,
) -> Passes:
    """Run the network over the images, forwards and backwards.

    Args:
        effective: take the effective gradient of the own class's score above the mean output, without
            the direction that all images share, instead of the gradient of the margin.
    """
    batches, means, batch = list[Passes](), dict[str, _Mean](), classifier.batch
    gradients: dict[str, list[ndarray]] = {}
    with classifier.unchanged():
        for start in range(0, len(x), batch):
            own = label[start : start + batch]

            def covector(outputs: ndarray, own: ndarray = own) -> ndarray:
                decision.check(outputs)
                return _covector(decision, outputs, own, effective)

            seen = classifier.look(x[start : start + batch], covector, effective)
            for name, rows in seen.gradients.items():
                gradients.setdefault(name, []).append(hashed(rows))
                if effective:
                    means.setdefault(name, _Mean()).add(hashed(seen.values[name]))
            batches.append(replace(seen, values={}, gradients={}))
            if progress is not None:
                progress(min(1.0, (start + batch) / len(x)), "gradients of the decision")
    complete = {
        name: np.concatenate(rows)
        for name, rows in gradients.items()
        if sum(map(len, rows)) == len(x) and len({row.shape[1] for row in rows}) == 1
    }
    for name, rows in complete.items():
        if not np.all(np.isfinite(rows)):
            problem = f"has a gradient that is not finite ({name})"
            raise InputError("model", problem, "check weights")
    constant: tuple[str, ...] = ()
    if effective:
        constant = tuple(n for n, r in complete.items() if n != INPUT and _one_each(r, label))
        complete = {n: means[n].removed(r) for n, r in complete.items() if n not in constant}
    features = [b.features for b in batches if b.features is not None]
    whole = np.concatenate(features) if len(features) == len(batches) else None
    weight = batches[-1].weight if whole is not None else None
    outputs = np.concatenate([b.outputs for b in batches])
    return Passes(outputs, whole, weight, complete, constant=constant)


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

    def add(self, values: Float[ndarray, "n D"]) -> None:
        rows = values.astype(float)
        self.n += len(rows)
        self.total = self.total + rows.sum(axis=0)
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


def hashed(rows: Float[ndarray, "n D"], longest: int = LONGEST) -> Float[ndarray, "n E"]:
    """Coordinates summed into fewer with random signs: inner products keep their expectation."""
    from scipy.sparse import csr_array

    size = rows.shape[1]
    if size <= longest:
        return rows
    rng = stream(0, "hashed coordinates")
    where, signs = rng.integers(0, HASHED, size), rng.choice([-1.0, 1.0], size)
    return np.asarray(rows @ csr_array((signs, (np.arange(size), where)), shape=(size, HASHED)))


def spread(count: int, most: int = MOST_LAYERS) -> list[int]:
    """At most `most` of `count` numbers, evenly spread, the last one among them.

    >>> spread(9, 4), spread(2, 4)
    ([1, 3, 6, 8], [0, 1])
    """
    if count <= most:
        return list(range(count))
    return sorted({round((i + 1) * count / most) - 1 for i in range(most)})


def sharing(
    gradients: Mapping[str, Float[ndarray, "n D"]],
    right: Int[ndarray, " m"],
    fine: Int[ndarray, " n"],
    groups: Int[ndarray, " k"],
    seed: int = 0,
    weigh: str = "pairs",
    wanted: str = AUTO,
) -> Sharing:
    """The statistic at every layer, over the rows that are decided rightly."""
    return Sharing(
        tuple(
            LayerGradient(name, shared_gradient(rows[right], fine[right], groups, seed=seed, weigh=weigh))
            for name, rows in gradients.items()
        ),
        wanted,
    )


def check_layer(wanted: str, seen: Passes) -> None:
    """Refuse a layer that the network does not have, or where A is 1 whatever the network does."""
    if wanted not in (AUTO, *seen.gradients):
        problem = f"is {wanted!r}"
        if wanted in seen.constant:
            problem += ", behind which the network is linear: A is 1 there for any network"
        raise InputError("layer", problem, f"choose {AUTO} or {', '.join(seen.gradients)}")
