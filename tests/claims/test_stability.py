"""Verdicts over other blocks of seeds: which seeds, what is kept, what is recorded."""

import json

import numpy as np
import pytest
from tests.claims.synthetic import claim

from featavg.__main__ import main
from featavg.errors import InputError
from featavg.paper.engine import stability as module
from featavg.paper.engine.claim import Check, Context, Evidence
from featavg.paper.engine.registry import all_claims
from featavg.paper.engine.result import judge
from featavg.paper.engine.stability import block_seeds, record_verdicts, stability


class Seen:
    """A program that holds on the seeds below 2000, and remembers which it was given."""

    def __init__(self):
        self.seeds = []

    def __call__(self, run):
        self.seeds.append(run.seeds)
        return Evidence(Check("seeds", np.array(run.seeds, dtype=float), "<=", 2000.0))


def test_each_block_is_judged_by_its_own_seeds(tmp_path):
    program = Seen()
    found = stability(claims=[claim("a", program)], blocks=2, out=tmp_path, quiet=True, workers=1)
    assert found == {"a": ["holds", "holds", "fails"]}
    assert program.seeds == [block_seeds(0), block_seeds(1), block_seeds(2)]
    assert len(set().union(*program.seeds)) == 15


def test_a_killed_run_goes_on(tmp_path):
    program = Seen()
    for blocks in (1, 2):
        stability(claims=[claim("a", program)], blocks=blocks, out=tmp_path, quiet=True, workers=1)
    assert len(program.seeds) == 3


def test_a_claim_with_more_seeds_gets_them_in_every_block():
    program = Seen()
    judge(claim("a", program, times=4), Context(seeds=block_seeds(1)))
    assert program.seeds == [tuple(range(1000, 1020))]


def test_no_claim_uses_a_seed_of_another_block():
    for each in all_claims():
        blocks = [each.seeds_used(block_seeds(block)) for block in range(11)]
        used = [seed for block in blocks for seed in block]
        assert len(set(used)) == len(used), each.id


@pytest.mark.parametrize(
    ("chosen", "options", "word"),
    [
        ([claim("a", Seen(), seeds=0)], {}, "only"),
        ([claim("a", Seen(), tier="full")], {}, "only"),
        ([claim("a", Seen())], {"blocks": 0}, "blocks"),
    ],
)
def test_what_has_nothing_to_count_is_refused(tmp_path, chosen, options, word):
    with pytest.raises(InputError) as refused:
        stability(claims=chosen, out=tmp_path, quiet=True, **options)
    assert refused.value.argument == word


def test_a_record_keeps_the_verdicts_of_other_claims(tmp_path):
    path = tmp_path / "stability.json"
    record_verdicts({"theorem-2-clean": ["holds", "holds"]}, path)
    record_verdicts({"theorem-1-averaging": ["holds", "fails"]}, path)
    claims = json.loads(path.read_text())["claims"]
    assert {name: each["verdicts"] for name, each in claims.items()} == {
        "theorem-1-averaging": ["holds", "fails"],
        "theorem-2-clean": ["holds", "holds"],
    }
    assert all(each["commit"] for each in claims.values())


def test_the_command_prints_what_the_function_gives(tmp_path, capsys):
    file = tmp_path / "stability.json"
    command = ["stability", "--only", "theorem-2-clean", "--blocks", "1", "--out", str(tmp_path)]
    assert main([*command, "--json", str(file)]) == 0
    assert json.loads(file.read_text()) == {"theorem-2-clean": ["holds", "holds"]}
    assert "1 of 1" in capsys.readouterr().out
    assert not module.recorded(tmp_path / "none")


def test_a_record_is_told_in_a_sentence(monkeypatch):
    made = {"claims": {"a": {"verdicts": ["holds", "holds", "undecided"]}, "b": {"verdicts": ["holds"]}}}
    monkeypatch.setattr(module, "recorded", lambda: made)
    said = "the same verdict on 1 of 2 other blocks of seeds (1 undecided)"
    assert module.in_words("a", "holds") == said
    assert module.in_words("b", "holds") == module.in_words("c", "holds") == ""
