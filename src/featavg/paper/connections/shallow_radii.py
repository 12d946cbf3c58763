"""Robust radii of shallow power-ReLU networks: an attack above, a certificate below.

No exact search exists for relu^p. The certificate goes through a limit F that the network is near:
if |c f - F| <= e on the unit sphere then c f >= F - e |x|^p everywhere, and F can be bounded below
on a ball in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.paper.connections.power_relu import Shallow
from featavg.robustness.attacks.attack import FeatureDirections
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Covector, Model

Points: TypeAlias = Float[ndarray, "n N"]
Labels: TypeAlias = Int[ndarray, " n"]
Features: TypeAlias = Float[ndarray, "k N"]
Signs: TypeAlias = Int[ndarray, " k"]
Distances: TypeAlias = Float[ndarray, " n"]


@dataclass(frozen=True, eq=False)
class ShallowModel(Model):
    """A shallow network for the attacks; the sign of its output decides."""

    net: Shallow = field(kw_only=True)

    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n 1"]:
        return self.net(x)[:, None]

    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n 1"], Float[ndarray, "n D"]]:
        outputs = self.net(x)[:, None]
        return outputs, covector(outputs, slice(None)) * self.net.gradient(x)


def attacked_radii(
    net: Shallow, x: Points, y: Labels, features: Features, labels: Signs, budget: int = 60
) -> Distances:
    """The smallest perturbation that any attack finds (l2, in the units of x): an upper bound.

    Works in the span of weights and features, where nothing that matters to the network is lost.
    """
    rows = np.concatenate([net.directions, features])
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > 1e-12 * sizes[0]]
    inside = Shallow(net.weights @ basis.T, net.head, net.activation)
    aims = FeatureDirections(features @ basis.T, (labels > 0).astype(int))
    attacked = attack_suite(
        ShallowModel(Decision.of(), None, "raw", net=inside),
        x @ basis.T,
        y,
        features=aims,
        budget=budget,
        attacks=("ddn", "deepfool", "directions"),
    )
    return attacked.radii


def certified_near_average(
    x: Points, y: Labels, features: Features, labels: Signs, error: float
) -> Distances:
    """No closer point is flipped by any f with |c f - F| <= error |x|, F the averaged limit.

    With s_+ and s_- the sums of features of the own and the other class, y F(x + u) is at least the
    smaller of <s_+, x + u> and <s_+ - s_-, x + u>; on a ball of radius r each loses r |s| at most.
    """
    sums = {s: features[labels == s].sum(axis=0) for s in (1, -1)}
    own = np.where((y > 0)[:, None], sums[1], sums[-1])
    other = np.where((y > 0)[:, None], sums[-1], sums[1])
    size = error * np.linalg.norm(x, axis=1)
    ends = [
        (np.einsum("nd,nd->n", rows, x) - size) / (np.linalg.norm(rows, axis=1) + error)
        for rows in (own, own - other)
    ]
    return np.asarray(np.maximum(np.minimum(*ends), 0.0))


def certified_near_decoupled(
    x: Points, y: Labels, features: Features, labels: Signs, p: float, error: float
) -> Distances:
    """The same for F^(p) with orthonormal features and p >= 2.

    A step of length r takes at most r cos(t) from the own cluster's feature and adds at most
    r sin(t) to the length of the other class's part b, and sum relu(z)^p <= |relu(z)|^p, so

        y F^(p)(x + u) >= (z_own - r cos t)^p - (b + r sin t)^p  for some t in [0, pi/2].

    All t are covered by a grid: between two angles the first term is taken at the smaller one and
    the second at the larger one, where each is worst.
    """
    z = x @ features.T
    mine = labels[None, :] == y[:, None]
    own = np.where(mine, z, -np.inf).max(axis=1)
    rivals = np.linalg.norm(np.where(mine, 0.0, np.maximum(z, 0.0)), axis=1)
    size = np.linalg.norm(x, axis=1)
    grid = np.linspace(0.0, np.pi / 2, 401)
    low, high = np.zeros(len(x)), np.maximum(own, 0.0)
    for _ in range(50):
        r = (low + high) / 2
        keeps = np.maximum(own[:, None] - r[:, None] * np.cos(grid[None, :-1]), 0.0) ** p
        gains = (rivals[:, None] + r[:, None] * np.sin(grid[None, 1:])) ** p
        safe = (keeps - gains).min(axis=1) > error * (size + r) ** p
        low, high = np.where(safe, r, low), np.where(safe, high, r)
    return low
