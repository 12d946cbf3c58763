"""The one call: from a classifier and labelled images to everything an audit says."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import featavg
from featavg.audit.classifier import Passes, Subject, decision_of
from featavg.audit.gain import ERROR, FeatureGain, measured_gain, predicted_gain
from featavg.audit.gradients import FEATURES, HASHED, INPUT, Sharing, check_layer, hashed, passes, sharing
from featavg.audit.inputs import gathered, is_array, normalisation_of, order_of, size_of
from featavg.audit.label_budget import LEAST_GAIN, LabelBudget, label_budget
from featavg.audit.labels import LEAST_SHARED, AuditData, audit_data
from featavg.audit.models import classifier, named_input, on_device
from featavg.audit.radii import decision_radii
from featavg.audit.result import Audit
from featavg.audit.subclasses import Discovery, FeatureCollapse, can_discover, discover, subclass_probes
from featavg.audit.verdict import judge, remedies
from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import subclass_collapse
from featavg.progress import Progress, part
from featavg.storage.cache import fingerprint, kept_values
from featavg.storage.files import strict_json
from featavg.storage.folders import locked

# Held-out points a share of labels is measured on, for each of two trainings.
BUDGET_POINTS = 20

_log = logging.getLogger(__name__)


@public
def audit(
    model: Any,
    x: Any,
    coarse: Any = None,
    fine: Any = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: float | Sequence[float] | ndarray | None = None,
    std: float | Sequence[float] | ndarray | None = None,
    readout: str = "probability",
    clusters: Count | None = None,
    layer: str = "auto",
    images: Count = 1000,
    radii: Count = 200,
    gradients: Count = 60,
    twin: Any = None,
    names: Sequence[str] | None = None,
    name: str | None = None,
    folder: str | Path | None = None,
    seed: Seed = 0,
    progress: Progress | None = None,
    embedding: ndarray | None = None,
    groups: Int[ndarray, " c"] | None = None,
    processor: Any = None,
    size: int | tuple[int, int] | None = None,
    device: str | None = None,
    input_name: str | None = None,
) -> Audit:
    """Does this classifier average its features, what does that cost, and what would help?

    The model is left as it was: modes, gradients, hooks and random state. Torch is needed for torch
    modules only.

    Args:
        model: a torch module, a fitted MLP or linear model of scikit-learn, a `TwoLayer` or a `Deep`. It
            has one output per class, one per sub-class, or one logit.
        x: images that it was not trained on, as it takes them before its normalisation; bytes become
            [0, 1]. An array, a list of pictures, a `Dataset`, or batches (images, labels) or tables of
            them, such as a `DataLoader`, of which at most about `images` are held in memory.
        coarse: the class of each image, 0..C-1, -1 and +1, or words; left out if x brings labels. A
            table from sub-class to class, {"cat": "animal", ...}, if they are sub-classes.
        fine: the sub-class of each image, 0..k-1 or words; without it sub-classes are discovered.
        bounds: of the pixels, or None where any point is allowed.
        mean, std: what the model expects subtracted and divided, by channel; unless given, those of
            `processor`, those that a timm model states in `pretrained_cfg`, or 0 and 1.
        readout: how outputs of a class become its score, where there is one per sub-class.
        clusters: per class, for discovery.
        layer: where the shared gradient is read; "auto" takes the first layer where it means something.
        images: the most images used for accuracy, gradients and features.
        radii: the most images whose radius is searched for.
        gradients: per image that the attack may use.
        twin: a network with fine labels for the same images and bounds, audited beside it.
        names: of the sub-classes.
        folder: where finished parts are kept, so that a killed audit resumes.
        embedding: one row per image, in which sub-classes are discovered instead of the features of
            the model; those of another network often tell them apart better.
        groups: the class of each output, of a network with more outputs than classes; known from
            `fine` if its outputs are those sub-classes.
        processor: a HuggingFace image processor: its mean, std and, for pictures, size.
        size: height and width to which pictures of other sizes are cut and resized.
        device: where torch runs the model meanwhile, such as "cuda"; by default where it is.
        input_name: of the images in the model's forward, if they are not its first argument.
        name: of the model, for titles.
        seed: of samples, permutations and attacks.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> task = fa.MultiCluster(k=4, d=200)
    >>> net = fa.feature_averaging(task)
    >>> points = task.sample(200, seed=0)
    >>> x = points.coordinates(net.dimension)
    >>> report = fa.audit(net, x, points.y, points.clusters, bounds=None, radii=20)
    >>> report.verdict.value, round(report.shared_gradient, 1)
    ('averages', 1.0)
    """
    for known, value in (("clusters", clusters), ("embedding", embedding)):
        if fine is not None and value is not None:
            raise InputError(known, "is for discovery, and fine labels are given", "leave one out")
    shift, scale = normalisation_of(model, mean, std, processor)
    wanted = size if size is not None or is_array(x) else size_of(processor)
    x, coarse, fine = gathered(x, coarse, fine, images, wanted, seed, part(progress, 0.0, 0.0))
    data, words = audit_data(x, coarse, fine, bounds, images, seed, order_of(model))
    title = name or type(model).__name__
    kept, rows = None if folder is None else Path(folder), data.rows_of(embedding, len(x))
    with contextlib.ExitStack() as open_ones:
        for each in (model, twin):
            open_ones.enter_context(on_device(each, device))
        taken = classifier(named_input(model, input_name), data.x, bounds, shift, scale, title)
        subject = Subject(
            taken, decision_of(taken.outputs, data, groups, readout), data, layer, radii, gradients, seed, kept,
            clusters, rows, words if names is None else names,
        )  # fmt: skip
        other = None
        if twin is not None:  # refused before the expensive steps
            with _of_twin():
                other = classifier(named_input(twin, input_name), data.x, bounds, shift, scale, "twin")
                if data.fine is not None:
                    decision_of(other.outputs, data, groups, readout)
        _log.info("audits %s on %d images of shape %s", title, len(data.x), data.x.shape[1:])
        share = 1.0 if other is None else 0.6
        if kept is not None:  # two audits would write the same files
            open_ones.enter_context(locked(kept, "folder"))
        result, data = _audited(subject, part(progress, 0.0, share))
        if other is not None:
            decision = decision_of(other.outputs, data, groups, readout)
            asked = replace(subject, network=other, decision=decision, data=data, clusters=None)
            beside, _ = _audited(asked, part(progress, share, 1.0))
            result = replace(result, twin=beside, seconds=result.seconds + beside.seconds)
    _log.info("audited %s in %.1f s", title, result.seconds)
    return replace(result, remedies=remedies(result))


def _audited(subject: Subject, progress: Progress) -> tuple[Audit, AuditData]:
    """Everything that is found, and the data with the sub-classes that were discovered."""
    started, data = perf_counter(), subject.data
    with subject.network.unchanged():
        looking = part(progress, 0.0, 0.15)
        seen = passes(subject.network, subject.decision, data.x, data.coarse, progress=looking, effective=True)
        check_layer(subject.layer, seen)
        discovery = None
        if data.fine is None:
            discovery = _discovered(subject, seen)
            data = data.undivided() if discovery is None else data.with_fine(discovery.labels)
        result = _examined(replace(subject, data=data), seen, discovery, part(progress, 0.15, 1.0))
    return replace(result, seconds=perf_counter() - started), data


def _discovered(subject: Subject, seen: Passes) -> Discovery | None:
    """Sub-classes in the embedding, the features or the input; None from too few images."""
    where, space = INPUT, subject.data.x.reshape(len(subject.data.x), -1)
    if subject.embedding is not None:
        where, space = "the embedding that was given", subject.embedding
    elif seen.features is not None:
        where, space = FEATURES, seen.features
    coarse = subject.data.coarse
    if subject.clusters is None and not can_discover(coarse):
        return None
    found = discover(space.astype(float), coarse, subject.clusters, where=where, seed=subject.seed)
    _log.info("found %d sub-classes in %s", found.labels.max() + 1, found.where)
    return found


def _examined(subject: Subject, seen: Passes, discovery: Discovery | None, progress: Progress) -> Audit:
    data, seed, decision = subject.data, subject.seed, subject.decision
    fine, groups = data.divided
    right = decision.margins(seen.outputs, data.coarse) > 0
    shared = _sharing(subject, seen, right)
    finer = subject.network.outputs > data.classes
    spaces = {INPUT: hashed(data.x.reshape(len(fine), -1), HASHED).astype(float)}
    collapse = predicted = measured = competition = budget = None
    if seen.features is not None:
        spaces[FEATURES] = seen.features
        decided = decision.scores(seen.outputs).argmax(axis=1)
        found = subclass_collapse(seen.features, fine, groups, seen.weight, decided, seed)
        collapse = FeatureCollapse(**vars(found))
        if not finer:
            competition = _gain(subject, "competition", seen.features, part(progress, 0.0, 0.05))
        if data.is_divided:
            predicted = _gain(subject, "predicted", seen.features, part(progress, 0.05, 0.1))
            measured = _gain(subject, "measured", seen.features, part(progress, 0.1, 0.15))
        if data.is_divided and not finer:
            budget = _budget(subject, seen.features, measured, part(progress, 0.15, 0.3))
    probes = subclass_probes(spaces, fine, groups, seed)
    accuracy = wilson(int(right.sum()), len(right))
    chance = float(np.bincount(data.coarse).max() / len(data.coarse))
    return Audit(
        about=_about(subject),
        groups=groups,
        finer=finer,
        names=_names(subject, discovery),
        accuracy=accuracy,
        by_class=_each(right, data.coarse),
        by_subclass=_each(right, fine),
        judgement=judge(shared, accuracy, chance, probes, data.too_few, discovery is not None, finer),
        sharing=shared,
        probes=probes,
        predicted=predicted,
        measured=measured,
        competition=competition,
        budget=budget,
        radii=decision_radii(subject, part(progress, 0.3, 1.0)),
        discovery=discovery,
        collapse=collapse,
        images=np.arange(len(data.x)) if data.rows is None else data.rows,
    )


def _sharing(subject: Subject, seen: Passes, right: ndarray) -> Sharing:
    """The shared gradient at each layer, over sub-classes with enough images."""
    fine, groups = subject.data.divided
    if subject.data.too_few:
        return Sharing((), subject.layer)
    enough = np.bincount(fine) >= LEAST_SHARED
    rows = np.flatnonzero(right)
    rows = rows[enough[fine[rows]]]
    twice = np.bincount(fine[rows], minlength=len(groups)) > 1
    if not np.any(np.bincount(groups[twice]) > 1):
        # A network that names one class for nearly everything has no two sub-classes to compare.
        problem = f"decides {len(rows)} of {len(fine)} images rightly"
        problem += ", too few of two sub-classes of a class"
        raise InputError("model", problem, "check the order of the classes, mean and std")
    return sharing(seen.gradients, rows, fine, groups, subject.seed, "classes", subject.layer)


def _gain(subject: Subject, name: str, features: ndarray, progress: Progress) -> FeatureGain:
    """The gain, from `folder` if an earlier audit of the same features left it there."""
    fine, groups = subject.data.divided
    key = fingerprint([features, fine, groups], name, subject.seed, ERROR)

    def gain() -> dict[str, Any]:
        given = features, fine, groups, subject.seed, progress
        if name == "predicted":
            return asdict(predicted_gain(*given))
        return asdict(measured_gain(*given, "competing" if name == "competition" else "fine"))

    return FeatureGain(**kept_values(subject.kept(f"{name}-gain-{key}"), key, gain))


def _budget(subject: Subject, features: ndarray, measured: FeatureGain | None, progress: Progress) -> LabelBudget:
    """The share of fine labels that is enough, kept like the gains; refused where all gain nothing."""
    fine, groups = subject.data.divided
    if measured is not None and (measured.value is None or measured.value < LEAST_GAIN):
        reason = f"with all fine labels the gain is {measured.value or 0:.2f}, below {LEAST_GAIN}"
        return LabelBudget.none(measured.refused or reason)
    key = fingerprint([features, fine, groups], "budget", subject.seed)

    def budget() -> dict[str, Any]:
        seeds = (subject.seed, subject.seed + 1)
        found = label_budget(features, fine, groups, seeds=seeds, points=BUDGET_POINTS, progress=progress)
        return dict(strict_json(vars(found)))  # type: ignore[call-overload]

    return LabelBudget.of(kept_values(subject.kept(f"budget-{key}"), key, budget))


def _about(subject: Subject) -> dict[str, Any]:
    network, data = subject.network, subject.data
    return {
        "model": network.name,
        "images": len(data.x),
        "shape": list(data.x.shape[1:]),
        "classes": data.classes,
        "sub-classes": len(data.divided[1]),
        "outputs": f"{network.outputs} {network.kind}",
        "read-out": subject.decision.readout.name,
        **({} if data.words is None else {"class names": ", ".join(data.words)}),
        "bounds": "none" if network.bounds is None else list(network.bounds),
        "seed": subject.seed,
        "featavg": featavg.__version__,
        **network.versions,
    }


def _names(subject: Subject, discovery: Discovery | None) -> tuple[str, ...]:
    groups = subject.data.divided[1].tolist()
    if not subject.data.is_divided:
        return tuple(f"class {c}" for c in groups)
    if discovery is not None or subject.names is None:
        word = "cluster" if discovery is not None else "sub-class"
        return tuple(f"{word} {j} of class {c}" for j, c in enumerate(groups))
    if len(subject.names) != len(groups):
        remedy = f"give one for each of the {len(groups)} sub-classes"
        raise InputError("names", f"are {len(subject.names)}", remedy)
    return tuple(subject.names)


@contextlib.contextmanager
def _of_twin() -> Iterator[None]:
    """Names the twin in an error about a model."""
    try:
        yield
    except InputError as error:
        if error.argument not in ("model", "module"):
            raise
        raise InputError("twin", error.problem, error.remedy) from error


def _each(right: ndarray, labels: ndarray) -> tuple[Accuracy, ...]:
    return tuple(wilson(int(right[labels == j].sum()), int((labels == j).sum())) for j in range(int(labels.max()) + 1))
