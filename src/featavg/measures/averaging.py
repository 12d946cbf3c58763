r"""The averaging index: is a neuron the average of the features of its class?

A weight is written in the basis of the features, w = sum_j a_j mu_j + (rest orthogonal to all of them), by
projection on their span, so that features at any angle and of any length are told apart. The index of
`averaging_index` is evenness times share: how many of its class's features the weight has with the right sign,
and which part of it lies in their span, so that it is near 0 for a weight that has next to nothing to do with the
features, however even that nothing is. Coefficients of dependent features are not unique: where a sum of
a class does not read 1 then, or a single feature not 0, the index is refused.

A deep network has no such weights, but at every point it is affine, and its slope there is one: the
effective weight of cluster j is

    w_j = 1/n_j sum_{i in I_j} grad_x g_j(x_i),   g_j = y_j f for one output, g_j = f_j for k outputs.

For two layers, all neurons active on their own class and on no other, it is the mean weight of the neurons of
cluster j (of its class). Compression loses nothing: gradients lie in the span of the first layer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import expit, stdtrit

from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster, Sample
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.measures.alignment import cosine_matrix, neuron_signs, require_size, unit
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed

DRAWS, KEPT = 20_000, 256
# Features whose singular values differ by more are taken for linearly dependent (a Gram matrix that is
# singular on paper leaves 1e-8 after its Cholesky factor).
RANK = 1e-6
# How far from 0 and 1 log-odds stay, and an index of dependent features may be.
EDGE = 1e-3


@dataclass(frozen=True, eq=False)
class AveragingIndex:
    """How much of an average the neurons are: 1 the average of their class's features, 0 anything else.

    Attributes:
        value, evenness, share: means over the neurons of the index and its two factors.
        null: mean index of neurons with as large a share in the span, but random directions in it.
        interval: 95% interval of `value` over the networks of a batch, or over the neurons of one.
        null_interval: where 95% of the same mean over as many random neurons would lie.
        neurons, neuron_evenness, neuron_share: of each neuron; NaN where its class has one feature only.

    Returned by `fa.averaging_index` and `fa.averaging_index_of`, which have examples.
    """

    value: float
    null: float
    interval: tuple[float, float]
    null_interval: tuple[float, float]
    evenness: float
    share: float
    neurons: Float[ndarray, "*s M"]
    neuron_evenness: Float[ndarray, "*s M"]
    neuron_share: Float[ndarray, "*s M"]

    def __float__(self) -> float:
        return self.value

    @property
    def mean(self) -> float:
        """The same as `value`."""
        return self.value

    def figure(self) -> Figure:
        """The index of every neuron, beside the mean and what random weights would have."""
        known = np.sort(self.neurons[np.isfinite(self.neurons)])
        neurons = Series("a neuron", np.arange(1, len(known) + 1), known, "averaged", "markers")
        rules = (Rule(self.value, label="mean"), Rule(self.null, label="random"))
        panel = Lines(Axis("neuron"), Axis("averaging index"), (neurons,), rules=rules)
        caption = "1 is an equal sum of the features of a class, 0 a single feature."
        return Figure("averaging-index", "Averaging index", caption, (panel,))

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"AveragingIndex({self.value:.3f} [{low:.3f}, {high:.3f}], random {self.null:.3f}; "
            f"evenness {self.evenness:.3f}, share in the span {self.share:.3f}, "
            f"{np.isfinite(self.neurons).sum()} neurons)"
        )


@public
def averaging_index(net: TwoLayer, task: MultiCluster) -> AveragingIndex:
    """The averaging index of a network (or a batch) on the features of its task.

    Each weight is written in the basis of the features, w = sum_j a_j mu_j + rest; for a neuron of
    class s, over j in J_s, with PR = (sum_{a_j > 0} a_j^2)^2 / sum_j a_j^4,

        index = max(0, (PR - 1) / (|J_s| - 1)) * |sum_j a_j mu_j|^2 / |w|^2:

    1 for an equal sum of the features of the class, 0 for one of them, whatever their angles are.
    The second factor is the share of the weight that the features span (all of them).

    Args:
        net: a network with one output or with one for each cluster.
        task: the clusters that it was trained on.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=10, d=100, cosine=0.9)
    >>> fa.averaging_index(fa.feature_averaging(task), task)
    AveragingIndex(1.000 [1.000, 1.000], random 0.05...; evenness 1.000, share in the span 1.000, 2 neurons)
    >>> round(fa.averaging_index(fa.feature_decoupling(task), task).value, 12)
    0.0

    Raises:
        InputError: if the network cannot be one of this task (other outputs, other dimension).
    """
    require_size(net, task)
    return averaging_index_of(net, task.features_in(net.dimension), task.cluster_labels)


@public
def averaging_index_of(net: TwoLayer, features: Float[ndarray, "k N"], labels: Int[ndarray, " k"]) -> AveragingIndex:
    """The averaging index for features that were measured rather than stated.

    Args:
        net: one network or a batch; a grouped one has an output for each feature.
        features: mu_j.
        labels: the class of each feature, +1 or -1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> features = 10 * np.eye(4)
    >>> net = fa.binary(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]))
    >>> fa.averaging_index_of(net, features, np.array([1, 1, -1, -1])).mean
    1.0
    """
    _check_dependence(features, labels)
    signs = neuron_signs(net) if net.outputs == 1 else _group_signs(net, labels)
    coefficients = feature_coefficients(net.weights, features)
    shares = span_share(net.weights, coefficients, features)
    even = np.full(net.weights.shape[:-1], np.nan)
    chance, chance_spread = np.full(len(signs), np.nan), np.full(len(signs), np.nan)
    by_chance = _by_chance(features, labels)
    for sign in (1, -1):
        clusters, neurons = np.flatnonzero(labels == sign), np.flatnonzero(signs == sign)
        if len(clusters) < 2:
            continue
        even[..., neurons] = evenness(coefficients[..., neurons, :][..., clusters])
        chance[neurons], chance_spread[neurons] = by_chance[sign]
    index = even * shares
    counted = ~np.isnan(even)
    if not counted.any():
        none = float("nan")
        pair, mean_share = (none, none), float(shares.mean())
        return AveragingIndex(none, none, pair, pair, none, mean_share, index, even, shares)
    # A random neuron keeps the share of the real one and loses its direction inside the span.
    columns = ~np.isnan(chance)
    kept = shares.reshape(-1, shares.shape[-1])[:, columns]
    null = float((kept * chance[columns]).mean())
    null_spread = 1.96 * float(np.sqrt(((kept * chance_spread[columns]) ** 2).sum()) / kept.size)
    return AveragingIndex(
        value=float(index[counted].mean()),
        null=null,
        interval=_interval(index[..., columns]),
        null_interval=(max(null - null_spread, 0.0), min(null + null_spread, 1.0)),
        evenness=float(even[counted].mean()),
        share=float(shares[..., columns].mean()),
        neurons=index,
        neuron_evenness=even,
        neuron_share=shares,
    )


def _check_dependence(features: Float[ndarray, "k N"], labels: Int[ndarray, " k"]) -> None:
    """Refuse dependent features where a class's sum does not read 1, or a single feature not 0."""
    rank = np.linalg.matrix_rank(unit(features), tol=RANK * np.sqrt(len(features)))
    if rank == len(features):
        return
    for sign in (1, -1):
        own = labels == sign
        if own.sum() < 2:
            continue
        weights = np.concatenate([features[own], features[own].sum(axis=0, keepdims=True)])
        *single, whole = evenness(feature_coefficients(weights, features)[:, own])
        if max(single) > EDGE or whole < 1 - EDGE:
            problem = f"are linearly dependent ({len(features)} of rank {rank})"
            raise InputError("features", problem, "leave out those that others add up to")


def feature_coefficients(weights: Float[ndarray, "*s N"], features: Float[ndarray, "k N"]) -> Float[ndarray, "*s k"]:
    """a_j of the projection of each weight vector on the span of the features, sum_j a_j mu_j.

    Where features are linearly dependent the coefficients are not unique, and the shortest ones (for
    features brought to length one) are taken.

    >>> mu = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0]])
    >>> np.round(feature_coefficients(np.array([1.8, 0.6, 5.0]), mu), 12)
    array([1., 1.])
    """
    lengths = np.linalg.norm(features, axis=-1)
    if not np.all(lengths > 0):
        raise InputError("features", "have a zero vector among them", "leave it out")
    return weights @ np.linalg.pinv(unit(features), rcond=RANK) / lengths


def span_share(
    weights: Float[ndarray, "*s N"], coefficients: Float[ndarray, "*s k"], features: Float[ndarray, "k N"]
) -> PerSeed:
    """|sum_j a_j mu_j|^2 / |w|^2; a weight of zero has nothing anywhere, 0."""
    inside = ((coefficients @ features) ** 2).sum(axis=-1)
    whole = (weights**2).sum(axis=-1)
    share = np.divide(inside, whole, out=np.zeros_like(whole), where=whole > 0)
    return np.asarray(np.minimum(share, 1.0))


def evenness(coefficients: Float[ndarray, "*s j"]) -> PerSeed:
    """max(0, (PR - 1)/(j - 1)) of j coefficients, PR = (sum_{a > 0} a^2)^2 / sum a^4.

    >>> [float(evenness(np.array(a))) for a in ([2.0, 2.0], [2.0, 0.0], [2.0, -2.0])]
    [1.0, 0.0, 0.0]
    """
    # Relative to the largest, so that fourth powers of tiny weights do not vanish.
    largest = np.abs(coefficients).max(axis=-1, keepdims=True)
    scaled = np.divide(coefficients, largest, out=np.zeros_like(coefficients, dtype=float), where=largest > 0)
    total = (np.maximum(scaled, 0.0) ** 2).sum(axis=-1) ** 2
    fourth = (scaled**4).sum(axis=-1)
    ratio = np.divide(total, fourth, out=np.zeros_like(total), where=fourth > 0)
    return np.asarray(np.maximum(ratio - 1.0, 0.0) / (coefficients.shape[-1] - 1))


def random_coefficients(
    features: Float[ndarray, "k N"], draws: int, purpose: str = "averaging-index-null"
) -> Float[ndarray, "draws k"]:
    """The coefficients of directions without any preference, by a fixed sample."""
    # An orthonormal basis of the span is all that a projected random direction sees.
    _, values, basis = np.linalg.svd(unit(features), full_matrices=False)
    basis = basis[values > RANK * values[0]]
    normal = stream(0, purpose).standard_normal((draws, len(basis)))
    return feature_coefficients(normal, features @ basis.T)


# The last answers: a sweep asks for the same features thousands of times.
_CHANCES: dict[str, dict[int, tuple[float, float]]] = {}


def _by_chance(features: Float[ndarray, "k N"], labels: Int[ndarray, " k"]) -> dict[int, tuple[float, float]]:
    """Mean and spread of a random direction's evenness, for each class with several features."""
    numbers = repr((features.shape, DRAWS)).encode() + features.tobytes() + labels.tobytes()
    key = hashlib.sha256(numbers).hexdigest()
    if key not in _CHANCES:
        random = random_coefficients(features, DRAWS)
        own = {sign: np.flatnonzero(labels == sign) for sign in (1, -1)}
        spreads = {sign: evenness(random[:, js]) for sign, js in own.items() if len(js) > 1}
        while len(_CHANCES) >= KEPT:
            del _CHANCES[next(iter(_CHANCES))]
        _CHANCES[key] = {s: (float(e.mean()), float(e.std())) for s, e in spreads.items()}
    return _CHANCES[key]


def _interval(index: Float[ndarray, "*s M"]) -> tuple[float, float]:
    """A 95% interval of the mean, over networks if there are several, else over neurons.

    Indices near 0 or 1 are skewed, and Student's interval of ten of them covers the mean 85% to 90% of
    the time. The interval of the log-odds covers the side that it misses: both together are taken,
    and cover 89% to 96% for ten neurons (tests/measures/test_averaging.py).
    """
    units = index.mean(axis=-1).ravel() if index.ndim > 1 and len(index) > 1 else index.ravel()
    mean = float(units.mean())
    if len(units) < 2:
        return 0.0, 1.0
    half = float(stdtrit(len(units) - 1, 0.975) * units.std(ddof=1) / np.sqrt(len(units)))
    # Log-odds of a number a little away from 0 and 1, and back.
    odds = np.log((mean + EDGE) / (1 - mean + EDGE))
    spread = half * (1 / (mean + EDGE) + 1 / (1 - mean + EDGE))
    low, high = ((1 + 2 * EDGE) * expit(odds + s) - EDGE for s in (-spread, spread))
    return max(min(mean - half, float(low)), 0.0), min(max(mean + half, float(high)), 1.0)


def _group_signs(net: TwoLayer, labels: Int[ndarray, " k"]) -> Int[ndarray, " M"]:
    head = net.head[(0,) * len(net.batch)]
    if len(head) != len(labels):
        raise InputError("net", f"has {len(head)} outputs", f"there are {len(labels)} features")
    return np.asarray(labels[np.argmax(head != 0, axis=0)])


@public
def effective_weights(
    net: TwoLayer | Deep, x: Float[ndarray, "*s n N"], clusters: Int[ndarray, "*s n"], labels: Int[ndarray, " k"]
) -> Float[ndarray, "*t k N"]:
    """w_j, the mean gradient of the decision over the points of each cluster.

    Args:
        net: a network with one output or with k, or a batch.
        x, clusters: points with their clusters; a batch may have its own for each network.
        labels: the class of each cluster, +1 or -1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=2, d=100, sigma=0.1)
    >>> net, points = fa.feature_decoupling(task), task.sample(50, seed=1)
    >>> x = np.abs(points.coordinates(2))
    >>> effective_weights(net, x, points.clusters, task.cluster_labels).round(6)
    array([[ 10., -10.],
           [-10.,  10.]])
    """
    k = len(labels)
    if net.outputs not in (1, k):
        raise InputError("net", f"has {net.outputs} outputs", f"give one, or {k} for {k} clusters")
    member = (clusters[..., None] == np.arange(k)).astype(float)
    counts = member.sum(axis=-2)
    if np.any(counts == 0):
        raise InputError("clusters", "lack one of the clusters", "give points of each")
    slopes = labels[clusters][..., None].astype(float) if net.outputs == 1 else member
    below = _first_layer_slopes(net, x, slopes)
    mean = np.swapaxes(member / counts[..., None, :], -1, -2) @ below
    return mean @ (net.weights if isinstance(net, TwoLayer) else net.weights[0])


def _first_layer_slopes(net: TwoLayer | Deep, x: ndarray, slopes: ndarray) -> ndarray:
    """d(sum_j slopes_j F_j) / dz by the pre-activations of the first layer at each point."""
    if isinstance(net, TwoLayer):
        return (slopes @ net.head) * (net.preactivations(x) >= 0.0)
    wide = np.broadcast_to(slopes, (*net.batch, *slopes.shape[-2:]))
    *_, (below, _) = net.backward(x, net.preactivations(x), wide)
    return below


@public
def gradient_cosines(net: TwoLayer | Deep, task: MultiCluster, points: Sample) -> Float[ndarray, "*s k k"]:
    """The matrix of Figure 2 for any depth: entry (i, j) is cos(mu_i, w_j), w_j the effective weight.

    Args:
        net: a network of any depth, or a batch.
        task: the clusters that it was trained on.
        points: a sample of them, over which gradients are averaged.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> fa.gradient_cosines(fa.feature_averaging(task), task, task.sample(400, 1)).shape
    (4, 4)
    """
    weights = _of_clusters(net, task, points)
    return cosine_matrix(task.features_in(net.dimension), weights)


@public
def gradient_index(net: TwoLayer | Deep, task: MultiCluster, points: Sample) -> AveragingIndex:
    """The averaging index of the effective weights, with its null.

    Args:
        net: a network of any depth, or a batch.
        task: the clusters that it was trained on.
        points: a sample of them, over which gradients are averaged.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=1000)
    >>> run = fa.train(task, n=200, seed=0)
    >>> fa.gradient_index(run.net, task, task.sample(20, seed=1)).value > 0.5
    True
    """
    weights = _of_clusters(net, task, points)
    return index_of(weights, task.features_in(net.dimension), task.cluster_labels)


def _of_clusters(net: TwoLayer | Deep, task: MultiCluster, points: Sample) -> ndarray:
    x = points.coordinates(net.dimension)
    return effective_weights(net, x, points.clusters, task.cluster_labels)


def index_of(
    weights: Float[ndarray, "*s k N"], features: Float[ndarray, "k N"], labels: Int[ndarray, " k"]
) -> AveragingIndex:
    """The averaging index of weight vectors, one for each cluster, as if they were neurons."""
    head = np.broadcast_to(labels.astype(float), (*weights.shape[:-2], 1, len(labels)))
    neurons = TwoLayer(weights, np.zeros(weights.shape[:-1]), head)
    return averaging_index_of(neurons, features, labels)
