"""Claims on real data: what they need, and the one of the quick tier."""

import sys

import pytest

from featavg.claims.images import CLAIMS, digits
from featavg.claims.ledger import NotRun, Settings, Verdict
from featavg.claims.published_curves import PUBLISHED, stretch_to_published


def test_the_quick_claim_runs_without_torch_and_the_others_are_full():
    tiers = {claim.id: claim.tier for claim in CLAIMS}
    assert [name for name, tier in tiers.items() if tier == "quick"] == ["images-digits"]
    evidence = digits(Settings(seeds=(0,)))
    assert evidence.verdict in set(Verdict)
    assert evidence.numbers["gains"]["fine, max"] > 1.0


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.tier == "full"], ids=lambda c: c.id)
def test_missing_data_is_a_reason_with_a_remedy(claim, tmp_path):
    with pytest.raises(NotRun, match=r"is not there|not installed"):
        claim.run(Settings(seeds=(0,), data_dir=tmp_path))


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.tier == "full"], ids=lambda c: c.id)
def test_without_torch_the_full_claims_are_not_run(claim, tmp_path, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a)
    )
    with pytest.raises(NotRun, match="PyTorch is not installed"):
        claim.run(Settings(seeds=(0,), data_dir=tmp_path))
    assert "numpy" in sys.modules


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_common_scale_of_the_radii_is_found(name):
    paper = PUBLISHED[name]
    shrunk = {
        model: {
            "radii": [r / 1.3 for r in paper["radii"]],
            "accuracy": [share / 100 for share in paper[model]],
        }
        for model in ("coarse", "fine")
    }
    factor, left = stretch_to_published(name, shrunk)
    assert factor == pytest.approx(1.3, rel=5e-3)
    assert left < 1.0
    # A gap between the two curves is no common scale.
    shrunk["fine"]["radii"] = [r / 2 for r in shrunk["fine"]["radii"]]
    assert stretch_to_published(name, shrunk)[1] > 5.0
