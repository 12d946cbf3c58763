"""The one call: from a classifier and labelled images to everything an audit says."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

import featavg
from featavg.audit.classifier import Classifier
from featavg.audit.discovery import Discovery, can_discover, discover
from featavg.audit.gain import ERROR, FeatureGain, measured_gain, predicted_gain
from featavg.audit.gradients import (
    AUTO,
    FEATURES,
    HASHED,
    INPUT,
    LayerGradient,
    Passes,
    by_layer,
    check_layer,
    hashed,
    passes,
    reported,
)
from featavg.audit.labels import LEAST_SHARED, AuditData, audit_data, balanced
from featavg.audit.probe import subclass_probes
from featavg.audit.radii import decision_radii
from featavg.audit.result import Audit
from featavg.audit.verdict import judge, remedies
from featavg.audit.wrapping import classifier
from featavg.boundary.kinds import Count, Seed
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.measures.accuracy import Accuracy, wilson
from featavg.measures.collapse import subclass_collapse
from featavg.progress import Progress, part
from featavg.robustness.models.decision import Decision
from featavg.storage.cache import kept_values
from featavg.storage.folders import locked
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
    other = None
    if twin is not None:
        other = _twin(replace(subject, clusters=None), twin, mean, std)
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

    @property
    def decision(self) -> Decision:
        """Outputs are classes, sub-classes, what `groups` says, or one logit; others are refused."""
        outputs, classes, known = self.network.outputs, self.data.classes, self.data.groups
        if outputs == 1:
            if classes != 2:
                raise InputError("model", "has one logit", f"there are {classes} classes")
            return Decision.of(readout=self.readout)
        if outputs == classes:
            return Decision.of(groups=np.arange(classes), readout=self.readout)
        if self.groups is not None:
            if len(self.groups) != outputs or set(self.groups.tolist()) != set(range(classes)):
                problem = f"are {self.groups.tolist()} for {outputs} outputs and {classes} classes"
                raise InputError("groups", problem, "give the class of each output, 0 to C-1")
            return Decision.of(groups=self.groups, readout=self.readout)
        if known is not None and outputs == len(known):
            return Decision.of(groups=known, readout=self.readout)
        labels = f"{classes} classes" + ("" if known is None else f" and {len(known)} sub-classes")
        remedy = f"the labels have {labels}; give `groups`, the class of each output"
        raise InputError("model", f"has {outputs} outputs", remedy)

    def audited(self, progress: Progress) -> tuple[Audit, AuditData]:
        """Everything that is found, and the data with the sub-classes that were discovered."""
        started = perf_counter()
        with self.network.unchanged():
            decision, data = self.decision, self.data
            seen = passes(
                self.network,
                decision,
                data.x,
                data.coarse,
                progress=part(progress, 0.0, 0.15),
                effective=True,
            )
            check_layer(self.layer, seen.gradients, seen.constant)
            discovery = None
            if data.fine is None:
                discovery = self._discovered(seen)
                data = data.undivided() if discovery is None else data.with_fine(discovery.labels)
            result = replace(self, data=data)._examined(
                decision, seen, discovery, part(progress, 0.15, 1.0)
            )
        return replace(result, seconds=perf_counter() - started), data

    def _discovered(self, seen: Passes) -> Discovery | None:
        """Sub-classes in the embedding, the features or the input; None from too few images."""
        where, space = INPUT, self.data.x.reshape(len(self.data.x), -1)
        if self.embedding is not None:
            where, space = "the embedding that was given", self.embedding
        elif seen.features is not None:
            where, space = FEATURES, seen.features
        if self.clusters is None and not can_discover(self.data.coarse):
            return None
        coarse = self.data.coarse
        found = discover(space.astype(float), coarse, self.clusters, where=where, seed=self.seed)
        _log.info("found %d sub-classes in %s", found.labels.max() + 1, found.where)
        return found

    def _examined(
        self, decision: Decision, seen: Passes, discovery: Discovery | None, progress: Progress
    ) -> Audit:
        data, seed = self.data, self.seed
        fine, groups = data.divided
        margins = decision.margins(seen.outputs, data.coarse)
        layers = self._layers(seen, np.flatnonzero(margins > 0))
        read_at = reported(layers, self.layer)
        decided = decision.scores(seen.outputs).argmax(axis=1)
        spaces = {INPUT: hashed(data.x.reshape(len(fine), -1), HASHED).astype(float)}
        collapse = predicted = measured = None
        if seen.features is not None:
            spaces[FEATURES] = seen.features
            collapse = subclass_collapse(seen.features, fine, groups, seen.weight, decided, seed)
            if data.is_divided:
                predicted = self._gain("predicted", seen.features, part(progress, 0.05, 0.2))
                measured = self._gain("measured", seen.features, part(progress, 0.2, 0.3))
        probes = subclass_probes(spaces, fine, groups, seed)
        accuracy = wilson(int((margins > 0).sum()), len(margins))
        chance = float(np.bincount(data.coarse).max() / len(data.coarse))
        rows = np.arange(len(fine))
        rows = balanced(fine, self.radii, seed) if self.radii < len(fine) else rows
        return Audit(
            about=self._about(decision),
            groups=groups,
            finer=self.network.outputs > data.classes,
            names=self._names(discovery),
            accuracy=accuracy,
            by_class=_each(margins > 0, data.coarse),
            by_subclass=_each(margins > 0, fine),
            layers=layers,
            layer=read_at,
            collapse=collapse,
            probes=probes,
            predicted=predicted,
            measured=measured,
            radii=decision_radii(
                self.network,
                decision,
                data.x[rows],
                data.coarse[rows],
                fine[rows],
                self.gradients,
                self.folder,
                part(progress, 0.3, 1.0),
            ),
            discovery=discovery,
            judgement=judge(
                read_at,
                discovery,
                accuracy,
                chance,
                layers if self.layer == AUTO else (),
                probes,
                data.too_few,
            ),
            images=np.arange(len(data.x)) if data.rows is None else data.rows,
        )

    def _layers(self, seen: Passes, right: Int[ndarray, " m"]) -> tuple[LayerGradient, ...]:
        """The shared gradient at each layer, over sub-classes with enough images."""
        fine, groups = self.data.divided
        if self.data.too_few:
            return ()
        enough = np.bincount(fine) >= LEAST_SHARED
        right = right[enough[fine[right]]]
        twice = np.bincount(fine[right], minlength=len(groups)) > 1
        if not np.any(np.bincount(groups[twice]) > 1):
            # A network that names one class for nearly everything has no two sub-classes to compare.
            problem = f"decides {len(right)} of {len(fine)} images rightly"
            problem += ", too few of two sub-classes of a class"
            raise InputError("model", problem, "check the order of the classes, mean and std")
        return by_layer(seen.gradients, right, fine, groups, self.seed, "classes")

    def _gain(self, name: str, features: ndarray, progress: Progress) -> FeatureGain:
        """The gain, from `folder` if an earlier audit of the same features left it there."""
        fine, groups = self.data.divided
        compute = predicted_gain if name == "predicted" else measured_gain
        key = fingerprint([features, fine, groups], name, self.seed, ERROR)
        path = None if self.folder is None else self.folder / f"{name}-gain-{key}.json"

        def gain() -> dict[str, Any]:
            return asdict(compute(features, fine, groups, self.seed, progress=progress))

        return FeatureGain(**kept_values(path, key, gain))

    def _about(self, decision: Decision) -> dict[str, Any]:
        network, data = self.network, self.data
        return {
            "model": network.name,
            "images": len(data.x),
            "shape": list(data.x.shape[1:]),
            "classes": data.classes,
            "sub-classes": len(data.divided[1]),
            "outputs": f"{network.outputs} {network.kind}",
            "read-out": decision.readout.name,
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
        other = replace(
            subject, network=classifier(twin, subject.data.x, bounds, mean, std, "twin")
        )
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
