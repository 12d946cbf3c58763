"""The grouped network: k sub-networks of h neurons, one for each cluster."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.kinds import Count
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.nets.two_layer import TwoLayer


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
        raise InputError(
            "weights", f"hold {neurons} neurons", f"give the same number for each of {k} groups"
        )
    head = np.broadcast_to(grouped_head(k, neurons // k), (*batch, k, neurons)).copy()
    return TwoLayer(weights, np.zeros((*batch, neurons)), head)


def groups_of(net: TwoLayer) -> list[ndarray]:
    """The neurons that feed each output: an empty group is an error, a shared neuron too."""
    feeds = net.head != 0
    if net.batch:
        raise InputError("net", "is a batch of networks", "pick one of them by index")
    if np.any(feeds.sum(axis=0) > 1):
        raise InputError("net", "has a neuron that feeds two outputs", "give each group its own")
    if not np.all(feeds.any(axis=1)):
        raise InputError("net", "has an empty group", "give every output at least one neuron")
    return [np.flatnonzero(row) for row in feeds]
