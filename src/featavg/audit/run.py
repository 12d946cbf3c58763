"""The one call: from a classifier and labelled images to everything an audit says (torch)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy import ndarray

import featavg
from featavg.audit.classifier import Classifier, classifier
from featavg.audit.discovery import Discovery, discover
from featavg.audit.gain import FeatureGain, measured_gain, predicted_gain
from featavg.audit.gradients import (
    AUTO,
    FEATURES,
    INPUT,
    LayerGradient,
    Passes,
    by_layer,
    check_layer,
    passes,
    reported,
)
from featavg.audit.labels import AuditData, audit_data, balanced
from featavg.audit.radii import decision_radii
from featavg.audit.result import Audit
from featavg.audit.verdict import judge, remedies
from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import SubclassCollapse, subclass_collapse
from featavg.nets.torch.inference import unchanged
from featavg.progress import Progress, part
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

_log = logging.getLogger(__name__)


@public
def audit(
    model: Any,
    x: ndarray,
    coarse: ndarray,
    fine: ndarray | None = None,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: float | Sequence[float] | ndarray = 0.0,
    std: float | Sequence[float] | ndarray = 1.0,
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
) -> Audit:
    """Does this classifier average its features, what does that cost, and what would help?

    The model is left as it was: modes, gradients, hooks and random state.

    Args:
        model: a torch module, a fitted MLP or linear model of scikit-learn, or a `TwoLayer`. It has
            one output per class, one per sub-class, or one logit.
        x: images that it was not trained on, as it takes them before its normalisation; bytes become
            [0, 1].
        coarse: the class of each image, 0..C-1, or -1 and +1.
        fine: the sub-class of each image, 0..k-1; without it sub-classes are discovered.
        bounds: of the pixels, or None where any point is allowed.
        mean, std: what the model expects subtracted and divided, by channel.
        readout: how outputs of a class become its score, where there is one per sub-class.
        clusters: per class, for discovery.
        layer: where the shared gradient is read; "auto" takes the first layer where it means something.
        images: at most so many for accuracy, gradients and features.
        radii: at most so many whose radius is looked for.
        gradients: per image that the attack may use.
        twin: a network with fine labels for the same images and bounds, audited beside it.
        names: of the sub-classes.
        folder: where finished parts are kept, so that a killed audit goes on.
        embedding: one row per image, in which sub-classes are discovered instead of the features of
            the model; those of another network often tell them apart better.
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
    started = perf_counter()
    if images < 1 or radii < 1 or gradients < 1:
        raise InputError("images", "radii or gradients are below 1", "give at least one of each")
    for known, value in (("clusters", clusters), ("embedding", embedding)):
        if fine is not None and value is not None:
            raise InputError(known, "is for discovery, and fine labels are given", "leave one out")
    data = audit_data(x, coarse, fine, bounds).sample(images, seed)
    subject = classifier(model, data.x, bounds, mean, std, name)
    other = None if twin is None else _twin(twin, data, bounds, mean, std, readout)
    _log.info("audits %s on %d images of shape %s", subject.name, len(data.x), data.x.shape[1:])
    kept = None if folder is None else Path(folder)
    rows = data.rows_of(embedding, len(x))
    asked = (readout, layer, radii, gradients, seed, kept)
    share = 1.0 if other is None else 0.6
    discovery, data, result = _audited(
        subject, data, *asked, part(progress, 0.0, share), clusters, rows
    )
    second = None
    if other is not None:
        begun = perf_counter()
        _, _, beside = _audited(other, data, *asked, part(progress, share, 1.0))
        lasted = perf_counter() - begun
        second = _finished(beside, other, data, None, None, names, seed, lasted)
    seconds = perf_counter() - started
    _log.info("audited %s in %.1f s", subject.name, seconds)
    return _finished(result, subject, data, discovery, second, names, seed, seconds)


def _twin(
    twin: Any,
    data: AuditData,
    bounds: tuple[float, float] | None,
    mean: Any,
    std: Any,
    readout: str,
) -> Classifier:
    """Taken in before the long work begins, so that a twin of another task is told at once."""
    try:
        other = classifier(twin, data.x, bounds, mean, std, "twin")
        if data.fine is not None:
            _decision(other, data, readout)
    except InputError as error:
        if error.argument not in ("model", "module"):
            raise
        raise InputError("twin", error.problem, error.remedy) from error
    return other


def _audited(
    subject: Classifier,
    data: AuditData,
    readout: str,
    layer: str,
    radii: int,
    gradients: int,
    seed: int,
    folder: Path | None,
    progress: Progress,
    clusters: int | None = None,
    embedding: ndarray | None = None,
) -> tuple[Discovery | None, AuditData, dict[str, Any]]:
    """One network: the sub-classes that were discovered, the data with them, and what was measured."""
    with unchanged(subject.module):
        decision = _decision(subject, data, readout)
        looked = part(progress, 0.0, 0.15)
        seen = passes(subject, decision, data.x, data.coarse, progress=looked, effective=True)
        check_layer(layer, seen.gradients, seen.constant)
        discovery = None
        if data.fine is None:
            discovery = _discovered(seen, data, clusters, seed, embedding)
            data = data.with_fine(discovery.labels)
            _log.info("found %d sub-classes in %s", discovery.labels.max() + 1, discovery.where)
        result = _examined(
            subject,
            data,
            decision,
            seen,
            discovery,
            layer,
            radii,
            gradients,
            seed,
            folder,
            part(progress, 0.15, 1.0),
        )
    return discovery, data, result


def shared_gradients(
    model: Any,
    x: ndarray,
    coarse: ndarray,
    fine: ndarray,
    bounds: tuple[float, float] | None = (0.0, 1.0),
    mean: float | Sequence[float] | ndarray = 0.0,
    std: float | Sequence[float] | ndarray = 1.0,
    readout: str = "probability",
    images: int = 1000,
    seed: int = 0,
) -> tuple[LayerGradient, ...]:
    """Only the shared gradient of an audit, at every layer; the arguments are those of `audit`."""
    data = audit_data(x, coarse, fine, bounds).sample(images, seed)
    assert data.fine is not None
    assert data.groups is not None
    subject = classifier(model, data.x, bounds, mean, std)
    decision = _decision(subject, data, readout)
    seen = passes(subject, decision, data.x, data.coarse, effective=True)
    right = np.flatnonzero(decision.margins(seen.outputs, data.coarse) > 0)
    return by_layer(seen.gradients, right, data.fine, data.groups, seed, "classes")


def _decision(subject: Classifier, data: AuditData, readout: str) -> Decision:
    """Outputs are classes, sub-classes or one logit; anything else is refused."""
    classes = data.classes
    if subject.outputs == 1:
        if classes != 2:
            raise InputError("model", "has one logit", f"there are {classes} classes")
        return Decision.of(readout=readout)
    if subject.outputs == classes:
        return Decision.of(groups=np.arange(classes), readout=readout)
    if data.groups is not None and subject.outputs == len(data.groups):
        return Decision.of(groups=data.groups, readout=readout)
    known = f"{classes} classes"
    known += f" and {len(data.groups)} sub-classes" if data.groups is not None else ""
    raise InputError("model", f"has {subject.outputs} outputs", f"the labels have {known}")


def _discovered(
    seen: Passes, data: AuditData, clusters: int | None, seed: int, embedding: ndarray | None
) -> Discovery:
    if embedding is not None:
        where = "the embedding that was given"
        return discover(embedding.astype(float), data.coarse, clusters, where=where, seed=seed)
    if seen.features is not None:
        return discover(seen.features, data.coarse, clusters, where=FEATURES, seed=seed)
    return discover(data.x.reshape(len(data.x), -1), data.coarse, clusters, where=INPUT, seed=seed)


def _examined(
    subject: Classifier,
    data: AuditData,
    decision: Decision,
    seen: Passes,
    discovery: Discovery | None,
    layer: str,
    count: int,
    gradients: int,
    seed: int,
    folder: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    fine, groups = data.fine, data.groups
    assert fine is not None
    assert groups is not None
    margins = decision.margins(seen.outputs, data.coarse)
    right = np.flatnonzero(margins > 0)
    _check_decided(right, len(fine), fine, groups)
    layers = by_layer(seen.gradients, right, fine, groups, seed, "classes")
    read_at = reported(layers, layer)
    decided = decision.scores(seen.outputs).argmax(axis=1)
    collapse: SubclassCollapse | None = None
    predicted: FeatureGain | None = None
    measured: FeatureGain | None = None
    if seen.features is not None:
        collapse = subclass_collapse(seen.features, fine, groups, seen.weight, decided, seed)
        predicted = _kept_gain(
            "predicted", seen.features, data, seed, folder, part(progress, 0.05, 0.2)
        )
        measured = _kept_gain(
            "measured", seen.features, data, seed, folder, part(progress, 0.2, 0.3)
        )
    rows = balanced(fine, count, seed) if count < len(fine) else np.arange(len(fine))
    distances = decision_radii(
        subject,
        decision,
        data.x[rows],
        data.coarse[rows],
        fine[rows],
        gradients,
        folder,
        part(progress, 0.3, 1.0),
    )
    accuracy = wilson(int((margins > 0).sum()), len(margins))
    chance = float(np.bincount(data.coarse).max() / len(data.coarse))
    return {
        "accuracy": accuracy,
        "by_class": _each(margins > 0, data.coarse),
        "by_subclass": _each(margins > 0, fine),
        "layers": layers,
        "layer": read_at,
        "collapse": collapse,
        "predicted": predicted,
        "measured": measured,
        "radii": distances,
        "judgement": judge(read_at, discovery, accuracy, chance, layers if layer == AUTO else ()),
        "readout": decision.readout.name,
    }


def _check_decided(right: ndarray, n: int, fine: ndarray, groups: ndarray) -> None:
    """A network that names one class for nearly everything has no two sub-classes to compare."""
    enough = np.bincount(fine[right], minlength=len(groups)) > 1
    if not np.any(np.bincount(groups[enough]) > 1):
        problem = (
            f"decides {len(right)} of {n} images rightly, too few of two sub-classes of a class"
        )
        raise InputError("model", problem, "check the order of the classes, mean and std")


def _kept_gain(
    name: str,
    features: ndarray,
    data: AuditData,
    seed: int,
    folder: Path | None,
    progress: Progress,
) -> FeatureGain:
    """The gain, from `folder` if an earlier audit of the same features left it there."""
    fine, groups = data.fine, data.groups
    assert fine is not None
    assert groups is not None
    compute = predicted_gain if name == "predicted" else measured_gain
    key = fingerprint([features, fine, groups], name, seed)
    path = None if folder is None else folder / f"{name}-gain-{key}.json"

    def gain() -> dict[str, Any]:
        return compute(features, fine, groups, seed, progress=progress).to_json()

    return FeatureGain(**kept_values(path, key, gain))


def _each(right: ndarray, labels: ndarray) -> tuple[Accuracy, ...]:
    return tuple(
        wilson(int(right[labels == j].sum()), int((labels == j).sum()))
        for j in range(int(labels.max()) + 1)
    )


def _finished(
    result: dict[str, Any],
    subject: Classifier,
    data: AuditData,
    discovery: Discovery | None,
    twin: Audit | None,
    names: Sequence[str] | None,
    seed: int,
    seconds: float,
) -> Audit:
    assert data.groups is not None
    readout = result.pop("readout")
    k = len(data.groups)
    if names is not None and discovery is None and len(names) != k:
        raise InputError("names", f"are {len(names)}", f"give one for each of the {k} sub-classes")
    titles = tuple(names) if names is not None and discovery is None else _names(data, discovery)
    about = {
        "model": subject.name,
        "images": len(data.x),
        "shape": list(data.x.shape[1:]),
        "classes": data.classes,
        "sub-classes": k,
        "outputs": f"{subject.outputs} {subject.logits.kind}",
        "read-out": readout,
        "bounds": "none" if subject.bounds is None else list(subject.bounds),
        "seed": seed,
        "featavg": featavg.__version__,
        "torch": torch.__version__,
    }
    other = None if twin is None else twin.radii
    advice = remedies(
        result["judgement"], result["collapse"], result["measured"], result["radii"], other
    )
    return Audit(
        about=about,
        groups=data.groups,
        names=titles,
        discovery=discovery,
        remedies=advice,
        twin=twin,
        seconds=seconds,
        images=np.arange(len(data.x)) if data.rows is None else data.rows,
        **result,
    )


def _names(data: AuditData, discovery: Discovery | None) -> tuple[str, ...]:
    assert data.groups is not None
    word = "cluster" if discovery is not None else "sub-class"
    return tuple(f"{word} {j} of class {c}" for j, c in enumerate(data.groups.tolist()))
