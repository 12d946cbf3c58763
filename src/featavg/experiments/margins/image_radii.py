"""Robust accuracy of a checkpoint of the margin network, by the minimal-norm l2 attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import Images
from featavg.nets.torch.margin_cnn import module_of
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model


def attack_radii(
    params: Mapping[str, ndarray], pictures: Images, budget: int = 60
) -> Float[ndarray, " n"]:
    """The l2 radius (pixels in [0,1]) that DDN finds for each picture; 0 where it is misclassified.

    The outputs of a network that was trained this long are in the hundreds; dividing them by their
    size changes no decision and keeps the attack's gradients alive.
    """
    import torch

    module = module_of(params)
    x = pictures.unit
    with torch.no_grad():
        size = float(module(torch.from_numpy(x)).abs().mean())

    class Scaled(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            scaled: torch.Tensor = module(batch) / size
            return scaled

    groups = np.arange(len(np.asarray(params["fc2.weight"])))
    model = torch_model(Scaled(), groups=groups, batch=100)
    found = attack_suite(model, x, pictures.fine, "l2", ("ddn",), budget=budget)
    return found.radii


def robust_accuracy(radii: Float[ndarray, " n"], at: Sequence[float]) -> Float[ndarray, " q"]:
    """The share of points whose radius is larger than each of `at`.

    >>> robust_accuracy(np.array([0.0, 1.0, 2.0, np.inf]), [0.0, 1.5]).tolist()
    [0.75, 0.5]
    """
    return np.array([float(np.mean(radii > r)) for r in at])
