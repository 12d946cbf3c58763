"""What the weights point at: equivalent weights, their cosines with the features, the averaging index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer
from featavg.shapes import PerSeed


def neuron_signs(net: TwoLayer) -> Int[ndarray, " M"]:
    """The class that each neuron of a binary network speaks for."""
    head = net.head[(0,) * len(net.batch)]
    if head.shape[0] != 1:
        raise InputError("net", f"has {head.shape[0]} outputs", "a binary network has one")
    return np.where(head[0] >= 0, 1, -1)


def neuron_groups(net: TwoLayer, labels: Int[ndarray, " k"]) -> list[ndarray]:
    """The neurons behind each of the k equivalent weights.

    A grouped network has them by construction. The m neurons of a class of a binary network are
    divided equally among the clusters of that class, so that both kinds can be laid side by side;
    with fewer neurons than clusters, clusters share them in turn.

    Args:
        net: one network or a batch.
        labels: the class of each cluster.
    """
    if net.outputs > 1:
        head = net.head[(0,) * len(net.batch)]
        return [np.flatnonzero(row) for row in head]
    groups: list[ndarray] = [np.zeros(0, dtype=int)] * len(labels)
    signs = neuron_signs(net)
    for sign in (1, -1):
        neurons, clusters = np.flatnonzero(signs == sign), np.flatnonzero(labels == sign)
        if len(neurons) == 0:
            raise InputError("net", "has no neuron for one class", "give each class at least one")
        if len(neurons) >= len(clusters):
            shares = np.array_split(neurons, len(clusters))
        else:
            shares = [neurons[i % len(neurons)][None] for i in range(len(clusters))]
        for cluster, share in zip(clusters, shares, strict=True):
            groups[cluster] = share
    return groups


def equivalent_weights(net: TwoLayer, labels: Int[ndarray, " k"]) -> Float[ndarray, "*s k N"]:
    """w_j = 1/h sum_r w_{j,r}: the mean weight vector of each sub-network."""
    groups = neuron_groups(net, labels)
    return np.stack([net.weights[..., group, :].mean(axis=-2) for group in groups], axis=-2)


def cosines(net: TwoLayer, task: MultiCluster) -> Float[ndarray, "*s k k"]:
    """The matrix of Figure 2: entry (i, j) is cos(mu_i, w_j).

    >>> from featavg.nets.ideal import feature_averaging
    >>> task = MultiCluster(k=4, d=100)
    >>> np.round(cosines(feature_averaging(task), task)[0], 3)
    array([0.707, 0.707, 0.   , 0.   ])
    """
    weights = equivalent_weights(net, task.cluster_labels)
    return cosine_matrix(task.features_in(net.dimension), weights)


def cosine_matrix(
    rows: Float[ndarray, "a N"], columns: Float[ndarray, "*s b N"]
) -> Float[ndarray, "*s a b"]:
    """Cosines between two sets of vectors; those with a zero vector are zero."""
    return unit(rows) @ np.swapaxes(unit(columns), -1, -2)


def unit(vectors: Float[ndarray, "*s N"]) -> Float[ndarray, "*s N"]:
    """The vectors at length one; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)


@dataclass(frozen=True)
class BlockCosines:
    """The cosine matrix in two numbers: mean inside a class and mean across classes."""

    same_class: float
    other_class: float


def block_cosines(
    matrix: Float[ndarray, "*s k k"], labels: Int[ndarray, " k"], diagonal: bool = True
) -> BlockCosines:
    """Mean entry of the class blocks and of the rest, the diagonal counted or not."""
    same = labels[:, None] == labels[None, :]
    inside = same if diagonal else same & ~np.eye(len(labels), dtype=bool)
    within = matrix[..., inside].mean() if inside.any() else np.nan
    return BlockCosines(float(within), float(matrix[..., ~same].mean()))


@dataclass(frozen=True)
class AveragingIndex:
    """How evenly neurons spread over the features of their class: 1 an average, 0 a single feature.

    Attributes:
        neurons: the index of each neuron; NaN where its class has one feature only.
        mean: over the neurons.
        null: the mean of the same number for random directions, which is not zero.
    """

    neurons: Float[ndarray, "*s M"]
    mean: float
    null: float


def averaging_index(net: TwoLayer, task: MultiCluster) -> AveragingIndex:
    """(PR - 1) / (|J_s| - 1) with the participation ratio PR = (sum c_j^2)^2 / sum c_j^4.

    c_j are the cosines of a neuron with the features of its class s.

    >>> from featavg.nets.ideal import feature_averaging, feature_decoupling
    >>> task = MultiCluster(k=10, d=100)
    >>> averaging_index(feature_averaging(task), task).mean
    1.0
    >>> averaging_index(feature_decoupling(task), task).mean
    0.0
    """
    return averaging_index_of(net, task.features_in(net.dimension), task.cluster_labels)


def averaging_index_of(
    net: TwoLayer, features: Float[ndarray, "k N"], labels: Int[ndarray, " k"]
) -> AveragingIndex:
    """The averaging index for features that were measured rather than stated."""
    signs = neuron_signs(net) if net.outputs == 1 else _group_signs(net, labels)
    alignment = cosine_matrix(features, net.weights)
    index = np.full(net.weights.shape[:-1], np.nan)
    nulls = []
    for sign in (1, -1):
        clusters, neurons = np.flatnonzero(labels == sign), np.flatnonzero(signs == sign)
        if len(clusters) < 2:
            continue
        own = np.swapaxes(alignment[..., clusters, :][..., neurons], -1, -2)
        index[..., neurons] = participation(own)
        nulls += [_random_index(features[clusters])] * len(neurons)
    if not nulls:
        return AveragingIndex(index, float("nan"), float("nan"))
    return AveragingIndex(index, float(np.nanmean(index)), float(np.mean(nulls)))


def participation(alignments: Float[ndarray, "*s j"]) -> PerSeed:
    """(PR - 1) / (j - 1) of j alignments; a neuron that meets no feature is a single nothing, 0."""
    squares = alignments**2
    fourth = (squares**2).sum(axis=-1)
    total = squares.sum(axis=-1) ** 2
    ratio = np.divide(total, fourth, out=np.ones_like(total), where=fourth > 0)
    return (ratio - 1.0) / (alignments.shape[-1] - 1)


def _group_signs(net: TwoLayer, labels: Int[ndarray, " k"]) -> Int[ndarray, " M"]:
    head = net.head[(0,) * len(net.batch)]
    if len(head) != len(labels):
        raise InputError("net", f"has {len(head)} outputs", f"there are {len(labels)} features")
    return np.asarray(labels[np.argmax(head != 0, axis=0)])


def _random_index(features: Float[ndarray, "j N"], draws: int = 20_000) -> float:
    """The index that a direction without any preference has, by a fixed sample."""
    gram = unit(features) @ unit(features).T
    values, vectors = np.linalg.eigh(gram)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    normal = stream(0, "averaging-index-null").standard_normal((draws, len(features)))
    return float(participation(normal @ root.T).mean())
