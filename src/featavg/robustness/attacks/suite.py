"""One call: the worst case over a set of attacks, a radius and a witness for every point.

To add an attack, write a file with a subclass of `Attack` and a line in `ATTACKS`: its name is
then known to `attack_suite`, to error messages, and, if `default` says so, part of every suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.errors import InputError, one_of, whole
from featavg.progress import Progress, part
from featavg.registry import Registry
from featavg.robustness.attacks.attack import (
    NOT_FOUND,
    Attack,
    AttackEnd,
    AttackProblem,
    AttackResult,
    FeatureDirections,
    gradient_is_dead,
    nearer,
)
from featavg.robustness.attacks.directions import weight_features
from featavg.robustness.attacks.foolbox_bridge import PREFIX, Foolbox
from featavg.robustness.attacks.line_search import confirmed, shorten
from featavg.robustness.geometry.subspace import Span, span_of
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import NORMS
from featavg.robustness.models.torch_model import TorchModel

# In the order in which they run.
ATTACKS = Registry(
    "attacks",
    "robustness/attacks",
    {
        "multi-start-ddn": "multi_start_ddn",
        "ddn": "ddn",
        "deepfool": "deepfool",
        "directions": "directions",
        "fmn": "ddn",
        "pgd": "pgd",
        "apgd": "pgd",
        "random-starts": "directions",
        "polish": "polish",
    },
    scanned=False,
)


@public
def attack_suite(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    norm: str = "l2",
    attacks: str | Attack | Sequence[str | Attack] | None = None,
    features: FeatureDirections | None = None,
    budget: Count = 120,
    seed: Seed = 0,
    progress: Progress | None = None,
) -> AttackResult:
    """The smallest radius any of the attacks finds, for every point.

    Every attack sees the same decision. A radius is an upper bound on the truth; where exact radii
    exist, they say how far below it the truth is.

    Args:
        model: `network_model(...)` or `torch_model(...)`.
        x: points, one per row, or images.
        y: labels: -1 and +1, or class numbers if the model was wrapped with `groups`.
        norm: "l2" or "linf".
        attacks: names ("ddn", "deepfool", ..., "foolbox:<class name>") or objects such as
            DDN(steps=400), of featavg or of your own; by default all usual ones that apply.
        features: for "directions", and as starts for "pgd"; a two-layer network has its own.
        budget: gradients per point for an attack that does not state its own.
        seed: for random starts.
        progress: called with the share done and what is being done, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> result = fa.attack_suite(fa.network_model(fa.binary(np.eye(2))), np.array([[3.0, 1.0]]), [1])
    >>> result.radii.round(6), result.unit
    (array([1.414214]), 'l2, raw')
    """
    one_of("norm", norm, NORMS)
    whole("budget", budget, least=1)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    points, label = model.rows(x), model.decision.labels(y)
    if len(points) != len(label):
        raise InputError("y", f"has {len(label)} labels for {len(points)} points", "give one each")
    chosen = chosen_attacks(attacks, model, norm, features)
    before = model.cost.gradients, model.cost.evaluations
    right = np.flatnonzero(model.decision.margins(model.outputs(points), label) > 0)
    radii, witness = np.zeros(len(points)), points.astype(float)
    winners = ["misclassified"] * len(points)
    if len(right):
        some = points[right], label[right]
        margin = model.margins(*some)
        problem = AttackProblem(model, *some, margin, norm, features, budget, seed)
        end, names = _run(problem, chosen, progress)
        if not end.flipped.any():
            _refuse_if_nothing_moves(problem)
        radii[right] = end.radii(points[right], norm)
        witness[right] = np.where(end.flipped[:, None], end.point, np.nan)
        for row, name, hit in zip(right, names, end.flipped, strict=True):
            winners[row] = name if hit else NOT_FOUND
    return AttackResult(
        radii,
        witness,
        winners,
        norm,
        model.unit(norm),
        tuple(str(attack) for attack in chosen),
        (model.cost.gradients - before[0]) / len(points),
        (model.cost.evaluations - before[1]) / len(points),
    )


def _run(problem: AttackProblem, attacks: tuple[Attack, ...], progress: Progress | None) -> tuple[AttackEnd, list[str]]:
    """All attacks: the nearest end of each point, and whose it is."""
    inner, span = _in_span(problem)
    names = [""] * len(inner.x)
    best = AttackEnd.nothing(inner.x)
    costs = [attack.expected_gradients(problem.budget) for attack in attacks]
    ends_at = np.cumsum(costs) / max(sum(costs), 1e-300)
    for attack, start, stop in zip(attacks, [0.0, *ends_at], ends_at, strict=False):
        step = _named_progress(part(progress, float(start), float(stop)), str(attack))
        step(0.0, "")
        end = shorten(inner, attack(replace(inner, progress=step)), insist=True)
        closer = end.radii(inner.x, inner.norm) < best.radii(inner.x, inner.norm)
        best = nearer(inner.x, best, end, inner.norm)
        names = [str(attack) if c else name for c, name in zip(closer, names, strict=True)]
        inner = replace(inner, ends=(*inner.ends, end))
    if span is not None:
        best = AttackEnd(span.back(problem.x, inner.x, best.point), best.flipped)
    return confirmed(problem, best), names


def _named_progress(progress: Progress, name: str) -> Progress:
    """Notes that begin with the name of the attack."""
    return lambda share, note: progress(share, f"{name}: {note}" if note else name)


def _in_span(problem: AttackProblem) -> tuple[AttackProblem, Span | None]:
    """The same problem in the span of the weights, where that loses nothing; features known."""
    model, x, features = problem.model, problem.x, problem.features
    if not isinstance(model, TwoLayerModel):
        return problem, None
    features = weight_features(model) if features is None else features
    if problem.norm != "l2" or model.bounds is not None:
        return replace(problem, features=features), None
    span = span_of(model)
    inside = span.into(x)
    if inside.shape[1] == 0:  # all weights are zero
        _refuse_if_nothing_moves(problem)
    margin = span.model.margins(inside, problem.label)
    features = features.mapped(span.into)
    return replace(problem, model=span.model, x=inside, margin=margin, features=features), span


def _refuse_if_nothing_moves(problem: AttackProblem) -> None:
    """An error where nothing flipped and every gradient is zero: no attack could have moved."""
    if gradient_is_dead(problem).all():
        raise InputError(
            "model",
            "has a zero gradient at every point",
            "its outputs do not depend on the input: check that it is differentiable and trained",
        )


def chosen_attacks(
    attacks: str | Attack | Sequence[str | Attack] | None,
    model: Model,
    norm: str,
    features: FeatureDirections | None = None,
) -> tuple[Attack, ...]:
    """The attacks to run, those that refine others last; one that does not apply is refused.

    Args:
        attacks: names, objects, or both; None for all that are usual and apply.
    """
    if attacks is None:
        known = [ATTACKS.build(name) for name in ATTACKS]
        usual = [attack for attack in known if attack.default and attack.usual_for(model)]
        return tuple(attack for attack in usual if attack.applies_to(model, norm, features))
    if isinstance(attacks, str | Attack):
        attacks = [attacks]
    if len(attacks) == 0:
        raise InputError("attacks", "are empty", f"choose from {', '.join(ATTACKS)}")
    chosen = [_named(item) if isinstance(item, str) else item for item in attacks]
    for attack in chosen:
        if not isinstance(attack, Attack):
            raise InputError(
                "attacks",
                f"hold a {type(attack).__name__}",
                "give names, or objects of a class derived from featavg.attacks.Attack",
            )
        obstacle = attack.obstacle(model, norm, features)
        if obstacle is not None:
            raise obstacle
    return tuple(sorted(chosen, key=lambda attack: attack.refines))


def _named(name: str) -> Attack:
    if name.startswith(PREFIX):
        return Foolbox(name.removeprefix(PREFIX))
    if name.partition(":")[0] not in ATTACKS:
        one_of("attacks", name, (*ATTACKS, f"{PREFIX}<class name>"))
    return ATTACKS.build(name)
