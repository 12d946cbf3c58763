"""What every network of the simulator offers to training, measures and files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError
from featavg.registry import NETWORKS

N = TypeVar("N")


@runtime_checkable
class Network(Protocol):
    """Arrays with names, and how they become outputs; leading axes are independent networks."""

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: () for one network."""

    def __call__(self, x: Float[ndarray, "..."]) -> Float[ndarray, "..."]:
        """The outputs at every point."""

    def __getitem__(self, index: int) -> Any:
        """One network of a batch."""

    def arrays(self) -> dict[str, ndarray]:
        """Weights and biases by name."""

    def with_arrays(self, arrays: Mapping[str, ndarray]) -> Any:
        """The same kind of network with some arrays replaced."""

    def structure(self) -> dict[str, Any]:
        """All but the arrays, as plain values; `kind` is a key of `NETWORKS`."""


def check_finite(arrays: Mapping[str, ndarray]) -> None:
    """Refuse weights that are not numbers."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise InputError(name, "hold NaN or infinite values", "give finite ones")


def one_network(net: Network) -> None:
    """Refuse a batch of networks, and one that has diverged in training."""
    if net.batch:
        raise InputError("net", "is a batch of networks", "pick one of them by index")
    check_finite(net.arrays())


def unchecked(kind: type[N], fields: Mapping[str, Any]) -> N:
    """A network made of fields that need no checks."""
    net = object.__new__(kind)
    net.__dict__.update(fields)
    return net


def network_of(structure: Mapping[str, Any], arrays: Mapping[str, ndarray]) -> Network:
    """The network that has this structure and these arrays: the inverse of its two methods.

    >>> from featavg.nets.deep import Deep
    >>> net = Deep((np.eye(2), np.ones((1, 2))), activation="leaky-relu:leak=0.5")
    >>> network_of(net.structure(), net.arrays())(np.array([[1.0, -1.0]]))
    array([[0.5]])
    """
    options = dict(structure)
    return NETWORKS[options.pop("kind", "")].from_arrays(arrays, **options)
