"""Finding claims by id, and that the registered ones are well-formed."""

import pytest
from tests.claims.synthetic import CLAIMS, claim

from featavg.errors import InputError
from featavg.paper.engine.registry import all_claims, find_claims

MORE = (*CLAIMS, claim("theorem-10", pytest.fail), claim("theorem-10-scale", pytest.fail))


@pytest.mark.parametrize(
    ("only", "found"),
    [
        ("theorem-1", ["theorem-1-k4"]),
        ("lemma-5-balance", ["lemma-5-balance"]),
        ("figure", ["figure-2-cosines", "figure-3-mnist"]),
        ("theorem-10", ["theorem-10"]),
        ("theorem, figure-2", ["figure-2-cosines", "theorem-1-k4", "theorem-10", "theorem-10-scale"]),
        (["lemma-3", "lemma-5"], ["lemma-5-balance", "lemma-3-activation"]),
        (None, [c.id for c in MORE]),
    ],
)
def test_exact_ids_and_beginnings(only, found):
    assert [c.id for c in find_claims(only, MORE)] == found


@pytest.mark.parametrize(
    ("only", "hint"), [("lema-5", "lemma-5-balance"), ("mnist", "figure-3-mnist"), ("", "featavg claims")]
)
def test_an_unknown_id_names_its_neighbours(only, hint):
    with pytest.raises(InputError, match="names no claim") as caught:
        find_claims(only, MORE)
    assert hint in str(caught.value)


def test_every_registered_claim_has_its_texts_and_its_own_id():
    claims = all_claims()
    assert len({c.id for c in claims}) == len(claims)
    for one in claims:
        assert one.title
        assert one.theme
        assert one.statement
        assert one.source
        assert one.measured
