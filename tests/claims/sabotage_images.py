"""Sabotage of the claims on images and on the audit.

Images are replaced by points of clusters, or where a claim only compares, by results that are made
up: what is tested is that the claim sees the difference.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.claims.sabotage import Sabotage, giving, setting, together

from featavg.audit.gain import FeatureGain
from featavg.data.clusters import MultiCluster
from featavg.paper.images import attacks, audit, digits, figure3, heads, hidden, labels, protocols, superclasses
from featavg.paper.images.attacks import Comparison
from featavg.paper.images.curves import ADAPTIVE, OWN_LOSS
from featavg.paper.images.features import FeatureSet
from featavg.paper.images.label_cell import LABELS, NETWORKS, TRAININGS
from featavg.registry import READOUTS

# Points of clusters in place of images.


def cluster_features(groups: np.ndarray, d: int = 60, n: int = 600) -> FeatureSet:
    """Features that are clusters, as many as there are fine classes."""
    task = MultiCluster(k=len(groups), d=d, sigma=0.5, positive=groups.astype(bool))
    train, test = task.sample(n, seed=1), task.sample(200, seed=2)
    return FeatureSet(train.coordinates(d), train.clusters, test.coordinates(d), test.clusters, groups, "clusters")


def shuffled(features: FeatureSet) -> FeatureSet:
    """Finer labels that say nothing."""
    return features.with_random_classes(0)


def digits_shuffled(monkeypatch):
    honest = digits.pixels_of
    monkeypatch.setattr(digits, "pixels_of", lambda task: shuffled(honest(task)))


TEN = np.repeat([1, 0], 5)


def heads_on(change):
    made = change(cluster_features(TEN))
    return giving(heads, public_features=made, our_features=made)


def superclasses_are(change):
    """Four classes of five clusters each stand for CIFAR-100's."""
    made = change(cluster_features(np.repeat(np.arange(4), 5), d=100))
    return giving(superclasses, efficientnet_lite0=None, embed=made, data_needed=None)


def unchanged(made):
    return made


# Results that are made up.


def made_up_pair(data: str, shift: float, seed: int = 0, found=(0.0, 1.0, 2.0)) -> figure3.LabelPair:
    """The published curves under both protocols, the fine one moved by `shift` points."""
    paper = figure3.PUBLISHED_CURVES[data]

    def curve(protocol, labels, readout, radii):
        percent = np.interp(radii, paper["radii"], paper[labels])
        share = (percent + (shift if labels == "fine" else 0.0)) / 100
        made = {"protocol": protocol, "labels": labels, "readout": readout, "norm": "l2", "seconds": 1.0}
        made |= {"radii": list(radii), "accuracy": share, "low": share - 0.01, "high": share + 0.01}
        each = {"each": list(found), "median": float(np.median(np.abs(found)))}
        return made | (each if protocol == ADAPTIVE else {})

    rows = [curve(OWN_LOSS, m, "probability", figure3.PGD_RADII[data]) for m in LABELS]
    rows.append(curve(ADAPTIVE, "coarse", "probability", paper["radii"]))
    rows += [curve(ADAPTIVE, "fine", readout, paper["radii"]) for readout in READOUTS]
    about = {"test_accuracy": {"coarse": 0.99, "fine": 0.98}, "seconds": 10.0}
    ends = {"radius": 2.0, "fooled": 1.0, "kept": 0.3}
    return figure3.LabelPair(seed, rows, {"coarse": about, "fine": about}, ends)


def pairs_moved_by(shift: float):
    return setting(figure3, data_needed=lambda *_: None, train_pair=lambda data, *_: made_up_pair(data, shift))


def published_are_in(unit: str):
    """Curves that agree with the published ones when radii are in `unit`, and else are far off."""
    paper = [figure3.published("cifar10", m, protocols.RADII) for m in LABELS]
    away = [0.0 if each == unit else -40.0 for _, each in protocols.ROWS]
    found = np.array(away)[:, None, None] + np.array(paper), [97.0, 98.0]
    scales = dict.fromkeys((protocols.PIXELS, protocols.DATA_UNIT, protocols.USUAL_UNIT), 1.0)
    return giving(protocols, data_needed=None, unit_scales=scales, pair_accuracies=found)


def our_radii_times(factor: float):
    """An attack whose radii are `factor` times those of the best opponent."""
    best = np.linspace(0.5, 2.0, 200)
    others = {"DDNAttack": best, "L2DeepFoolAttack": 1.1 * best}
    spent = {"ours": 120.0, "DDNAttack": 120.0, "L2DeepFoolAttack": 40.0}
    share = (float(np.mean(best > 1.0)),)
    made = Comparison("made up", "l2", "l2, pixels in [0,1]", 120, factor * best, others, spent, (1.0,), share)
    one = [attacks.Attacked("made up", None, None, "fine", Path())]
    return giving(attacks, _small=one, _of_the_table=(), _of_other_claims=(), compared=(made, None))


def made_up_cell(kind, which, seed, radius, shared, **changes):
    """A cell of the table of labels with this median radius and shared gradient."""
    data, network, training = kind
    about = {"data": data, "network": network, "training": training, "labels": which, "seed": seed}
    about |= {"accuracy": 0.9, "median": radius, "robust_accuracy": 0.5, "shared": shared}
    about |= {"layer": "input", "null": 0.99, "noise": 0.1, "nc1": 1.0, "same_class_cosine": 0.5}
    return about | {"train_seconds": 1.0, "attack_seconds": 1.0, "key": "", "commit": ""} | changes


def table_of_labels(gain: float, controlled: float, coarse: float, fine: float):
    """Every network gains as much, `controlled` where its gradient is; A with either labels."""
    kinds = [(d, n, t) for d in ("digits", "mnist") for n in NETWORKS for t in TRAININGS]
    kinds += [("cifar10", "wide CNN", t) for t in ("cross-entropy", "adversarial")]
    more = {kind: gain if kind[2] == "cross-entropy" else controlled for kind in kinds}
    cells = [
        made_up_cell(kind, which, seed, *((more[kind], fine) if which == "fine" else (1.0, coarse)))
        for kind in kinds
        for which in LABELS
        for seed in range(2)
    ]
    return together(*(giving(module, all_cells=cells) for module in (labels, audit)))


def worst_digit_gains(points: float):
    """What discovered labels add to the accuracy and the radius of the worst digit."""

    def row(method, seed):
        more = 0.0 if method == hidden.METHODS[0] else points
        values = (0.9, 8, 0.8 + more, 8, 1.0 + more, 0.8, 1.0, 0.5)
        return {"method": method, "seed": seed} | dict(zip(hidden.FIELDS, values, strict=True))

    table = hidden.table_of([row(method, seed) for method in hidden.METHODS for seed in range(2)])
    return giving(hidden, data_needed=None, hidden_subclasses=table)


def predictions_times(factor: float):
    def made(value):
        return FeatureGain(value, 0.9 * value, 1.1 * value, 3.0)

    measured = np.linspace(1.2, 2.0, 9).tolist()
    rows = [audit.Gain(f"space {i}", made(factor * m), made(m)) for i, m in enumerate(measured)]
    return giving(audit, data_needed=Path(), feature_spaces=[], gains=rows)


def labels_swapped(monkeypatch):
    """Class labels decouple and cluster labels average."""
    honest = audit.simulated

    def swapped(*args):
        row = honest(*args)
        return replace(row, coarse=row.fine, fine=row.coarse)

    monkeypatch.setattr(audit, "simulated", swapped)


DEALT_OUT = "finer labels are dealt out at random inside a class"
NO_GAIN = "finer labels gain nothing"
TORCH = ("torch",)
SWAPPED = "class labels decouple"
# The claim, what is broken, the patch that breaks it and the one for both runs, packages.
MADE_UP = (
    ("figure-2-cifar10, figure-2-cifar10-resnet18", DEALT_OUT, heads_on(shuffled), heads_on(unchanged), ()),
    ("figure-3-mnist, figure-3-cifar10", NO_GAIN, pairs_moved_by(-40.0), pairs_moved_by(0.0), TORCH),
    ("figure-3-cifar10-protocol", "the published radii are pixels", published_are_in("pixels"),
     published_are_in("normalised by 0.2"), TORCH),
    ("image-attacks", "our radii are 5% too long", our_radii_times(1.05), our_radii_times(0.99),
     ("torch", "foolbox")),
    ("audit-shared-gradient-images", SWAPPED, table_of_labels(1.3, 1.05, 0.3, 0.9),
     table_of_labels(1.3, 1.05, 0.9, 0.3), TORCH),
    ("audit-hidden-digit", "discovered labels cost the worst digit 5 points", worst_digit_gains(-0.05),
     worst_digit_gains(0.05), TORCH),
    ("finer-labels-border", NO_GAIN, table_of_labels(0.9, 1.05, 0.9, 0.3),
     table_of_labels(1.3, 1.05, 0.9, 0.3), TORCH),
    ("audit-predicted-gain", "predictions are 40% too small", predictions_times(0.6), predictions_times(1.05), TORCH),
)  # fmt: skip
ROWS = (
    *(Sabotage(claim, what, mutate, small, needs=needs) for claim, what, mutate, small, needs in MADE_UP),
    Sabotage("images-digits", DEALT_OUT, digits_shuffled, given={"points": 8}),
    Sabotage("figure-2-cifar10-radii", DEALT_OUT, heads_on(shuffled), heads_on(unchanged), given={"points": 8}),
    Sabotage("cifar100-superclasses", DEALT_OUT, superclasses_are(shuffled), superclasses_are(unchanged),
             given={"points": 20, "budget": 20}, needs=TORCH),
    Sabotage("audit-shared-gradient", SWAPPED, labels_swapped, given={"n": 200}),
)  # fmt: skip
