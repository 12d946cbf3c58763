r"""Open question 1, where equal angles end: what is the average weighted with, and what is its radius?

While every neuron of a class is active on all of it, the network with class labels is a linear
classifier sum_j a_j y_j mu_j near the data. Gradient descent moves a_j by p_j times the slope of the
loss on cluster j: at first by the cluster's share p_j alone. Late, when the loss is small, a linear
classifier tends to the one of largest margin, so

    early:  a_j = p_j t / m,             late:  a_j = alpha_j, the multipliers of the SVM of the centres,

and the radius of the weakest centre tends to the margin of that SVM. With cluster labels each pair of
features has its own boundary, and the radius is the smallest margin of two centres of different
classes. For equal norms, cosines and clusters these are sqrt(d(1-c)/k) and sqrt(d(1-c)/2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.figures.result import Result
from featavg.measures.alignment import neuron_signs
from featavg.measures.averaging import feature_coefficients
from featavg.measures.svm import max_margin
from featavg.nets.two_layer import TwoLayer
from featavg.paper.questions.angle import centre_radii
from featavg.progress import Progress, silent
from featavg.simulate.measurements import net_of, seed_index
from featavg.simulate.points import SimulationPoints
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.work import trained

K, D, N, SIGMA, GROUP = 10, 1000, 200, 0.2, 8
# The paper's training at d = 1000, for a tenth of the time in which a cluster is learned; and until
# the loss is far below one, where the margin rules.
EARLY: dict[str, Any] = {"lr": 1e-3, "steps": 20}
LATE: dict[str, Any] = {
    "controller": "loss-based",
    "lr": 1e-5,
    "steps": 3000,
    "target_loss": 1e-6,
}
_HALF = K // 2
_NORMS = np.tile(np.geomspace(0.7, 1.4, _HALF), 2)
_SHARES = np.tile(np.geomspace(1.0, 4.0, _HALF), 2)


def _blocks(within: float, across: float) -> ndarray:
    """Cosines inside a class and across the classes."""
    same = np.equal.outer(np.arange(K) < _HALF, np.arange(K) < _HALF)
    gram = np.where(same, within, across)
    np.fill_diagonal(gram, 1.0)
    return gram


def _random(seed: int) -> ndarray:
    """Cosines of k random directions in 2k dimensions: 0 give or take 0.22."""
    drawn = stream(seed, "random-gram").standard_normal((K, 2 * K))
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return unit @ unit.T


def fields_of(name: str, seed: int) -> dict[str, Any]:
    """The fields of a setting that make a geometry."""
    if name == "orthogonal":
        return {}
    if name == "unequal norms":
        return {"norms": tuple(math.sqrt(D) * _NORMS)}
    if name == "unequal clusters":
        return {"probabilities": tuple(_SHARES / _SHARES.sum())}
    if name == "unbalanced classes":
        return {"positive": 2}
    gram = {"class closer": _blocks(0.5, 0.0), "classes mixed": _blocks(0.0, 0.15)}.get(name)
    return {"gram": (D * (_random(seed) if gram is None else gram)).tolist()}


GEOMETRIES = (
    "orthogonal",
    "random cosines",
    "class closer",
    "classes mixed",
    "unequal norms",
    "unequal clusters",
    "unbalanced classes",
)
_WORDS = {
    "orthogonal": "orthog.",
    "random cosines": "random",
    "class closer": "closer",
    "classes mixed": "mixed",
    "unequal norms": "norms",
    "unequal clusters": "sizes",
    "unbalanced classes": "2 to 8",
}
# The rows of `GeometryStudy.table`.
COLUMNS = (
    "averaged",
    "averaged_theory",
    "decoupled",
    "decoupled_theory",
    "index",
    "late_weights",
    "early_weights",
)


def averaged_margin(task: MultiCluster) -> tuple[float, Float[ndarray, " k"]]:
    """The margin of the SVM of the centres, and its multipliers.

    >>> margin, alpha = averaged_margin(MultiCluster(k=10, d=1000))
    >>> round(margin, 9), bool(np.allclose(alpha / alpha.mean(), 1.0))
    (10.0, True)
    """
    solved = max_margin(task.alpha * task.features, task.cluster_labels)
    return solved.margin, solved.multipliers


def decoupled_margin(task: MultiCluster) -> float:
    """The smallest margin of a pair of centres of different classes.

    >>> round(decoupled_margin(MultiCluster(k=10, d=1000)), 6)
    22.36068
    """
    centres = task.alpha * task.features
    pairs = [
        max_margin(centres[[i, j]], np.array([1, -1])).margin
        for i in task.class_clusters(1)
        for j in task.class_clusters(-1)
    ]
    return min(pairs)


@dataclass(frozen=True, eq=False, repr=False)
class GeometryStudy(Result):
    """Radii of the weakest centre against their theory, by geometry and seed.

    Attributes:
        geometries: names, see `fields_of`.
        table: geometry x seed x `COLUMNS`; late_weights is the correlation of the learned a_j with
            the SVM's multipliers, early_weights that of the early ones with the clusters' sizes.

    Returned by `fa.geometry_study`, which has an example.
    """

    geometries: tuple[str, ...]
    table: Float[ndarray, "g s q"]

    def column(self, name: str) -> Float[ndarray, "g s"]:
        """One of `COLUMNS`."""
        return self.table[..., COLUMNS.index(name)]

    def ratio(self, network: str) -> Float[ndarray, "g s"]:
        """Measured over predicted radius."""
        return self.column(network) / self.column(f"{network}_theory")

    @property
    def theory_gain(self) -> float:
        """sqrt(k/2), the gain of equal angles."""
        return math.sqrt(K / 2)

    @property
    def predicted_gain(self) -> Float[ndarray, "g s"]:
        """Decoupled over averaged margin."""
        return self.column("decoupled_theory") / self.column("averaged_theory")

    @property
    def gain(self) -> Float[ndarray, "g s"]:
        """Decoupled over averaged radius; NaN where a centre is misclassified with class labels."""
        averaged = self.column("averaged")
        nothing = np.full(averaged.shape, np.nan)
        return np.divide(self.column("decoupled"), averaged, out=nothing, where=averaged > 0)

    def off(self, network: str) -> dict[str, float]:
        """Median |measured / predicted - 1| over the seeds, for each geometry."""
        median = np.median(np.abs(self.ratio(network) - 1.0), axis=1)
        return dict(zip(self.geometries, median.tolist(), strict=True))

    def figure(self) -> Figure:
        """Radii and gains, measured beside predicted."""

        def bar(label: str, values: ndarray, role: Any, shade: float) -> Bar:
            low, high = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
            middle = np.nanmedian(values, axis=1)
            return Bar(label, middle, role, low, high, shade)

        radii = (
            bar("averaged", self.column("averaged"), "averaged", 1.0),
            bar("SVM of all centres", self.column("averaged_theory"), "averaged", 0.3),
            bar("decoupled", self.column("decoupled"), "decoupled", 1.0),
            bar("SVM of two centres", self.column("decoupled_theory"), "decoupled", 0.3),
        )
        # One word each fits below the bars.
        names = tuple(_WORDS.get(name, name) for name in self.geometries)
        gains = (
            bar("gain", self.gain, "neutral", 1.0),
            bar("predicted gain", self.predicted_gain, "neutral", 0.3),
        )
        return Figure(
            "geometries",
            "The averaged network is the linear SVM of the clusters' centres",
            "Exact radius of the weakest centre with class labels (averaged) and with cluster labels "
            "(decoupled, max) beside the margin that theory predicts, and the gain; bars from the smallest "
            "to the largest seed. Features: orthogonal, at random cosines, closer to those of their class, "
            "mixed with those of the other, of unequal norms; clusters of unequal sizes; classes of 2 and 8 "
            "clusters.",
            (
                Bars(names, radii, Axis("radius of the weakest centre", "l2")),
                Bars(names, gains, Axis("gain")),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        return {"geometries": list(self.geometries)} | {
            name: self.column(name).tolist() for name in COLUMNS
        }

    def summary(self) -> str:
        """One line for each geometry."""
        lines = ["Geometries: averaged / theory, decoupled / theory, gain, predicted gain, index"]
        columns = (
            self.ratio("averaged"),
            self.ratio("decoupled"),
            self.gain,
            self.predicted_gain,
            self.column("index"),
        )
        for i, name in enumerate(self.geometries):
            values = "".join(f"{np.nanmedian(column[i]):9.2f}" for column in columns)
            lines.append(f"  {name:<20}{values}")
        return "\n".join(lines)


def geometry_study(
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    geometries: tuple[str, ...] = GEOMETRIES,
    progress: Progress = silent,
) -> GeometryStudy:
    """Train in every geometry, early and late, and measure weights and radii at the centres.

    Args:
        seeds: one network and one sample for each.
        geometries: names of arrangements, from `GEOMETRIES`.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.geometry_study(seeds=(0,), geometries=("orthogonal",))
    Geometries: ...
    """
    table = []
    for i, name in enumerate(geometries):
        progress(i / len(geometries), name)
        table.append([_measured(fields_of(name, seed), seed) for seed in seeds])
    return GeometryStudy(tuple(geometries), np.array(table))


def _measured(fields: dict[str, Any], seed: int) -> list[float]:
    given = {"k": K, "d": D, "n": N, "sigma": SIGMA, "seeds": (seed,)} | fields
    points, runs = trained(Setting(**given, h=GROUP, **LATE))
    early_points, early = trained(Setting(**given, labels="coarse", **EARLY))
    coarse, fine = net_of(runs["coarse"], 0), net_of(runs["fine"], 0)
    first = net_of(early["coarse"], 0)
    assert isinstance(coarse, TwoLayer)
    assert isinstance(first, TwoLayer)
    margin, multipliers = averaged_margin(points.task)
    sizes = np.bincount(early_points.trained_on(0)[1], minlength=K)
    return [
        float(centre_radii(points, coarse).min()),
        margin,
        float(centre_radii(points, fine).min()),
        decoupled_margin(points.task),
        float(seed_index(points, coarse, 0).value),
        _correlation(_weights(points, coarse), multipliers),
        _correlation(_weights(early_points, first), sizes),
    ]


def _weights(points: SimulationPoints, net: TwoLayer) -> Float[ndarray, " k"]:
    """a_j: the mean coefficient of feature j over the neurons of its class, less that of the others.

    f is <w_+ - w_-, x> where all are active, so that both classes' neurons carry a feature.
    """
    signs = neuron_signs(net)
    coefficients = feature_coefficients(net.weights, points.features)
    joint = coefficients[signs > 0].mean(axis=0) - coefficients[signs < 0].mean(axis=0)
    return joint * points.task.cluster_labels


def _correlation(a: ndarray, b: ndarray) -> float:
    """Of two vectors of positive weights, around zero: their cosine. 1 says proportional."""
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))
