"""Claims on real data: what they need, and the one of the quick tier."""

import sys

import numpy as np
import pytest

from featavg.claims.images.curves import PGD_RADII, Pair, evidence
from featavg.claims.images.digits import CLAIMS, digits
from featavg.claims.ledger import ClaimSettings, NotRun, Verdict
from featavg.experiments.images.published_curves import PUBLISHED, stretch_to_published
from featavg.nets.readouts.registry import READOUTS


def test_the_quick_claim_runs_without_torch_and_the_others_are_full():
    tiers = {claim.id: claim.tier for claim in CLAIMS}
    assert [name for name, tier in tiers.items() if tier == "quick"] == ["images-digits"]
    evidence = digits(ClaimSettings(seeds=(0,)))
    assert evidence.verdict in set(Verdict)
    assert evidence.numbers["gains"]["fine, max"] > 1.0


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.tier == "full"], ids=lambda c: c.id)
def test_missing_data_is_a_reason_with_a_remedy(claim, tmp_path):
    with pytest.raises(NotRun, match=r"is not there|not installed"):
        claim.run(ClaimSettings(seeds=(0,), data_dir=tmp_path))


@pytest.mark.parametrize("claim", [c for c in CLAIMS if c.tier == "full"], ids=lambda c: c.id)
def test_without_torch_the_full_claims_are_not_run(claim, tmp_path, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "torch" else real(name, *a)
    )
    with pytest.raises(NotRun, match="PyTorch is not installed"):
        claim.run(ClaimSettings(seeds=(0,), data_dir=tmp_path))
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


def made_up(shift: float) -> Pair:
    """A pair that has the published curves under both protocols, the fine one moved by `shift`."""
    published = PUBLISHED["mnist"]

    def row(model: str, readout: str, norm: str, radii: tuple[float, ...]) -> dict[str, object]:
        percent = np.interp(radii, published["radii"], published[model])
        share = (percent + (shift if model == "fine" else 0.0)) / 100
        return {
            "model": model,
            "readout": readout,
            "norm": norm,
            "radii": list(radii),
            "accuracy": share.tolist(),
            "low": (share - 0.01).tolist(),
            "high": (share + 0.01).tolist(),
            "median": 1.0 + shift,
            "each": [0.0, 0.5, 1.0, -1.0],
            "label": "made up",
        }

    fine = [row("fine", readout, "l2", published["radii"]) for readout in READOUTS]
    found = {
        "published": [row(m, "probability", "l2", PGD_RADII["mnist"]) for m in ("coarse", "fine")],
        "adaptive": [row("coarse", "probability", "l2", published["radii"]), *fine],
    }
    names = ("architecture", "recipe", "seconds", "history", "torch", "task")
    about = dict.fromkeys(names) | {"test_accuracy": {"coarse": 0.99, "fine": 0.98}}
    ends = {"radius": 2.0, "fooled": 1.0, "kept": 0.3}
    return Pair(found, {"coarse": about, "fine": about}, ends)


def test_several_pairs_are_averaged_and_each_is_told():
    one, other = (
        evidence("mnist", [made_up(0.0)]),
        evidence("mnist", [made_up(0.0), made_up(-30.0)]),
    )
    assert one.verdict is Verdict.HOLDS
    assert max(one.numbers["distance_from_published"].values()) < 1e-9
    assert "published ones" not in one.finding
    gains = [each["as published"] for each in other.numbers["advantage_by_seed"]]
    assert gains[0] - gains[1] == pytest.approx(30.0)
    assert other.numbers["advantage"]["as published"] == pytest.approx(np.mean(gains))
    assert other.numbers["median_l2"]["fine, max"] == pytest.approx(-14.0)
    assert other.numbers["distance_from_published"]["fine"] == pytest.approx(15.0)
    assert "points (fine labels) from the published ones" in other.finding
    # The claim is about robustness: a lost advantage is not overlooked.
    assert evidence("mnist", [made_up(-30.0)]).verdict is not Verdict.HOLDS
