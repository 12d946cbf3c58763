"""Our minimal-norm attack beside foolbox's DDN and PGD, on the same images of the same network.

foolbox gets the network as a torch module and none of our code, so that it is an outside opinion:
gradients, norms and bounds are its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from featavg.data.images import ImageTask
from featavg.experiments.images.curves import minimal, sample, wrapped
from featavg.nets.torch.inference import frozen

PGD_STEPS = 40
# Radii for PGD, as shares of our median.
SHARES = (0.6, 1.0, 1.4)


class CoarseScores(nn.Module):
    """log sum exp of the outputs of each coarse class: the decision of the read-out `probability`."""

    def __init__(self, net: nn.Module, groups: ndarray) -> None:
        super().__init__()
        self.net = net
        self.members = [torch.from_numpy(np.flatnonzero(groups == g)) for g in np.unique(groups)]

    def forward(self, x: Tensor) -> Tensor:
        """One score for each coarse class."""
        outputs = self.net(x)
        return torch.stack([outputs[:, rows].logsumexp(1) for rows in self.members], 1)


def against_foolbox(
    net: nn.Module, task: ImageTask, labels: str, images: int, budget: int
) -> dict[str, Any]:
    """Radii of ours and of foolbox's DDN with as many steps, and PGD's robust accuracy; l2.

    Returns:
        plain values; radii are 0 where the decision is wrong anyway, and points of percent are
        those of the robust-accuracy curve.
    """
    from foolbox.attacks.ddn import DDNAttack
    from foolbox.attacks.projected_gradient_descent import L2ProjectedGradientDescentAttack
    from foolbox.models.pytorch import PyTorchModel

    rows = sample(task, images, seed=0)
    pixels, y = task.test.unit[rows], task.targets(task.test, "coarse")[rows]
    model = wrapped(net, task, labels, "probability").shaped(pixels)
    ours = minimal(model, pixels, y, "l2", budget)
    groups = np.arange(task.coarse) if labels == "coarse" else task.groups
    scores = CoarseScores(frozen(net), groups).eval()
    bounded = PyTorchModel(scores, bounds=(0, 1), device="cpu")
    x, target = torch.from_numpy(pixels), torch.from_numpy(np.asarray(y))

    def flips(points: Tensor) -> ndarray:
        with torch.no_grad():
            found: ndarray = (scores(points).argmax(1) != target).numpy()
        return found

    wrong = flips(x)
    _, points, _ = DDNAttack(steps=budget)(bounded, x, target, epsilons=None)
    moved = (points - x).flatten(1).norm(dim=1).numpy()
    theirs = np.where(wrong, 0.0, np.where(flips(points), moved, np.inf))
    radii = [float(share * np.median(ours)) for share in SHARES]
    pgd = []
    for radius in radii:
        attack = L2ProjectedGradientDescentAttack(steps=PGD_STEPS)
        _, points, _ = attack(bounded, x, target, epsilons=radius)
        pgd.append(100 * float(np.mean(~wrong & ~flips(points))))
    return summarise(ours, theirs, radii, pgd)


def summarise(
    ours: ndarray, theirs: ndarray, radii: list[float], pgd: list[float]
) -> dict[str, Any]:
    """Both attacks in numbers, from the radius of each image.

    >>> made = summarise(np.array([1.0, 2.0]), np.array([1.0, 4.0]), [1.5], [50.0])
    >>> made["mean_ratio"], made["excess_points"], made["longer"], made["pgd_excess_points"]
    (0.75, 0.0, 0.0, 0.0)
    """
    both = np.isfinite(ours) & np.isfinite(theirs) & (theirs > 0)
    grid = np.unique(np.concatenate([ours, theirs]))
    grid = grid[np.isfinite(grid)]
    excess = max(float(np.mean(ours > r) - np.mean(theirs > r)) for r in grid)
    shares = [100 * float(np.mean(ours > r)) for r in radii]
    return {
        "images": len(ours),
        "median": float(np.median(ours)),
        "median_foolbox": float(np.median(theirs)),
        "mean_ratio": float(np.mean(ours[both] / theirs[both])),
        "longer": float(np.mean(ours > 1.01 * theirs)),
        "shorter": float(np.mean(theirs > 1.01 * ours)),
        "excess_points": 100 * excess,
        "pgd_radii": radii,
        "pgd_foolbox": pgd,
        "pgd_ours": shares,
        "pgd_excess_points": max(a - b for a, b in zip(shares, pgd, strict=True)),
    }
