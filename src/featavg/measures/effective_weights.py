r"""What a network of any depth has learned of each cluster: the gradient of its decision there.

For a two-layer network the weights of its neurons say what it looks for. A deeper one has no such
weights, but at every point it is affine, and its slope there is a weight vector: the effective weight
of cluster j is

    w_j = 1/n_j sum_{i in I_j} grad_x g_j(x_i),   g_j = y_j f for one output, g_j = f_j for k outputs.

On a two-layer network whose neurons are all active on their own class and on no other this is the
mean weight of the neurons of cluster j (of its class), which `featavg.measures.alignment` shows.
Nothing is lost by compression: gradients lie in the span of the first layer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster, Sample
from featavg.errors import InputError
from featavg.measures.alignment import cosine_matrix
from featavg.measures.averaging import AveragingIndex, averaging_index_of
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer


@public
def effective_weights(
    net: TwoLayer | Deep,
    x: Float[ndarray, "*s n N"],
    clusters: Int[ndarray, "*s n"],
    labels: Int[ndarray, " k"],
) -> Float[ndarray, "*t k N"]:
    """w_j, the mean gradient of the decision over the points of each cluster.

    Args:
        net: a network with one output or with k, or a batch.
        x: points; a batch may have its own for each network.
        clusters: of each point.
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
    return mean @ _first_layer(net)


def _first_layer(net: TwoLayer | Deep) -> ndarray:
    return net.weights if isinstance(net, TwoLayer) else net.weights[0]


def _first_layer_slopes(net: TwoLayer | Deep, x: ndarray, slopes: ndarray) -> ndarray:
    """d(sum_j slopes_j F_j) / dz by the pre-activations of the first layer at each point."""
    if isinstance(net, TwoLayer):
        return (slopes @ net.head) * (net.preactivations(x) >= 0.0)
    *_, (below, _) = net.backward(
        x, net.preactivations(x), np.broadcast_to(slopes, (*net.batch, *slopes.shape[-2:]))
    )
    return below


@public
def gradient_cosines(
    net: TwoLayer | Deep, task: MultiCluster, points: Sample
) -> Float[ndarray, "*s k k"]:
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
    x = points.coordinates(net.dimension)
    weights = effective_weights(net, x, points.clusters, task.cluster_labels)
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
    x = points.coordinates(net.dimension)
    weights = effective_weights(net, x, points.clusters, task.cluster_labels)
    return index_of(weights, task.features_in(net.dimension), task.cluster_labels)


def index_of(
    weights: Float[ndarray, "*s k N"],
    features: Float[ndarray, "k N"],
    labels: Int[ndarray, " k"],
) -> AveragingIndex:
    """The averaging index of weight vectors, one for each cluster, as if they were neurons."""
    head = np.broadcast_to(labels.astype(float), (*weights.shape[:-2], 1, len(labels)))
    neurons = TwoLayer(weights, np.zeros(weights.shape[:-1]), head)
    return averaging_index_of(neurons, features, labels)
