"""The one call: from a classifier and labelled images to everything an audit says."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import featavg
from featavg.audit.classifier import Classifier, classifier
from featavg.audit.gain import ERROR, FeatureGain, measured_gain, predicted_gain
from featavg.audit.gradients import (
    FEATURES,
    HASHED,
    INPUT,
    Passes,
    Sharing,
    check_layer,
    hashed,
    passes,
    sharing,
)
from featavg.audit.labels import LEAST_SHARED, AuditData, audit_data
from featavg.audit.radii import decision_radii
from featavg.audit.result import Audit
from featavg.audit.subclasses import (
    Discovery,
    FeatureCollapse,
    can_discover,
    discover,
    subclass_probes,
)
from featavg.audit.verdict import judge, remedies
from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import subclass_collapse
from featavg.progress import Progress, part
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import kept_values
from featavg.storage.locks import locked
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
    groups: Int[ndarray, " c"] | None = None,
) -> Audit:
    """Does this classifier average its features, what does that cost, and what would help?

    The model is left as it was: modes, gradients, hooks and random state. Torch is needed for torch
    modules only.

    Args:
        model: a torch module, a fitted MLP or linear model of scikit-learn, a `TwoLayer` or a `Deep`. It
            has one output per class, one per sub-class, or one logit.
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
        groups: the class of each output, of a network with more outputs than classes; known from
            `fine` if its outputs are those sub-classes.
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
    data = audit_data(x, coarse, fine, bounds).sample(images, seed)
    taken = classifier(model, data.x, bounds, mean, std, name)
    kept = None if folder is None else Path(folder)
    rows = data.rows_of(embedding, len(x))
    subject = Subject(
        taken, data, readout, groups, layer, radii, gradients, seed, kept, clusters, rows, names
    )
    other = None if twin is None else _twin(subject, twin, mean, std)
    _log.info("audits %s on %d images of shape %s", taken.name, len(data.x), data.x.shape[1:])
    share = 1.0 if other is None else 0.6
    # Two audits would write the same files.
    with contextlib.nullcontext() if kept is None else locked(kept, "folder"):
        result, data = subject.audited(part(progress, 0.0, share))
        if other is not None:
            beside, _ = replace(other, data=data).audited(part(progress, share, 1.0))
            result = replace(result, twin=beside, seconds=result.seconds + beside.seconds)
    _log.info("audited %s in %.1f s", taken.name, result.seconds)
    return replace(result, remedies=remedies(result))


@dataclass(frozen=True, eq=False)
class Subject:
    """One network, the images it is audited on, and what is asked; see `audit`."""

    network: Classifier
    data: AuditData
    readout: str
    groups: ndarray | None
    layer: str
    radii: int
    gradients: int
    seed: int
    folder: Path | None
    clusters: int | None
    embedding: ndarray | None
    names: Sequence[str] | None

    def kept(self, name: str) -> Path | None:
        """Where a finished part of that name is kept."""
        return None if self.folder is None else self.folder / f"{name}.json"

    @cached_property
    def decision(self) -> Decision:
        """Outputs are classes, sub-classes, what `groups` says, or one logit; others are refused."""
        outputs, classes, known = self.network.outputs, self.data.classes, self.data.groups
        groups: ndarray | None
        if outputs == 1:
            if classes != 2:
                raise InputError("model", "has one logit", f"there are {classes} classes")
            groups = None
        elif outputs == classes:
            groups = np.arange(classes)
        elif self.groups is not None:
            groups = self.groups
            if len(groups) != outputs or set(groups.tolist()) != set(range(classes)):
                problem = f"are {groups.tolist()} for {outputs} outputs and {classes} classes"
                raise InputError("groups", problem, "give the class of each output, 0 to C-1")
        elif known is not None and outputs == len(known):
            groups = known
        else:
            labels = f"{classes} classes"
            labels += "" if known is None else f" and {len(known)} sub-classes"
            remedy = f"the labels have {labels}; give `groups`, the class of each output"
            raise InputError("model", f"has {outputs} outputs", remedy)
        return Decision.of(groups=groups, readout=self.readout)

    def audited(self, progress: Progress) -> tuple[Audit, AuditData]:
        """Everything that is found, and the data with the sub-classes that were discovered."""
        started, data, decision = perf_counter(), self.data, self.decision
        with self.network.unchanged():
            looking = part(progress, 0.0, 0.15)
            seen = passes(
                self.network, decision, data.x, data.coarse, progress=looking, effective=True
            )
            check_layer(self.layer, seen)
            discovery = None
            if data.fine is None:
                discovery = self._discovered(seen)
                data = data.undivided() if discovery is None else data.with_fine(discovery.labels)
            divided = replace(self, data=data)
            vars(divided)["decision"] = decision  # that of the data as they were given
            result = divided._examined(seen, discovery, part(progress, 0.15, 1.0))
        return replace(result, seconds=perf_counter() - started), data

    def _discovered(self, seen: Passes) -> Discovery | None:
        """Sub-classes in the embedding, the features or the input; None from too few images."""
        where, space = INPUT, self.data.x.reshape(len(self.data.x), -1)
        if self.embedding is not None:
            where, space = "the embedding that was given", self.embedding
        elif seen.features is not None:
            where, space = FEATURES, seen.features
        coarse = self.data.coarse
        if self.clusters is None and not can_discover(coarse):
            return None
        found = discover(space.astype(float), coarse, self.clusters, where=where, seed=self.seed)
        _log.info("found %d sub-classes in %s", found.labels.max() + 1, found.where)
        return found

    def _examined(self, seen: Passes, discovery: Discovery | None, progress: Progress) -> Audit:
        data, seed, decision = self.data, self.seed, self.decision
        fine, groups = data.divided
        right = decision.margins(seen.outputs, data.coarse) > 0
        shared = self._sharing(seen, right)
        spaces = {INPUT: hashed(data.x.reshape(len(fine), -1), HASHED).astype(float)}
        collapse = predicted = measured = None
        if seen.features is not None:
            spaces[FEATURES] = seen.features
            decided = decision.scores(seen.outputs).argmax(axis=1)
            found = subclass_collapse(seen.features, fine, groups, seen.weight, decided, seed)
            collapse = FeatureCollapse(**vars(found))
            if data.is_divided:
                predicted = self._gain("predicted", seen.features, part(progress, 0.05, 0.2))
                measured = self._gain("measured", seen.features, part(progress, 0.2, 0.3))
        probes = subclass_probes(spaces, fine, groups, seed)
        accuracy = wilson(int(right.sum()), len(right))
        chance = float(np.bincount(data.coarse).max() / len(data.coarse))
        return Audit(
            about=self._about(),
            groups=groups,
            finer=self.network.outputs > data.classes,
            names=self._names(discovery),
            accuracy=accuracy,
            by_class=_each(right, data.coarse),
            by_subclass=_each(right, fine),
            judgement=judge(
                shared, accuracy, chance, probes, data.too_few, discovered=discovery is not None
            ),
            sharing=shared,
            probes=probes,
            predicted=predicted,
            measured=measured,
            radii=decision_radii(self, part(progress, 0.3, 1.0)),
            discovery=discovery,
            collapse=collapse,
            images=np.arange(len(data.x)) if data.rows is None else data.rows,
        )

    def _sharing(self, seen: Passes, right: ndarray) -> Sharing:
        """The shared gradient at each layer, over sub-classes with enough images."""
        fine, groups = self.data.divided
        if self.data.too_few:
            return Sharing((), self.layer)
        enough = np.bincount(fine) >= LEAST_SHARED
        rows = np.flatnonzero(right)
        rows = rows[enough[fine[rows]]]
        twice = np.bincount(fine[rows], minlength=len(groups)) > 1
        if not np.any(np.bincount(groups[twice]) > 1):
            # A network that names one class for nearly everything has no two sub-classes to compare.
            problem = f"decides {len(rows)} of {len(fine)} images rightly"
            problem += ", too few of two sub-classes of a class"
            raise InputError("model", problem, "check the order of the classes, mean and std")
        return sharing(seen.gradients, rows, fine, groups, self.seed, "classes", self.layer)

    def _gain(self, name: str, features: ndarray, progress: Progress) -> FeatureGain:
        """The gain, from `folder` if an earlier audit of the same features left it there."""
        fine, groups = self.data.divided
        compute = predicted_gain if name == "predicted" else measured_gain
        key = fingerprint([features, fine, groups], name, self.seed, ERROR)

        def gain() -> dict[str, Any]:
            return asdict(compute(features, fine, groups, self.seed, progress=progress))

        return FeatureGain(**kept_values(self.kept(f"{name}-gain-{key}"), key, gain))

    def _about(self) -> dict[str, Any]:
        network, data = self.network, self.data
        return {
            "model": network.name,
            "images": len(data.x),
            "shape": list(data.x.shape[1:]),
            "classes": data.classes,
            "sub-classes": len(data.divided[1]),
            "outputs": f"{network.outputs} {network.kind}",
            "read-out": self.decision.readout.name,
            "bounds": "none" if network.bounds is None else list(network.bounds),
            "seed": self.seed,
            "featavg": featavg.__version__,
            **network.versions,
        }

    def _names(self, discovery: Discovery | None) -> tuple[str, ...]:
        groups = self.data.divided[1].tolist()
        if not self.data.is_divided:
            return tuple(f"class {c}" for c in groups)
        if discovery is not None or self.names is None:
            word = "cluster" if discovery is not None else "sub-class"
            return tuple(f"{word} {j} of class {c}" for j, c in enumerate(groups))
        if len(self.names) != len(groups):
            remedy = f"give one for each of the {len(groups)} sub-classes"
            raise InputError("names", f"are {len(self.names)}", remedy)
        return tuple(self.names)


def _twin(subject: Subject, twin: Any, mean: Any, std: Any) -> Subject:
    """Validates the twin before the expensive steps."""
    try:
        bounds = subject.network.bounds
        network = classifier(twin, subject.data.x, bounds, mean, std, "twin")
        other = replace(subject, network=network, clusters=None)
        if subject.data.fine is not None:
            _ = other.decision
    except InputError as error:
        if error.argument not in ("model", "module"):
            raise
        raise InputError("twin", error.problem, error.remedy) from error
    return other


def _each(right: ndarray, labels: ndarray) -> tuple[Accuracy, ...]:
    return tuple(
        wilson(int(right[labels == j].sum()), int((labels == j).sum()))
        for j in range(int(labels.max()) + 1)
    )
