"""Perturbations along a subspace and out of it: where is the boundary near?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.result import Radii
from featavg.robustness.radii import radii


@dataclass(frozen=True, eq=False)
class Split:
    """Exact minimal perturbations and the distance to the boundary inside and outside a subspace.

    Attributes:
        exact: the minimal perturbations in all directions.
        on, off: the shortest one inside the subspace and the shortest one orthogonal to it.
        off_share: |off-part|^2 / |perturbation|^2 of the exact ones; NaN for points decided wrongly.
    """

    exact: Radii
    on: Radii
    off: list[Radii]
    off_share: Float[ndarray, " n"]

    @property
    def off_radii(self) -> Float[ndarray, " n"]:
        """The distance to the boundary straight out of the subspace; infinite where there is none."""
        return np.array([float(one.attack[0]) for one in self.off])


def split(
    net: TwoLayer,
    x: Float[ndarray, "n N"],
    y: Int[ndarray, " n"],
    basis: Float[ndarray, "N r"],
    readout: str = "max",
    positive: Bool[ndarray, " c"] | None = None,
) -> Split:
    """Exact radii in all directions, inside the span of `basis`, and orthogonal to it.

    A network on x + B z is a network of z with weights W B and biases b + W x: the same exact search
    answers all three questions.

    Args:
        basis: orthonormal columns.
        readout, positive: see `featavg.robustness.radii.radii`.

    >>> net = TwoLayer(np.array([[1.0, 2.0], [-1.0, 0.0]]), np.zeros(2), np.array([[1.0, -1.0]]))
    >>> found = split(net, np.array([[2.0, 0.0]]), np.array([1]), np.array([[1.0], [0.0]]))
    >>> [round(float(v), 3) for v in (found.exact.attack[0], found.on.attack[0], found.off_radii[0])]
    [0.894, 2.0, 1.0]
    """
    exact = radii(net, x, y, readout=readout, positive=positive, jobs=1)
    outside = outside_frame(net, basis)
    on = Radii.joined(
        [
            _along(net, one, int(label), basis, readout, positive)
            for one, label in zip(x, y, strict=True)
        ]
    )
    off = [
        _along(net, one, int(label), outside, readout, positive)
        for one, label in zip(x, y, strict=True)
    ]
    moved = exact.witness - x
    total = np.sum(moved**2, axis=1)
    inside = np.sum((moved @ basis) ** 2, axis=1)
    share = np.full(len(x), np.nan)
    known = total > 0
    share[known] = np.clip(1.0 - inside[known] / total[known], 0.0, 1.0)
    return Split(exact, on, off, share)


def outside_frame(net: TwoLayer, basis: Float[ndarray, "N r"]) -> Float[ndarray, "N m"]:
    """Orthonormal directions orthogonal to `basis` that span what the neurons have there."""
    rest = net.weights - (net.weights @ basis) @ basis.T
    _, sizes, rows = np.linalg.svd(rest, full_matrices=False)
    kept = sizes > 1e-12 * max(float(np.linalg.norm(net.weights)), 1e-300)
    return np.asarray(rows[kept].T)


def _along(
    net: TwoLayer,
    x: Float[ndarray, " N"],
    y: int,
    directions: Float[ndarray, "N m"],
    readout: str,
    positive: Bool[ndarray, " c"] | None,
) -> Radii:
    """The radius of one point when it may move along `directions` only."""
    seen = TwoLayer(net.weights @ directions, net.biases + net.weights @ x, net.head)
    origin, label = np.zeros((1, directions.shape[1])), np.array([y])
    return radii(seen, origin, label, readout=readout, positive=positive, jobs=1)
