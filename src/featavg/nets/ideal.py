"""Networks of the theory that are constructed, not trained: f_FA, f_FD, and f_FD with biases."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer


def _features(task: MultiCluster, dimension: int | None) -> Float[ndarray, "k N"]:
    # The features' own k coordinates are all these networks look at, unless they are turned.
    shortest = task.k if task.orientation == "axes" else task.d
    return task.features_in(shortest if dimension is None else dimension)


@public
def feature_averaging(task: MultiCluster, dimension: int | None = None) -> TwoLayer:
    """f_FA(x) = |J+| relu(<mu_+, x>) - |J-| relu(<mu_-, x>), mu_s the average feature of class s.

    Args:
        task: the clusters.
        dimension: how many coordinates the weights have; as few as hold the features unless given.

    >>> import featavg as fa
    >>> fa.feature_averaging(fa.MultiCluster(k=4, d=100)).weights
    array([[10., 10.,  0.,  0.],
           [ 0.,  0., 10., 10.]])
    """
    features = _features(task, dimension)
    sums = [features[task.class_clusters(sign)].sum(axis=0) for sign in (1, -1)]
    return TwoLayer(np.array(sums), np.zeros(2), np.array([[1.0, -1.0]]))


@public
def feature_decoupling(task: MultiCluster, dimension: int | None = None) -> TwoLayer:
    """f_FD(x) = sum_{J+} relu(<mu_j, x>) - sum_{J-} relu(<mu_j, x>): one neuron per cluster.

    Args:
        task: the clusters.
        dimension: how many coordinates the weights have; as few as hold the features unless given.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> net = fa.feature_decoupling(task)
    >>> fa.averaging_index(net, task).mean
    0.0
    """
    head = task.cluster_labels[None, :].astype(float)
    return TwoLayer(_features(task, dimension), np.zeros(task.k), head)


@public
def biased_robust(
    task: MultiCluster, threshold: float = 0.5, dimension: int | None = None
) -> TwoLayer:
    """f_FD with biases that filter noise: relu(<mu_j, x> - threshold * alpha * |mu_j|^2).

    A point of cluster i turns on its own neuron and no other until it has travelled `threshold` of
    the way towards another feature, whereas without biases any step towards it counts.

    Args:
        task: the clusters.
        threshold: share of a centre's own response below which a neuron stays off.
        dimension: how many coordinates the weights have; as few as hold the features unless given.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=100)
    >>> net = fa.biased_robust(task)
    >>> fa.accuracy(net, task.sample(200, seed=0)).value
    1.0
    """
    if not 0 < threshold < 1:
        raise InputError("threshold", f"is {threshold}", "give a share of the signal, in (0, 1)")
    biases = -threshold * task.alpha * np.diag(task.gram_matrix)
    head = task.cluster_labels[None, :].astype(float)
    return TwoLayer(_features(task, dimension), biases, head)
