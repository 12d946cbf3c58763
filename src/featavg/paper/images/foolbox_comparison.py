"""Is our attack as strong as foolbox's and as APGD? Asked on one decision, with as many gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.errors import one_of
from featavg.paper.images.attack_comparison import AttackComparison, plain_radii, read_radii
from featavg.progress import Progress, part
from featavg.robustness.attacks.apgd import apgd
from featavg.robustness.attacks.attack import Attack, positive_whole
from featavg.robustness.attacks.foolbox_bridge import foolbox_attack
from featavg.robustness.attacks.multi_start_ddn import MultiStartDDN
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.model import Model
from featavg.robustness.models.norms import NORMS
from featavg.robustness.models.torch_model import TorchModel

# foolbox's minimal-norm attacks. Not its L2FMN: there the projection does nothing.
OPPONENTS = {
    "l2": ("DDNAttack", "L2DeepFoolAttack"),
    "linf": ("LInfFMNAttack", "LinfDeepFoolAttack"),
}
# Radii at which APGD is run, as shares of our median.
SHARES = (0.6, 1.0, 1.4)


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
) -> AttackComparison:
    """Attack the same points by ours, by foolbox's minimal-norm attacks, and by APGD at some radii.

    Everyone sees the decision of `model` and may take `budget` gradients per point; APGD may take as
    many at every radius. Points of foolbox are taken as they are, not shortened, only checked
    that they flip.

    Args:
        model: `network_model(...)` or `torch_model(...)`.
        x: points, one per row, or images.
        y: labels.
        norm: "l2" (against DDN and DeepFool) or "linf" (against FMN and DeepFool).
        ours: `MultiStartDDN()` unless given.
        network: what this is, for titles.
        foolbox: what `foolbox_radii` found on the same points, if that is known already.
        seed: of random starts.
        progress: called with the share done and a note.

    >>> import numpy as np
    >>> import featavg as fa  # long
    >>> net = fa.binary(np.random.default_rng(0).standard_normal((6, 8)))
    >>> x = np.random.default_rng(1).standard_normal((5, 8))
    >>> y = np.where(net(x)[:, 0] > 0, 1, -1)
    >>> fa.compare_attacks(fa.network_model(net), x, y, budget=20)
    network: 5 points, l2, raw, 20 gradients each
    ...
    """
    one_of("norm", norm, NORMS)
    positive_whole("budget", budget)
    tasks = 1 + len(OPPONENTS[norm]) + len(SHARES)
    stages = [part(progress, i / tasks, (i + 1) / tasks) for i in range(tasks)]
    result = attack_suite(
        model, x, y, norm, ours or MultiStartDDN(), budget=budget, seed=seed, progress=stages[0]
    )
    if foolbox is None:
        theirs = part(progress, 1 / tasks, 1 - len(SHARES) / tasks)
        foolbox = foolbox_radii(model, x, y, norm, budget, seed, theirs)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    rows = np.flatnonzero(result.radii > 0)
    points, label = model.rows(x)[rows], model.decision.labels(y)[rows]
    others = {name: read_radii(kept["radii"]) for name, kept in foolbox.items()}
    gradients = {name: kept["gradients"] for name, kept in foolbox.items()}
    finite = result.radii[np.isfinite(result.radii)]
    radii = tuple(float(share * np.median(finite)) for share in SHARES)
    accuracy = []
    for stage, radius in zip(stages[-len(SHARES) :], radii, strict=True):
        stage(0.0, f"{network}: APGD at {radius:.3g}")
        flipped = apgd(model, points, label, np.full(len(points), radius), norm, budget, seed=seed)
        accuracy.append(float(np.sum(~flipped.flipped)) / len(result))
    return AttackComparison(
        network,
        norm,
        model.unit(norm),
        budget,
        result.radii,
        others,
        {"ours": result.gradients} | gradients,
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
