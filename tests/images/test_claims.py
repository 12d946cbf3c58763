"""Claims on real data: what they need, and the one of the quick tier."""

import importlib.util

import numpy as np
import pytest

from featavg.nets.readouts.registry import READOUTS
from featavg.paper.engine.claim import Context, NotRun, Verdict
from featavg.paper.engine.registry import all_claims
from featavg.paper.images.claim_curves import PGD_RADII, evidence
from featavg.paper.images.claim_digits import digits
from featavg.paper.images.curve_result import (
    PUBLISHED_CURVES,
    ImageCurves,
    stretch_to_published,
)
from featavg.paper.images.curves import PgdEnds
from featavg.paper.images.decision_curve import ADAPTIVE, OWN_LOSS, DecisionCurve
from featavg.paper.images.label_pairs import LabelPair, mean_curves
from featavg.robustness.curve import Curve

CLAIMS = [claim for claim in all_claims() if claim.theme == "Real data"]
FULL = [claim for claim in CLAIMS if claim.tier == "full"]


def test_the_quick_claim_runs_without_torch_and_the_others_are_full():
    quick = [claim.id for claim in CLAIMS if claim.tier == "quick"]
    assert quick == ["images-digits", "audit-shared-gradient"]
    assert len(FULL) >= 6
    result = digits(Context(seeds=(0,)))
    assert result.verdict in (Verdict.HOLDS, Verdict.IN_PART)
    assert result.numbers["gains"]["fine, max"] > 1.0


@pytest.mark.parametrize("claim", FULL, ids=lambda c: c.id)
def test_missing_data_is_a_reason_with_a_remedy(claim, tmp_path):
    with pytest.raises(NotRun, match=r"is not there|not installed"):
        claim.run(Context(seeds=(0,), data_dir=tmp_path))


@pytest.mark.parametrize("claim", FULL, ids=lambda c: c.id)
def test_without_torch_the_full_claims_are_not_run(claim, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a)
    )
    with pytest.raises(NotRun, match="PyTorch is not installed"):
        claim.run(Context(seeds=(0,), data_dir=tmp_path))


def read_at(radii, percent):
    """A curve with these values."""
    share = np.asarray(percent, dtype=float) / 100
    unit = "l2, pixels in [0,1]"
    return Curve(
        np.array(radii, dtype=float), share, share - 0.01, share + 0.01, 100, unit, "made up"
    )


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_common_scale_of_the_radii_is_found(name):
    paper = PUBLISHED_CURVES[name]
    radii = np.array(paper["radii"])
    shrunk = {labels: read_at(radii / 1.3, paper[labels]) for labels in ("coarse", "fine")}
    factor, left = stretch_to_published(name, shrunk)
    assert factor == pytest.approx(1.3, rel=5e-3)
    assert left < 1.0
    # A gap between the two curves is no common scale.
    shrunk["fine"] = read_at(radii / 2.6, paper["fine"])
    assert stretch_to_published(name, shrunk)[1] > 5.0


def made_up(shift: float, seed: int = 0) -> LabelPair:
    """A pair that has the published curves under both protocols, the fine one moved by `shift`."""
    paper = PUBLISHED_CURVES["mnist"]

    def curve(protocol, labels, readout, radii):
        percent = np.interp(radii, paper["radii"], paper[labels])
        moved = read_at(radii, percent + (shift if labels == "fine" else 0.0))
        each = np.array([0.0, 1.0, 2.0, np.inf]) if protocol == ADAPTIVE else None
        return DecisionCurve(protocol, labels, readout, "l2", moved, each, seconds=1.0)

    curves = [curve(OWN_LOSS, m, "probability", PGD_RADII["mnist"]) for m in ("coarse", "fine")]
    curves.append(curve(ADAPTIVE, "coarse", "probability", paper["radii"]))
    curves += [curve(ADAPTIVE, "fine", readout, paper["radii"]) for readout in READOUTS]
    about = {"test_accuracy": {"coarse": 0.99, "fine": 0.98}, "seconds": 10.0}
    ends = PgdEnds(2.0, 1.0, 0.3)
    result = ImageCurves("mnist", tuple(curves))
    return LabelPair(seed, result, {"coarse": about, "fine": about}, ends)


def test_several_pairs_are_averaged_and_each_is_told():
    one = evidence("mnist", [made_up(0.0)])
    other = evidence("mnist", [made_up(0.0), made_up(-30.0, seed=1)])
    assert one.verdict is Verdict.HOLDS
    assert max(one.numbers["distance_from_published"].values()) < 1e-9
    assert "published ones" not in one.finding
    gains = [each[OWN_LOSS] for each in other.numbers["advantage_by_seed"]]
    assert gains[0] - gains[1] == pytest.approx(30.0)
    assert other.numbers["advantage"][OWN_LOSS] == pytest.approx(np.mean(gains))
    assert other.numbers["distance_from_published"]["fine"] == pytest.approx(15.0)
    assert "points (fine labels) from the published ones" in other.finding
    # The claim is about robustness: a lost advantage is not overlooked.
    assert evidence("mnist", [made_up(-30.0)]).verdict is Verdict.FAILS


def test_a_result_says_what_was_really_run():
    two = evidence("mnist", [made_up(0.0, seed=3), made_up(1.0, seed=4)])
    assert two.seeds == (3, 4)
    assert two.seconds == pytest.approx(2 * (10.0 + 10.0 + 6 * 1.0))
    radii = [row["each"] for row in two.numbers["curves"] if row["protocol"] == ADAPTIVE]
    assert radii == [[0.0, 1.0, 2.0, -1.0]] * 8
    assert {row["seed"] for row in two.numbers["curves"]} == {3, 4}


def test_the_band_of_a_mean_curve_covers_the_band_of_each():
    pairs = [made_up(0.0), made_up(-10.0)]
    mean = mean_curves(pairs).by_name(OWN_LOSS)["fine, probability"].curve
    each = [pair.curves.by_name(OWN_LOSS)["fine, probability"].curve for pair in pairs]
    assert np.allclose(mean.accuracy, np.mean([curve.accuracy for curve in each], axis=0))
    assert np.all(mean.low <= np.min([curve.low for curve in each], axis=0))
    assert np.all(mean.high >= np.max([curve.high for curve in each], axis=0))


def test_what_is_not_in_the_documents_is_said_to_be_ours():
    texts = {claim.id: f"{claim.source} {claim.measured}" for claim in CLAIMS}
    assert "assumption" in texts["figure-3-mnist"]
    assert "Theorem 2" not in texts["figure-2-cifar10-radii"]


@pytest.mark.parametrize(
    ("sabotage", "verdict"),
    [(None, Verdict.HOLDS), ("labels", Verdict.IN_PART), ("sum", Verdict.FAILS)],
)
def test_the_claim_on_the_shared_gradient_can_fail(monkeypatch, sabotage, verdict):
    """Fine networks that were told coarse labels average; coarse ones read as fine ones decouple."""
    from featavg.paper.images import claim_audit as audit
    from featavg.paper.images import sharing

    monkeypatch.setattr(audit, "K", 4)
    monkeypatch.setattr(audit, "D", 400)
    monkeypatch.setattr(audit, "N", 200)
    real = sharing.network_sharing

    def told(task, labels, *given):
        return real(task, {"labels": "coarse", "sum": "fine"}.get(sabotage, labels), *given)

    monkeypatch.setattr(sharing, "network_sharing", told)
    assert audit.simulator(Context(seeds=(0, 1))).verdict is verdict


def test_the_finding_speaks_of_refused_spaces_only_if_there_are_some():
    from featavg.paper.images.claim_audit import _spaces

    assert _spaces(9, 0) == "Over 9 feature spaces"
    assert _spaces(7, 2) == "Over 7 feature spaces (2 more were refused)"
