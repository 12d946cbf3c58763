"""One call: the worst case over a set of attacks, a radius and a witness for every point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.errors import InputError, one_of
from featavg.robustness.attacks.ddn import Found, ddn
from featavg.robustness.attacks.deepfool import deepfool
from featavg.robustness.attacks.directions import (
    Features,
    along_directions,
    directions,
    weight_features,
)
from featavg.robustness.attacks.foolbox_bridge import PREFIX, foolbox_attack
from featavg.robustness.attacks.line_search import shorten
from featavg.robustness.attacks.pgd import minimal_pgd
from featavg.robustness.attacks.polish import polish
from featavg.robustness.attacks.result import AttackResult
from featavg.robustness.attacks.span import Span, span_of
from featavg.robustness.attacks.targeted_ddn import aimed_ddn, nearer, targets
from featavg.robustness.models.decision import ALL
from featavg.robustness.models.model import Model, TwoLayerModel
from featavg.robustness.models.norms import NORMS, length, to_box
from featavg.robustness.models.torch_model import TorchModel

ATTACKS = ("ddn", "deepfool", "directions", "pgd", "polish")


@dataclass
class _State:
    """The points still to be flipped, and the nearest flipped point of each so far."""

    model: Model
    x: Float[ndarray, "n D"]
    label: Int[ndarray, " n"]
    margin: Float[ndarray, " n"]
    norm: str
    best: Found
    names: list[str]
    starts: list[Found] = field(default_factory=list)

    @property
    def reached(self) -> Float[ndarray, " n"]:
        return np.where(self.best.flipped, length(self.best.point - self.x, self.norm), np.inf)

    def offer(self, name: str, found: Found) -> None:
        """Shorten what an attack found, and keep it where it is the nearest."""
        point, flipped = shorten(
            self.model, self.x, self.label, found.point, self.margin, insist=True
        )
        found = Found(point, flipped & found.flipped)
        self.starts.append(found)
        before = self.reached
        self.best = nearer(self.x, self.best, found, self.norm)
        better = self.reached < before
        self.names = [name if b else old for b, old in zip(better, self.names, strict=True)]


def attack_suite(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    norm: str = "l2",
    attacks: Sequence[str] | None = None,
    features: Features | None = None,
    budget: int = 120,
    seed: int = 0,
) -> AttackResult:
    """The smallest radius any of the attacks finds, for every point.

    Every attack sees the same decision. A radius is an upper bound on the truth; where exact radii
    exist, they say how far below it the truth is.

    Args:
        model: `network_model(...)` or `torch_model(...)`.
        x: points, one a row, or images.
        y: labels: -1 and +1, or class numbers if the model was wrapped with `groups`.
        norm: "l2" or "linf".
        attacks: names from ATTACKS, or "foolbox:<class name>". By default all that apply except
            "pgd": minimal-norm attacks find what it finds, for less.
        features: for "directions", and as starts for "pgd"; a two-layer network has its own.
        budget: gradient evaluations a point for "ddn".
        seed: for random starts.

    >>> from featavg.nets.two_layer import binary
    >>> from featavg.robustness.models.model import network_model
    >>> found = attack_suite(network_model(binary(np.eye(2))), np.array([[3.0, 1.0]]), [1])
    >>> found.radii.round(6), found.unit
    (array([1.414214]), 'l2, raw')
    """
    one_of("norm", norm, NORMS)
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    points, label = model.rows(x), model.decision.labels(y)
    if len(points) != len(label):
        raise InputError("y", f"has {len(label)} labels for {len(points)} points", "give one each")
    chosen = _chosen(model, attacks, features, norm)
    before = model.cost.gradients, model.cost.evaluations
    right = model.decision.margins(model.outputs(points), label) > 0
    radii, witness = np.zeros(len(points)), points.astype(float)
    names, stuck = ["misclassified"] * len(points), np.zeros(len(points), dtype=bool)
    rows = np.flatnonzero(right)
    if len(rows):
        found, won, dead = _run(
            model, points[rows], label[rows], norm, chosen, features, budget, seed
        )
        radii[rows] = np.where(found.flipped, length(found.point - points[rows], norm), np.inf)
        witness[rows] = np.where(found.flipped[:, None], found.point, np.nan)
        stuck[rows] = dead & ~found.flipped
        for row, name, hit in zip(rows, won, found.flipped, strict=True):
            names[row] = name if hit else "none"
    return AttackResult(
        radii,
        witness,
        names,
        stuck,
        norm,
        model.unit(norm),
        chosen,
        (model.cost.gradients - before[0]) / len(points),
        (model.cost.evaluations - before[1]) / len(points),
    )


def _chosen(
    model: Model, attacks: Sequence[str] | None, features: Features | None, norm: str
) -> tuple[str, ...]:
    """The attacks to run, polish last; a name that does not apply is refused."""
    two_layer = isinstance(model, TwoLayerModel)
    polishes = two_layer and (norm == "l2" or model.bounds is None)
    if attacks is None:
        able = {"directions": two_layer or features is not None, "pgd": False, "polish": polishes}
        return tuple(name for name in ATTACKS if able.get(name, True))
    if len(attacks) == 0:
        raise InputError("attacks", "are empty", f"choose from {', '.join(ATTACKS)}")
    for name in attacks:
        if not name.startswith(PREFIX):
            one_of("attacks", name, (*ATTACKS, f"{PREFIX}<class name>"))
    if "directions" in attacks and features is None and not two_layer:
        raise InputError("features", "are missing", 'give class means, or leave out "directions"')
    if "polish" in attacks and not polishes:
        raise InputError(
            "attacks", "name polish", "it is for two-layer networks; in l_inf, unbounded"
        )
    return tuple(sorted(attacks, key=lambda name: name == "polish"))


def _run(
    model: Model,
    x: Float[ndarray, "n D"],
    label: Int[ndarray, " n"],
    norm: str,
    attacks: tuple[str, ...],
    features: Features | None,
    budget: int,
    seed: int,
) -> tuple[Found, list[str], Bool[ndarray, " n"]]:
    """All attacks on points that are decided rightly."""
    span: Span | None = None
    inner, at = model, x
    if isinstance(model, TwoLayerModel):
        features = weight_features(model) if features is None else features
        if norm == "l2" and model.bounds is None:
            span = span_of(model)
            inner, at, features = span.model, span.into(x), span.features(features)
    dead = _dead(inner, at, label)
    nothing = Found(at.copy(), np.zeros(len(at), dtype=bool))
    state = _State(inner, at, label, inner.margins(at, label), norm, nothing, [""] * len(at))
    for name in attacks:
        _attack(state, name, features, budget, seed)
    best = state.best
    point = best.point if span is None else span.back(x, at, best.point)
    return _confirmed(model, x, label, Found(point, best.flipped)), state.names, dead


def _attack(state: _State, name: str, features: Features | None, budget: int, seed: int) -> None:
    model, x, label, norm = state.model, state.x, state.label, state.norm
    every = np.full(len(x), ALL)
    if name == "ddn":
        state.offer(name, aimed_ddn(model, x, label, state.margin, norm, budget))
    elif name == "deepfool":
        state.offer(name, deepfool(model, x, label, every, norm))
    elif name == "directions":
        assert features is not None
        found, _ = along_directions(model, x, label, state.margin, features, norm)
        state.offer(name, found)
        rows = np.flatnonzero(found.flipped)
        if len(rows):
            begin = found.point[rows] - x[rows]
            near = ddn(model, x[rows], label[rows], every[rows], norm, 15, begin)
            found.point[rows[near.flipped]] = near.point[near.flipped]
            state.offer(name, found)
    elif name == "pgd":
        known = state.reached
        typical = np.median(known[np.isfinite(known)]) if np.isfinite(known).any() else 0.0
        guess = np.where(np.isfinite(known), known * 0.999, typical or np.abs(x).max() or 1.0)
        along = [] if features is None else list(directions(features, x, label).values())
        state.offer(
            name,
            minimal_pgd(
                model,
                x,
                label,
                state.margin,
                guess,
                norm,
                restarts=1 if along else 2,
                starts=along,
                seed=seed,
            ),
        )
    elif name == "polish":
        assert isinstance(model, TwoLayerModel)
        state.offer(name, polish(model, x, label, list(state.starts), norm))
    else:
        known = state.reached
        largest = float(np.max(known[np.isfinite(known)], initial=0.0)) or float(np.abs(x).max())
        radii = np.linspace(0, largest, 21)[1:]
        state.offer(name, foolbox_attack(model, x, label, name[len(PREFIX) :], norm, radii))


def _dead(model: Model, x: Float[ndarray, "n D"], label: Int[ndarray, " n"]) -> ndarray:
    """Where every gradient is zero; an error if that is everywhere, for no attack could move."""
    dead = np.ones(len(x), dtype=bool)
    for aims in targets(model, x, label, most=9).T:
        rows = np.flatnonzero(dead)
        if len(rows) == 0:
            break
        gradient = model.descend(x[rows], label[rows], aims[rows])[2]
        dead[rows] = ~np.any(gradient != 0, axis=1)
    if dead.all():
        raise InputError(
            "model",
            "has a zero gradient at every point",
            "its outputs do not depend on the input: check that it is differentiable and trained",
        )
    return dead


def _confirmed(
    model: Model, x: Float[ndarray, "n D"], label: Int[ndarray, " n"], found: Found
) -> Found:
    """Points that flip the model itself, a hair beyond the boundary.

    On the boundary the sign of a rounded score is a toss, and in another batch another one: the
    hair is far above rounding, far below what anybody reads off a radius, and longer if need be.
    """
    point, open_ = found.point.copy(), found.flipped.copy()
    hairs = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
    for hair in hairs if x.dtype == np.float64 else hairs[4:]:
        rows = np.flatnonzero(open_)
        if len(rows) == 0:
            break
        longer = (1 + hair) * (found.point[rows] - x[rows])
        trial = (x[rows] + to_box(x[rows], longer, model.bounds)).astype(x.dtype)
        hit = model.margins(trial, label[rows]) <= 0
        point[rows[hit]], open_[rows[hit]] = trial[hit], False
    rows = np.flatnonzero(open_)
    if len(rows):
        # At a corner of the box nothing is longer: the point itself has to do.
        hit = model.margins(found.point[rows], label[rows]) <= 0
        open_[rows[hit]] = False
    return Found(point, found.flipped & ~open_)
