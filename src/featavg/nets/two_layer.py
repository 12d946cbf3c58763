"""The two-layer ReLU network: one class for every network of the theory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.kinds import Count
from featavg.boundary.public import check_fields, public
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.network import check_finite, unchecked


@dataclass(frozen=True, eq=False, repr=False)
class TwoLayer:
    r"""M neurons and c outputs, F(x) = head @ relu(weights @ x + biases).

    The binary network has one output and a head of +1/m and -1/m (Definition 2.2); the grouped
    network has one output for each cluster, and output j averages the h neurons of group j. Leading
    axes `*s`, if any, are independent networks of the same shape, one for each seed.

    Attributes:
        weights: the rows are w_r.
        biases: b_r.
        head: the second layer.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> net(np.array([[3.0, 1.0]]))
    array([[2.]])
    """

    weights: Float[ndarray, "*s M N"]
    biases: Float[ndarray, "*s M"]
    head: Float[ndarray, "*s c M"]
    name: ClassVar[str] = "two-layer"

    def __post_init__(self) -> None:
        check_fields(self)
        *batch, neurons, _ = self.weights.shape
        if self.biases.shape != (*batch, neurons):
            raise InputError("biases", f"have shape {self.biases.shape}", "give one per neuron")
        if self.head.shape[:-2] != tuple(batch) or self.head.shape[-1] != neurons:
            raise InputError("head", f"has shape {self.head.shape}", "give outputs x neurons")
        check_finite(self.arrays())

    def __repr__(self) -> str:
        seeds = f", seeds={self.batch}" if self.batch else ""
        return f"TwoLayer(neurons={self.neurons}, dimension={self.dimension}, outputs={self.outputs}{seeds})"

    @property
    def neurons(self) -> int:
        """M, the number of hidden neurons."""
        return self.weights.shape[-2]

    @property
    def dimension(self) -> int:
        """N, the number of input coordinates."""
        return self.weights.shape[-1]

    @property
    def outputs(self) -> int:
        """c, the number of outputs."""
        return self.head.shape[-2]

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: () for one network."""
        return self.weights.shape[:-2]

    def preactivations(self, x: Float[ndarray, "... n N"]) -> Float[ndarray, "... n M"]:
        """<w_r, x> + b_r."""
        # With few neurons, W X^T reads X up to twice as fast as X W^T does: BLAS packs the thin side.
        return (self.weights @ np.asarray(x).swapaxes(-1, -2)).swapaxes(-1, -2) + self.biases[..., None, :]

    def __call__(self, x: Float[ndarray, "... n N"]) -> Float[ndarray, "... n c"]:
        """The outputs; points without the batch's axes are shown to every network."""
        active = np.maximum(self.preactivations(x), 0.0)
        return active @ self.head.swapaxes(-1, -2)

    def __getitem__(self, index: int) -> TwoLayer:
        """One network of a batch."""
        return self.with_arrays({name: array[index] for name, array in self.arrays().items()})

    def arrays(self) -> dict[str, ndarray]:
        """Weights, biases and head by name."""
        return {"weights": self.weights, "biases": self.biases, "head": self.head}

    def with_arrays(self, arrays: Mapping[str, ndarray]) -> TwoLayer:
        """The network with some of its arrays replaced.

        Unchecked, for training: a run that diverged has weights that are not finite, and its network
        must be there to be looked at.
        """
        return unchecked(TwoLayer, self.arrays() | dict(arrays))

    def structure(self) -> dict[str, Any]:
        """All but the arrays: the kind."""
        return {"kind": self.name}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ndarray]) -> TwoLayer:
        """The inverse of `arrays`."""
        return cls(**arrays)


def binary_head(m: int) -> Float[ndarray, "1 M"]:
    """+1/m for the first m neurons and -1/m for the last m."""
    return np.repeat([1.0 / m, -1.0 / m], m)[None, :]


@public
def binary(weights: Float[ndarray, "*s M N"], biases: Float[ndarray, "*s M"] | None = None) -> TwoLayer:
    """The network of Definition 2.2 with m = M/2 neurons per class.

    f(x) = 1/m sum_{r <= m} relu(<w_r, x> + b_r) - 1/m sum_{r > m} relu(<w_r, x> + b_r).

    Args:
        weights: w_1, ..., w_M, the m of class +1 first; leading axes are independent networks.
        biases: b_r, none unless given.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> net(np.array([[3.0, 1.0]]))
    array([[2.]])
    """
    *batch, neurons, _ = weights.shape
    if neurons < 2 or neurons % 2:
        raise InputError("weights", f"hold {neurons} neurons", "give m for each of the two classes")
    if biases is None:
        biases = np.zeros((*batch, neurons))
    head = np.broadcast_to(binary_head(neurons // 2), (*batch, 1, neurons)).copy()
    return TwoLayer(weights, biases, head)


def grouped_head(k: int, h: int) -> Float[ndarray, "k M"]:
    """Output j averages the h neurons of group j.

    >>> grouped_head(2, 2)
    array([[0.5, 0.5, 0. , 0. ],
           [0. , 0. , 0.5, 0.5]])
    """
    return np.kron(np.eye(k), np.full((1, h), 1.0 / h))


@public
def grouped(weights: Float[ndarray, "*s M N"], k: Count) -> TwoLayer:
    """f_j(x) = 1/h sum_r relu(<w_{j,r}, x>), j = 1..k: no biases, groups one after another.

    Args:
        weights: one row for each neuron, the h of the first group first; leading axes are
            independent networks.
        k: groups, one for each output; h = M/k.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.grouped(np.eye(3), k=3)
    >>> net(np.array([[0.0, 2.0, 1.0]]))
    array([[0., 2., 1.]])
    """
    *batch, neurons, _ = weights.shape
    if k < 1 or neurons % k or neurons < k:
        raise InputError("weights", f"hold {neurons} neurons", f"give the same number for each of {k} groups")
    head = np.broadcast_to(grouped_head(k, neurons // k), (*batch, k, neurons)).copy()
    return TwoLayer(weights, np.zeros((*batch, neurons)), head)


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
def biased_robust(task: MultiCluster, threshold: float = 0.5, dimension: int | None = None) -> TwoLayer:
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
