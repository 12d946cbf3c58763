"""Claims on real data: what they need, and the one of the quick tier."""

import importlib.util

import numpy as np
import pytest
from tests.claims.sabotage_images import made_up_pair

from featavg.paper.engine.claim import Context, NotRun, Verdict
from featavg.paper.engine.registry import all_claims
from featavg.paper.images import audit
from featavg.paper.images.curves import ADAPTIVE, OWN_LOSS
from featavg.paper.images.digits import digits
from featavg.paper.images.figure3 import PUBLISHED_CURVES, evidence, mean_curves, picked, stretch_to_published
from featavg.storage.files import dumps, strict_json

CLAIMS = [claim for claim in all_claims() if claim.theme == "Real data"]
FULL = [claim for claim in CLAIMS if claim.tier == "full"]


def test_the_quick_claim_runs_without_torch_and_the_others_are_full():
    quick = [claim.id for claim in CLAIMS if claim.tier == "quick"]
    assert quick == ["images-digits", "audit-shared-gradient"]
    assert len(FULL) >= 6
    result = digits.run(Context(seeds=(0,)))
    assert result.verdict in (Verdict.HOLDS, Verdict.IN_PART)
    assert result.numbers["gains"]["fine, max"] > 1.0


@pytest.mark.parametrize("claim", FULL, ids=lambda c: c.id)
def test_missing_data_is_a_reason_with_a_remedy(claim, tmp_path):
    with pytest.raises(NotRun, match=r"is not there|not installed"):
        claim.run(Context(seeds=(0,), data_dir=tmp_path))


@pytest.mark.parametrize("claim", FULL, ids=lambda c: c.id)
def test_without_torch_the_full_claims_are_not_run(claim, tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a))
    with pytest.raises(NotRun, match="PyTorch is not installed"):
        claim.run(Context(seeds=(0,), data_dir=tmp_path))


def read_at(radii, percent):
    """A curve with these values."""
    return {"radii": list(radii), "accuracy": np.asarray(percent, dtype=float) / 100}


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


def made_up(shift, seed=0):
    return made_up_pair("mnist", shift, seed, (0.0, 1.0, 2.0, -1.0))


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
    assert dumps(strict_json(two.numbers))


def test_the_band_of_a_mean_curve_covers_the_band_of_each():
    pairs = [made_up(0.0), made_up(-10.0)]
    mean = picked(mean_curves(pairs), OWN_LOSS)["fine, probability"]
    each = [picked(pair.curves, OWN_LOSS)["fine, probability"] for pair in pairs]
    assert np.allclose(mean["accuracy"], np.mean([curve["accuracy"] for curve in each], axis=0))
    assert np.all(mean["low"] <= np.min([curve["low"] for curve in each], axis=0))
    assert np.all(mean["high"] >= np.max([curve["high"] for curve in each], axis=0))


def test_what_is_not_in_the_documents_is_said_to_be_ours():
    texts = {claim.id: f"{claim.source} {claim.measured}" for claim in CLAIMS}
    assert "assumption" in texts["figure-3-mnist"]
    assert "Theorem 2" not in texts["figure-2-cifar10-radii"]


@pytest.mark.parametrize(
    ("sabotage", "verdict"), [(None, Verdict.HOLDS), ("labels", Verdict.IN_PART), ("sum", Verdict.FAILS)]
)
def test_the_claim_on_the_shared_gradient_can_fail(monkeypatch, sabotage, verdict):
    """Fine networks with coarse labels average; coarse ones read as fine ones decouple."""
    real = audit.network_sharing

    def changed(task, labels, *given):
        return real(task, {"labels": "coarse", "sum": "fine"}.get(sabotage, labels), *given)

    monkeypatch.setattr(audit, "network_sharing", changed)
    assert audit.simulator.run(Context(seeds=(0, 1)), k=4, d=400, n=200).verdict is verdict
