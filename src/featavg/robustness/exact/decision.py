"""Which question is asked: a network, how its outputs decide, and points with their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import Sample, positive_mask
from featavg.errors import InputError, one_of
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import Max, ReadOut, readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.registry import POOLINGS, READOUTS
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.exact.step_box import Bounds
from featavg.robustness.models.model import network_model
from featavg.training.trajectory import Trajectory

ARGMAX = "argmax"

# What the public calls accept as a network, and as the positive outputs.
Net = TwoLayer | Deep | Trajectory
Positive = Sequence[int] | Sequence[bool] | ndarray


@dataclass(frozen=True, eq=False)
class Decision:
    """A network, how its outputs decide, and which points count as flipped.

    Attributes:
        net: one network.
        readout: how several outputs become the score of a class; `argmax` is `max` with one class
            for each output.
        positive: the outputs of class +1; None where a label is the number of an output.
    """

    net: TwoLayer | Deep
    readout: ReadOut
    positive: Bool[ndarray, " c"] | None

    def own(self, label: int) -> Bool[ndarray, " c"]:
        """The outputs that speak for this label."""
        if self.positive is None:
            return np.arange(self.net.outputs) == label
        return self.positive if label > 0 else ~self.positive

    def pieces(self, label: int) -> list[ndarray] | None:
        """The flipped outputs as a union of {rows @ outputs <= 0}; None for a curved read-out."""
        if self.net.outputs == 1:
            return [np.array([[float(label)]])]
        return self.readout.pieces(self.own(label))

    def margins(self, x: Float[ndarray, "n N"], label: int) -> Float[ndarray, " n"]:
        """Own score minus rival score of the network itself: not positive where it is flipped."""
        return self.margins_of(self.net(x), label)

    def margins_of(self, outputs: Float[ndarray, "n c"], label: int) -> Float[ndarray, " n"]:
        """The same from the outputs."""
        if outputs.shape[-1] == 1:
            return np.asarray(label * outputs[:, 0])
        own, score = self.own(label), self.readout.class_score
        return np.asarray(score(outputs[:, own]) - score(outputs[:, ~own]))

    def wrong(self, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> Bool[ndarray, " n"]:
        """The points that are flipped as they are."""
        outputs, wrong = self.net(x), np.zeros(len(x), dtype=bool)
        for label in set(y.tolist()):
            rows = y == label
            wrong[rows] = self.margins_of(outputs[rows], label) <= 0
        return wrong


def decision_of(
    net: Net,
    points: Sample | ndarray,
    y: ndarray | None,
    readout: str | ReadOut | None,
    positive: Positive | None,
    norm: str,
) -> tuple[Decision, Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """The decision, points and labels of a public call, checked.

    A label that is none, or a point that is not finite, would give a false radius.
    """
    one_of("norm", norm, ("l2", "linf"))
    network = net.net if isinstance(net, Trajectory) else net
    if isinstance(net, Trajectory) and readout is None and positive is None:
        readout, positive = _pooling_of(net)
    if not isinstance(network, TwoLayer | Deep):
        remedy = "give a TwoLayer or a Deep; attack_suite takes any network"
        raise InputError("net", f"is a {type(network).__name__}", remedy)
    if network.batch:
        raise InputError("net", "is a batch of networks", "pick one of them by index")
    if norm == "linf":
        _check_linf(net, network, points)
    if isinstance(points, Sample) and positive is None and network.outputs == points.task.k:
        positive = None if readout == ARGMAX else points.task.positive_clusters
    if readout is None:
        # Labels -1 and +1 without `positive` must not be taken for numbers of outputs: two layers ask.
        coarse = positive is not None or isinstance(network, TwoLayer)
        readout = "probability" if coarse else ARGMAX
    decision = _decision(network, readout, positive)
    x, labels = _points(network, points, y, decision)
    return decision, x, labels


def _pooling_of(run: Trajectory) -> tuple[str | None, Positive | None]:
    """How the neurons of a class were pooled in training, and which of them are of the class +1."""
    recipe = run.settings.get("recipe", {})
    pooling = recipe.get("pooling")
    return pooling, None if pooling is None else np.arange(2 * recipe["m"]) < recipe["m"]


def _check_linf(net: Net, network: TwoLayer | Deep, points: Sample | ndarray) -> None:
    if isinstance(network, Deep):
        remedy = 'use norm="l2", or attack_suite(..., norm="linf") for an upper end'
        raise InputError("net", "is a Deep, and its l_inf radii cannot be computed", remedy)
    check_ambient(net, points, "does not keep l_inf distances")


def check_ambient(net: Net, points: Sample | ndarray, what: str) -> None:
    """Refuse a network in other coordinates than those of R^d."""
    compressed = isinstance(net, Trajectory) and net.settings.get("coordinates") == "compressed"
    network = net.net if isinstance(net, Trajectory) else net
    if compressed or (isinstance(points, Sample) and network.dimension != points.task.d):
        problem = f"is compressed, and compression {what}"
        raise InputError("net", problem, 'train with coordinates="ambient"')


def _decision(net: TwoLayer | Deep, readout: str | ReadOut, positive: Positive | None) -> Decision:
    if isinstance(readout, str) and readout != ARGMAX and readout.partition(":")[0] not in POOLINGS:
        one_of("readout", readout, dict.fromkeys((ARGMAX, *READOUTS, *POOLINGS)))
    rule = Max() if readout == ARGMAX else readout_of(readout)
    if net.outputs == 1:  # decides by its sign, whatever the read-out
        return Decision(net, rule, np.ones(1, dtype=bool))
    if readout != ARGMAX:
        if positive is None:
            problem = f"is missing for the read-out {rule.name}"
            remedy = f'say which of {net.outputs} outputs are +1, or use readout="argmax"'
            raise InputError("positive", problem, remedy)
        mask = positive_mask(positive, net.outputs, "outputs")
        rule, factor = rule.simpler(mask)
        return Decision(net if factor == 1.0 else _scaled(net, factor), rule, mask)
    if positive is not None:
        remedy = f"choose readout among {', '.join(READOUTS)}, or leave it out"
        raise InputError("positive", "means nothing to the largest of the outputs", remedy)
    return Decision(net, rule, None)


def _scaled(net: TwoLayer | Deep, factor: float) -> TwoLayer | Deep:
    """The network with all outputs multiplied."""
    if isinstance(net, TwoLayer):
        return replace(net, head=factor * net.head)
    *inner, last = net.weights
    biases = net.biases
    if biases is not None and biases[-1] is not None:
        biases = (*biases[:-1], factor * biases[-1])
    return replace(net, weights=(*inner, factor * last), biases=biases)


def _points(
    net: TwoLayer | Deep, points: Sample | ndarray, y: ndarray | None, decision: Decision
) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    classes = decision.positive is None
    names = f"0 to {net.outputs - 1}" if classes else "-1 and +1"
    if isinstance(points, Sample):
        x = points.coordinates(net.dimension)
        y = (points.clusters if classes else points.y) if y is None else y
    else:
        x = np.asarray(points, dtype=float)
    if y is None:
        raise InputError("y", "is missing", f"give one label per point, {names}")
    labels = np.asarray(y)
    if x.ndim != 2 or x.shape[1] != net.dimension:
        remedy = f"give rows of {net.dimension} coordinates"
        raise InputError("points", f"have shape {x.shape}", remedy)
    if not np.all(np.isfinite(x)):
        raise InputError("points", "hold a NaN or an infinity", "give finite points")
    if labels.shape != (len(x),):
        remedy = f"give one label for each of {len(x)} points"
        raise InputError("y", f"has shape {labels.shape}", remedy)
    allowed = np.arange(net.outputs) if classes else np.array([-1, 1])
    if not np.all(np.isin(labels, allowed)):
        remedy = f"give the numbers of outputs, {names}, or `positive` for labels -1 and +1"
        remedy = remedy if classes else "give the coarse labels"
        raise InputError("y", f"has labels other than {names}", remedy)
    return x, labels.astype(int)


def attacked(
    decision: Decision,
    x: Float[ndarray, "n N"],
    labels: Int[ndarray, " n"],
    norm: str = "l2",
    bounds: Bounds | None = None,
    budget: int = 120,
) -> tuple[Float[ndarray, " n"], Float[ndarray, "n N"]]:
    """Radii by attacks and their witnesses; infinity and NaN where no attack finds a flip.

    Attacks know two layers, and a box whose sides are the same in all coordinates.
    """
    found, witness = np.full(len(x), np.inf), np.full_like(x, np.nan)
    even = None if bounds is None else _even(bounds)
    if not isinstance(decision.net, TwoLayer) or (bounds is not None and even is None):
        return found, witness
    # A class among several is the class +1 against all others.
    classes = decision.positive is None
    for label in set(labels.tolist()) if classes else (1,):
        rows = np.flatnonzero(labels == label) if classes else np.arange(len(x))
        y = np.ones(len(rows), int) if classes else labels
        model = network_model(decision.net, decision.own(label), decision.readout, even)
        try:
            result = attack_suite(model, x[rows], y, norm, budget=budget)
        except InputError:  # no gradient anywhere
            continue
        found[rows], witness[rows] = result.radii, result.witness
    return found, witness


def _even(bounds: Bounds) -> tuple[float, float] | None:
    """The two numbers of a box whose sides are the same in all coordinates, as attacks know it."""
    low, high = float(bounds[0].min()), float(bounds[1].max())
    same = np.all(bounds[0] == low) and np.all(bounds[1] == high)
    return (low, high) if same and low < high and math.isfinite(high - low) else None
