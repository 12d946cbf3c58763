"""Sabotage of the claims on images and on the audit.

Images are replaced by points of clusters, or where a claim only compares, by results that are made
up: what is tested is that the claim sees the difference.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from tests.claims.sabotage import Sabotage, setting

from featavg.audit.gain import FeatureGain
from featavg.data.clusters import MultiCluster
from featavg.nets.readouts.registry import READOUTS
from featavg.paper.images import claim_attacks as attacks
from featavg.paper.images import claim_audit as audit
from featavg.paper.images import claim_curves as curves
from featavg.paper.images import claim_digits as digits
from featavg.paper.images import claim_heads as heads
from featavg.paper.images import claim_labels as labels
from featavg.paper.images import claim_protocols as protocols
from featavg.paper.images import features, gain_study, hidden_study, label_pairs, pgd_protocols
from featavg.paper.images.attack_comparison import AttackComparison
from featavg.paper.images.curve_result import PUBLISHED_CURVES, ImageCurves
from featavg.paper.images.decision_curve import ADAPTIVE, OWN_LOSS, DecisionCurve
from featavg.paper.images.features import FeatureSet
from featavg.paper.images.gain_study import GainRow, GainStudy
from featavg.paper.images.hidden_study import METHODS, HiddenRow, HiddenStudy
from featavg.paper.images.label_cell import CellResult
from featavg.paper.images.label_protocol import NETWORKS, TRAININGS, LabelCell
from featavg.paper.images.label_study import LabelRow, LabelTable
from featavg.paper.images.superclasses import study_superclasses
from featavg.robustness.curve import Curve

# Points of clusters in place of images.


def cluster_features(groups: np.ndarray, d: int = 60, n: int = 600) -> FeatureSet:
    """Features that are clusters, as many as there are fine classes."""
    task = MultiCluster(k=len(groups), d=d, sigma=0.5, positive=groups.astype(bool))
    train, test = task.sample(n, seed=1), task.sample(200, seed=2)
    return FeatureSet(
        train.coordinates(d), train.clusters, test.coordinates(d), test.clusters, groups, "clusters"
    )


def shuffled(features: FeatureSet) -> FeatureSet:
    """Finer labels that say nothing: those of a coarse class are dealt out at random."""
    rng, classes = np.random.default_rng(0), features.train_classes.copy()
    for group in np.unique(features.groups):
        mine = features.groups[features.train_classes] == group
        classes[mine] = rng.permutation(classes[mine])
    return replace(features, train_classes=classes)


def small_digits(monkeypatch):
    monkeypatch.setattr(digits, "POINTS", 8)


def digits_shuffled(monkeypatch):
    honest = digits.pixels_of
    monkeypatch.setattr(digits, "pixels_of", lambda task: shuffled(honest(task)))


TEN = np.repeat([1, 0], 5)


def small_heads(monkeypatch):
    for name in ("resnet20_features", "resnet18_features"):
        monkeypatch.setattr(heads, name, lambda settings: cluster_features(TEN))
    monkeypatch.setattr(heads, "RADIUS_POINTS", 8)


def heads_shuffled(monkeypatch):
    for name in ("resnet20_features", "resnet18_features"):
        monkeypatch.setattr(heads, name, lambda settings: shuffled(cluster_features(TEN)))


def superclasses_are(change):
    """Four classes of five clusters each stand for CIFAR-100's."""

    def patch(monkeypatch):
        from featavg.paper.images import embedding

        groups = np.repeat(np.arange(4), 5)
        made = change(cluster_features(groups, d=100))
        monkeypatch.setattr(embedding, "efficientnet_lite0", lambda size: None)
        monkeypatch.setattr(features, "features_of", lambda *_, **__: made)
        monkeypatch.setattr(
            heads,
            "study_superclasses",
            lambda features, seeds, **rest: study_superclasses(
                features, seeds, points=20, budget=20, **rest
            ),
        )
        monkeypatch.setattr(heads, "data_needed", lambda *_: None)

    return patch


# Results that are made up.


def made_up_pair(name: str, shift: float):
    """The published curves under both protocols, the fine one moved by `shift` points."""
    from featavg.paper.images.curves import PgdEnds
    from featavg.paper.images.label_pairs import LabelPair

    paper = PUBLISHED_CURVES[name]

    def curve(protocol, labels, readout, radii):
        percent = np.interp(radii, paper["radii"], paper[labels])
        share = (percent + (shift if labels == "fine" else 0.0)) / 100
        ends = Curve(np.array(radii), share, share - 0.01, share + 0.01, 100, "l2", "made up")
        each = np.array([0.0, 1.0, 2.0]) if protocol == ADAPTIVE else None
        return DecisionCurve(protocol, labels, readout, "l2", ends, each, seconds=1.0)

    rows = [curve(OWN_LOSS, m, "probability", curves.PGD_RADII[name]) for m in ("coarse", "fine")]
    rows.append(curve(ADAPTIVE, "coarse", "probability", paper["radii"]))
    rows += [curve(ADAPTIVE, "fine", readout, paper["radii"]) for readout in READOUTS]
    about = {"test_accuracy": {"coarse": 0.99, "fine": 0.98}, "seconds": 10.0}
    pair = {"coarse": about, "fine": about}
    return LabelPair(0, ImageCurves(name, tuple(rows)), pair, PgdEnds(2.0, 1.0, 0.3))


def pairs_moved_by(shift: float):
    def patch(monkeypatch):
        monkeypatch.setattr(curves, "data_needed", lambda *_: None)
        monkeypatch.setattr(
            label_pairs,
            "train_pair",
            lambda preset, *_: made_up_pair(preset.split("-", maxsplit=1)[0], shift),
        )

    return patch


def published_are_in(unit: str):
    """Curves that agree with the published ones when radii are in `unit`, and else are far off."""

    def row(protocol, each):
        away = 0.0 if each == unit else -40.0
        paper = PUBLISHED_CURVES["cifar10"]
        percent = {
            m: tuple(np.interp(pgd_protocols.RADII, paper["radii"], paper[m]) + away)
            for m in ("coarse", "fine")
        }
        return pgd_protocols.ProtocolRow(protocol.name, each, 1.0, percent)

    rows = tuple(row(p, each) for p in pgd_protocols.PROTOCOLS for each in p.units)
    study = pgd_protocols.ProtocolStudy(rows, {"coarse": 97.0, "fine": 98.0}, 200)

    def patch(monkeypatch):
        from featavg.training.torch import image_network

        monkeypatch.setattr(protocols, "data_needed", lambda *_: None)
        monkeypatch.setattr(image_network, "train_images", lambda *_, **__: study)
        monkeypatch.setattr(type(study), "net", None, raising=False)
        monkeypatch.setattr(pgd_protocols, "published_protocols", lambda *_: study)

    return patch


def our_radii_times(factor: float):
    """An attack whose radii are `factor` times those of the best opponent."""
    best = np.linspace(0.5, 2.0, 200)
    others = {"DDNAttack": best, "L2DeepFoolAttack": 1.1 * best}
    spent = {"ours": 120.0, "DDNAttack": 120.0, "L2DeepFoolAttack": 40.0}
    share = (float(np.mean(best > 1.0)),)
    made = AttackComparison(
        "made up", "l2", "l2, pixels in [0,1]", 120, factor * best, others, spent, (1.0,), share
    )

    def patch(monkeypatch):
        one = attacks.Attacked("made up", None, None, "fine", Path())
        monkeypatch.setattr(attacks, "_small", lambda _: iter([one]))
        monkeypatch.setattr(attacks, "_of_the_table", lambda _: iter(()))
        monkeypatch.setattr(attacks, "_of_other_claims", lambda _: iter(()))
        monkeypatch.setattr(attacks, "_compared", lambda *_: (made, None))

    return patch


def table_of_labels(gain: float, controlled: float, coarse: float, fine: float):
    """Every network gains as much, `controlled` where its gradient is; A with either labels."""

    def cell(data, network, training, told, seed):
        gains = gain if training == "cross-entropy" else controlled
        radii = (gains if told == "fine" else 1.0) * np.linspace(0.9, 1.1, 5)
        where = LabelCell(data, network, training, told, seed)
        shared = fine if told == "fine" else coarse
        return CellResult(where, 0.9, radii, 0.5, shared, "input", 0.99, 0.1, 1.0, 0.5, 1.0, 1.0)

    def row(data, network, training):
        both = [
            tuple(cell(data, network, training, told, seed) for seed in range(2))
            for told in ("coarse", "fine")
        ]
        return LabelRow(data, network, training, *both)

    rows = [row(d, n, t) for d in ("digits", "mnist") for n in NETWORKS for t in TRAININGS]
    rows += [row("cifar10", "wide CNN", t) for t in ("cross-entropy", "adversarial")]

    def patch(monkeypatch):
        for module in (labels, audit):
            monkeypatch.setattr(module, "tables", lambda _: LabelTable(tuple(rows)))

    return patch


def worst_digit_gains(points: float):
    """What discovered labels add to the accuracy and the radius of the worst digit."""

    def row(method, seed):
        more = 0.0 if method == METHODS[0] else points
        return HiddenRow(method, seed, 0.9, 8, 0.8 + more, 8, 1.0 + more, 0.8, 1.0, 0.5)

    study = HiddenStudy(tuple(row(method, seed) for method in METHODS for seed in range(2)))

    def patch(monkeypatch):
        monkeypatch.setattr(audit, "data_needed", lambda *_: None)
        monkeypatch.setattr(hidden_study, "hidden_subclasses", lambda *_: study)

    return patch


def predictions_times(factor: float):
    def gain(value):
        return FeatureGain(value, 0.9 * value, 1.1 * value, 3.0)

    measured = np.linspace(1.2, 2.0, 9).tolist()
    rows = [GainRow(f"space {i}", gain(factor * m), gain(m)) for i, m in enumerate(measured)]

    def patch(monkeypatch):
        monkeypatch.setattr(audit, "data_needed", lambda *_: None)
        monkeypatch.setattr(gain_study, "feature_spaces", lambda *_: [])
        monkeypatch.setattr(gain_study, "compare_gains", lambda *_, **__: GainStudy(tuple(rows)))

    return patch


def labels_swapped(monkeypatch):
    """Class labels decouple and cluster labels average."""
    honest = audit.simulated_sharing

    def swapped(*args):
        row = honest(*args)
        return replace(row, coarse=row.fine, fine=row.coarse)

    monkeypatch.setattr(audit, "simulated_sharing", swapped)


DEALT_OUT = "finer labels are dealt out at random inside a class"
NO_GAIN = "finer labels gain nothing"
TORCH = ("torch",)
ROWS = (
    Sabotage("images-digits", DEALT_OUT, digits_shuffled, small_digits),
    Sabotage("figure-2-cifar10", DEALT_OUT, heads_shuffled, small_heads),
    Sabotage("figure-2-cifar10-resnet18", DEALT_OUT, heads_shuffled, small_heads),
    Sabotage("figure-2-cifar10-radii", DEALT_OUT, heads_shuffled, small_heads),
    Sabotage(
        "cifar100-superclasses",
        DEALT_OUT,
        superclasses_are(shuffled),
        superclasses_are(lambda made: made),
        needs=TORCH,
    ),
    Sabotage("figure-3-mnist", NO_GAIN, pairs_moved_by(-40.0), pairs_moved_by(0.0), needs=TORCH),
    Sabotage("figure-3-cifar10", NO_GAIN, pairs_moved_by(-40.0), pairs_moved_by(0.0), needs=TORCH),
    Sabotage(
        "figure-3-cifar10-protocol",
        "the published radii are pixels",
        published_are_in("pixels"),
        published_are_in("normalised by 0.2"),
        needs=TORCH,
    ),
    Sabotage(
        "image-attacks",
        "our radii are 5% too long",
        our_radii_times(1.05),
        our_radii_times(0.99),
        needs=("torch", "foolbox"),
    ),
    Sabotage(
        "audit-shared-gradient",
        "class labels decouple",
        labels_swapped,
        setting(audit, N=200),
    ),
    Sabotage(
        "audit-shared-gradient-images",
        "class labels decouple",
        table_of_labels(1.3, 1.05, 0.3, 0.9),
        table_of_labels(1.3, 1.05, 0.9, 0.3),
        needs=TORCH,
    ),
    Sabotage(
        "audit-hidden-digit",
        "discovered labels cost the worst digit 5 points",
        worst_digit_gains(-0.05),
        worst_digit_gains(0.05),
        needs=TORCH,
    ),
    Sabotage(
        "finer-labels-border",
        NO_GAIN,
        table_of_labels(0.9, 1.05, 0.9, 0.3),
        table_of_labels(1.3, 1.05, 0.9, 0.3),
        needs=TORCH,
    ),
    Sabotage(
        "audit-predicted-gain",
        "predictions are 40% too small",
        predictions_times(0.6),
        predictions_times(1.05),
        needs=TORCH,
    ),
)
