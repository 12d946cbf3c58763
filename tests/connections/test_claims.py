"""The claims of part E: what they find on one seed, so that a change of the finding is noticed."""

import pytest

from featavg.claims import (
    connections_dimples,
    connections_expressivity,
    connections_features,
    connections_margin,
    connections_min_vidal,
    connections_picture,
    connections_radius,
    connections_simplicity,
)
from featavg.claims.connections_mnist_cifar import CLAIMS as WITH_DATA
from featavg.claims.connections_published import CLAIMS as LONG
from featavg.claims.ledger import NotRun, Settings
from featavg.claims.registry import find

FOUND = {
    "connections-min-vidal-limits": (connections_min_vidal, "holds"),
    "connections-min-vidal-radius": (connections_radius, "holds"),
    "connections-simplicity-lms5": (connections_simplicity, "holds"),
    "connections-simplicity-slabs": (connections_simplicity, "holds"),
    "connections-simplicity-margin": (connections_margin, "holds"),
    "connections-robust-features": (connections_features, "holds in part"),
    "connections-dimpled-manifold": (connections_dimples, "holds in part"),
    "connections-expressivity": (connections_expressivity, "holds"),
    "connections-picture": (connections_picture, "holds"),
}


# The sweep over K is the longest of them, and `reproduce` runs it anyway.
@pytest.mark.parametrize("name", [name for name in FOUND if name != "connections-min-vidal-radius"])
def test_a_claim_finds_what_it_found(name):
    module, verdict = FOUND[name]
    claim = next(one for one in module.CLAIMS if one.id == name)
    evidence = claim.run(Settings(seeds=(0,)))
    failed = [check.name for check in evidence.checks if not check.passed]
    assert evidence.verdict.value == verdict, failed
    assert evidence.figures
    assert evidence.finding.endswith(".")


def test_all_are_registered():
    registered = {claim.id for claim in find("connections")}
    assert registered == set(FOUND) | {claim.id for claim in (*LONG, *WITH_DATA)}


def test_without_data_it_says_what_is_missing(tmp_path):
    with pytest.raises(NotRun, match="data-dir"):
        WITH_DATA[0].run(Settings(seeds=(0,), data_dir=tmp_path))
