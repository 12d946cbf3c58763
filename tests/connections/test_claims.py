"""The claims on connections: what they find on one seed, so that a change of the finding is noticed."""

import pytest

from featavg.paper.connections import claim_dimples as dimples
from featavg.paper.connections import claim_expressivity as expressivity
from featavg.paper.connections import claim_features as features
from featavg.paper.connections import claim_margin as margin
from featavg.paper.connections import claim_min_vidal as min_vidal
from featavg.paper.connections import claim_min_vidal_radius as min_vidal_radius
from featavg.paper.connections import claim_optimal_radius as optimal_radius
from featavg.paper.connections import claim_picture as picture
from featavg.paper.connections import claim_simplicity as simplicity
from featavg.paper.connections.claim_published import CLAIMS as LONG
from featavg.paper.engine.claim import Context, NotRun
from featavg.paper.engine.registry import find_claims

FOUND = {
    "connections-min-vidal-limits": (min_vidal, "holds"),
    "connections-min-vidal-radius": (min_vidal_radius, "holds"),
    "connections-simplicity-lms5": (simplicity, "holds"),
    "connections-simplicity-slabs": (simplicity, "holds"),
    "connections-simplicity-margin": (margin, "holds"),
    "connections-robust-features": (features, "holds in part"),
    "connections-dimpled-manifold": (dimples, "holds in part"),
    "connections-expressivity": (expressivity, "holds"),
    "connections-picture": (picture, "holds"),
    "connections-optimal-radius": (optimal_radius, "holds"),
}


# The sweep over K is the longest of them, and `reproduce` runs it anyway.
@pytest.mark.parametrize("name", [name for name in FOUND if name != "connections-min-vidal-radius"])
def test_a_claim_finds_what_it_found(name):
    module, verdict = FOUND[name]
    claim = next(one for one in module.CLAIMS if one.id == name)
    evidence = claim.run(Context(seeds=(0,)))
    failed = [check.name for check in evidence.checks if not check.passed]
    assert evidence.verdict.value == verdict, failed
    assert evidence.figures
    assert evidence.finding.endswith(".")


def test_all_are_registered():
    registered = {claim.id for claim in find_claims("connections")}
    assert registered == set(FOUND) | {claim.id for claim in LONG} | {
        "connections-simplicity-mnist-cifar",
        "connections-min-vidal-descent",
        "connections-min-vidal-mnist",
    }


def test_without_data_it_says_what_is_missing(tmp_path):
    with pytest.raises(NotRun, match="data-dir"):
        next(c for c in simplicity.CLAIMS if c.tier == "full").run(
            Context(seeds=(0,), data_dir=tmp_path)
        )
