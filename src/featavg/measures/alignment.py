"""What the weights point at: equivalent weights and their cosines with the features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer


def neuron_signs(net: TwoLayer) -> Int[ndarray, " M"]:
    """The class that each neuron of a binary network speaks for."""
    head = net.head[(0,) * len(net.batch)]
    if head.shape[0] != 1:
        raise InputError("net", f"has {head.shape[0]} outputs", "a binary network has one")
    return np.where(head[0] >= 0, 1, -1)


def require_size(net: TwoLayer, task: MultiCluster) -> None:
    """Refuse a network that cannot belong to the task: other outputs, or more inputs than d."""
    if net.outputs not in (1, task.k):
        raise InputError("task", f"has {task.k} clusters", f"the network has {net.outputs} outputs")
    if net.dimension > task.d:
        problem = f"has d = {task.d}"
        raise InputError("task", problem, f"the network reads {net.dimension} coordinates")


def neuron_groups(net: TwoLayer, labels: Int[ndarray, " k"]) -> list[ndarray]:
    """The neurons behind each of the k equivalent weights.

    A grouped network has them by construction. The m neurons of a class of a binary network are
    divided equally among the clusters of that class, so that both kinds can be laid side by side;
    with fewer neurons than clusters, clusters share them in turn.
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
        shares = np.array_split(neurons, len(clusters))
        if len(neurons) < len(clusters):
            shares = [neurons[i % len(neurons)][None] for i in range(len(clusters))]
        for cluster, share in zip(clusters, shares, strict=True):
            groups[cluster] = share
    return groups


def equivalent_weights(net: TwoLayer, labels: Int[ndarray, " k"]) -> Float[ndarray, "*s k N"]:
    """w_j = 1/h sum_r w_{j,r}: the mean weight vector of each sub-network.

    Args:
        net: a network with one output or with one for each cluster, or a batch.
        labels: the class of each cluster, +1 or -1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.grouped(np.arange(8.0).reshape(4, 2), k=2)
    >>> equivalent_weights(net, np.array([1, -1]))
    array([[1., 2.],
           [5., 6.]])
    """
    groups = neuron_groups(net, labels)
    return np.stack([net.weights[..., group, :].mean(axis=-2) for group in groups], axis=-2)


@public
def cosines(net: TwoLayer, task: MultiCluster) -> Float[ndarray, "*s k k"]:
    """The matrix of Figure 2: entry (i, j) is cos(mu_i, w_j).

    Args:
        net: a network with one output or with one for each cluster, or a batch.
        task: the clusters that it was trained on.

    >>> import numpy as np
    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> np.round(fa.cosines(fa.feature_averaging(task), task)[0], 3)
    array([0.707, 0.707, 0.   , 0.   ])

    Raises:
        InputError: if the network cannot be one of this task (other outputs, other dimension).
    """
    require_size(net, task)
    weights = equivalent_weights(net, task.cluster_labels)
    return cosine_matrix(task.features_in(net.dimension), weights)


def cosine_matrix(rows: Float[ndarray, "a N"], columns: Float[ndarray, "*s b N"]) -> Float[ndarray, "*s a b"]:
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


def block_cosines(matrix: Float[ndarray, "*s k k"], labels: Int[ndarray, " k"], diagonal: bool = True) -> BlockCosines:
    """Mean entry of the class blocks and of the rest, the diagonal counted or not.

    Args:
        matrix: as `cosines` returns it.
        labels: the class of each cluster.
        diagonal: whether entries (j, j) count to their block.

    >>> import numpy as np
    >>> import featavg as fa
    >>> labels = np.array([1, 1, -1, -1])
    >>> block_cosines(np.where(np.equal.outer(labels, labels), 0.7, -0.1), labels)
    BlockCosines(same_class=0.7, other_class=-0.1)
    """
    same = labels[:, None] == labels[None, :]
    inside = same if diagonal else same & ~np.eye(len(labels), dtype=bool)
    within = matrix[..., inside].mean() if inside.any() else np.nan
    return BlockCosines(float(within), float(matrix[..., ~same].mean()))
