"""Our attack beside foolbox's and APGD, on one decision, with as many gradients for everyone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import one_of, whole
from featavg.progress import Progress, part
from featavg.robustness.attacks.attack import Attack
from featavg.robustness.attacks.foolbox_bridge import foolbox_attack
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN
from featavg.robustness.attacks.pgd import apgd
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import NORMS
from featavg.robustness.models.torch_model import TorchModel

# foolbox's minimal-norm attacks. Not its L2FMN: there the projection does nothing.
OPPONENTS = {"l2": ("DDNAttack", "L2DeepFoolAttack"), "linf": ("LInfFMNAttack", "LinfDeepFoolAttack")}
# Radii at which APGD is run, as shares of our median.
SHARES = (0.6, 1.0, 1.4)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Radii of the same points: 0 where the decision is wrong anyway, infinite where no flip was found.

    Attributes:
        budget: gradients per point that every attack may spend; APGD at each radius.
        gradients: per point, really spent, by attack.
        apgd_accuracy: the share of points that stay right under APGD at each of `apgd_radii`.
    """

    network: str
    norm: str
    unit: str
    budget: int
    ours: Float[ndarray, " n"]
    others: Mapping[str, Float[ndarray, " n"]]
    gradients: Mapping[str, float]
    apgd_radii: tuple[float, ...] = ()
    apgd_accuracy: tuple[float, ...] = ()


def best_of_others(comparison: Comparison) -> Float[ndarray, " n"]:
    """Point by point, the smallest radius that any opponent found."""
    return np.min(list(comparison.others.values()), axis=0)


def strength(comparison: Comparison) -> dict[str, float]:
    """What a comparison comes down to.

    Returns:
        mean_ratio: ours over the best of the others, mean where both are finite and positive.
        longer, shorter: shares of points where ours is over 1% longer, or theirs.
        excess_points: the most that our robust accuracy is above that of all others together, over
            every radius where a curve steps; 0 or less is what a stronger attack has.
        apgd_excess_points: the same against APGD, at the radii where it was run.
    """
    ours, best = comparison.ours, best_of_others(comparison)
    both = np.isfinite(ours) & np.isfinite(best) & (best > 0)
    steps = np.unique(np.concatenate([ours, best]))
    excess = [np.mean(ours > r) - np.mean(best > r) for r in steps[np.isfinite(steps)]]
    apgd_excess = [
        np.mean(ours > r) - share for r, share in zip(comparison.apgd_radii, comparison.apgd_accuracy, strict=True)
    ]
    return {
        "mean_ratio": float(np.mean(ours[both] / best[both])),
        "longer": float(np.mean(ours > 1.01 * best)),
        "shorter": float(np.mean(best > 1.01 * ours)),
        "excess_points": 100 * float(np.max(excess, initial=-1.0)),
        "apgd_excess_points": 100 * float(np.max(apgd_excess, initial=-1.0)),
        "median": float(np.median(np.minimum(ours, 1e9))),
        "images": len(ours),
    }


def compare_attacks(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    norm: str = "l2",
    budget: int = 120,
    ours: Attack | None = None,
    network: str = "network",
    seed: int = 0,
    progress: Progress | None = None,
    foolbox: Mapping[str, Mapping[str, Any]] | None = None,
) -> Comparison:
    """Attacks the same points by ours, by foolbox's minimal-norm attacks, and by APGD at some radii.

    Everyone sees the decision of `model` and may take `budget` gradients per point; APGD may take as
    many at every radius. Points of foolbox are not shortened, only checked that they flip; `foolbox` is
    what `foolbox_radii` found on the same points, if that is known already.
    """
    one_of("norm", norm, NORMS)
    whole("budget", budget, least=1)
    tasks = 1 + len(OPPONENTS[norm]) + len(SHARES)
    stages = [part(progress, i / tasks, (i + 1) / tasks) for i in range(tasks)]
    result = attack_suite(model, x, y, norm, ours or MultiStartDDN(), budget=budget, seed=seed, progress=stages[0])
    if foolbox is None:
        theirs = part(progress, 1 / tasks, 1 - len(SHARES) / tasks)
        foolbox = foolbox_radii(model, x, y, norm, budget, seed, theirs)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    rows = np.flatnonzero(result.radii > 0)
    points, label = model.rows(x)[rows], model.decision.labels(y)[rows]
    finite = result.radii[np.isfinite(result.radii)]
    radii = tuple(float(share * np.median(finite)) for share in SHARES)
    accuracy = []
    for stage, radius in zip(stages[-len(SHARES) :], radii, strict=True):
        stage(0.0, f"{network}: APGD at {radius:.3g}")
        flipped = apgd(model, points, label, np.full(len(points), radius), norm, budget, seed=seed)
        accuracy.append(float(np.sum(~flipped.flipped)) / len(result))
    return Comparison(
        network,
        norm,
        model.unit(norm),
        budget,
        result.radii,
        {name: read_radii(kept["radii"]) for name, kept in foolbox.items()},
        {"ours": result.gradients} | {name: kept["gradients"] for name, kept in foolbox.items()},
        radii,
        tuple(accuracy),
    )


def foolbox_radii(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    norm: str = "l2",
    budget: int = 120,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, dict[str, Any]]:
    """Radii of the points by each of foolbox's attacks, and the gradients per point that it took.

    It does not depend on our attack, and may therefore be kept when that changes. -1 stands for a
    radius that was not found, 0 for a point that is decided wrongly without an attack.
    """
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    everything, labels = model.rows(x), model.decision.labels(y)
    rows = np.flatnonzero(model.margins(everything, labels) > 0)
    points, label = everything[rows], labels[rows]
    found = {}
    for i, name in enumerate(OPPONENTS[norm]):
        part(progress, i / len(OPPONENTS[norm]), 1.0)(0.0, f"foolbox's {name}")
        before = model.cost.gradients
        end = foolbox_attack(model, points, label, name, seed=seed, steps=budget)
        radii = np.zeros(len(everything))
        radii[rows] = end.radii(points, norm)
        spent = (model.cost.gradients - before) / max(len(points), 1)
        found[name] = {"radii": plain_radii(radii, digits=9), "gradients": spent}
    return found


def plain(comparison: Comparison) -> dict[str, Any]:
    """Plain values to keep; -1 stands for a radius that was not found."""
    return vars(comparison) | {
        "ours": plain_radii(comparison.ours),
        "others": {name: plain_radii(radii) for name, radii in comparison.others.items()},
    }


def read_comparison(kept: Mapping[str, Any]) -> Comparison:
    """The inverse of `plain`."""
    arrays = {
        "ours": read_radii(kept["ours"]),
        "others": {name: read_radii(values) for name, values in kept["others"].items()},
    }
    tuples = {name: tuple(kept[name]) for name in ("apgd_radii", "apgd_accuracy")}
    return Comparison(**{**kept, **arrays, **tuples})


def plain_radii(radii: Float[ndarray, " n"], digits: int = 5) -> list[float]:
    """To five digits, more than an attack can promise; -1 where no flip was found."""
    return [float(f"{r:.{digits}g}") if np.isfinite(r) else -1.0 for r in radii.tolist()]


def read_radii(values: Sequence[float]) -> Float[ndarray, " n"]:
    """The inverse of `plain_radii`."""
    given = np.asarray(values, dtype=float)
    return np.where(given < 0, np.inf, given)
