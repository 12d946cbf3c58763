"""No statement of the documents without a claim or a reason, and no claim that does not exist."""

from collections import Counter
from dataclasses import replace

import pytest

from featavg.paper.engine.claim import Context, Verdict
from featavg.paper.engine.registry import all_claims, all_statements, documents, find_claims, statements_table
from featavg.paper.engine.result import judge, not_run
from featavg.paper.report.page import page

IDS = {claim.id for claim in all_claims()}


@pytest.mark.parametrize("statement", all_statements(), ids=lambda one: one.id)
def test_every_statement_has_a_claim_or_a_reason(statement) -> None:
    assert statement.document in documents()
    assert statement.place
    assert statement.words
    assert statement.claims or statement.reason
    assert set(statement.claims) <= IDS


def test_every_claim_is_about_a_statement() -> None:
    named = {claim for statement in all_statements() for claim in statement.claims}
    # Those on public networks are about tables of other papers.
    others = {claim.id for claim in all_claims() if claim.theme == "Verification"}
    assert named == IDS - others


def test_statements_have_their_own_names() -> None:
    names = [statement.id for statement in all_statements()]
    assert len(set(names)) == len(names)
    counts = Counter(statement.document for statement in all_statements())
    # A statement that is dropped is noticed here.
    assert counts == {"notes": 41, "itcs": 38, "csml": 38, "summary": 23, "abstract": 5}


def test_documents_number_from_one_without_a_gap() -> None:
    numbered = {
        "notes": (("theorem", 5), ("lemma", 12), ("assumption", 3)),
        "summary": (("mechanism", 3), ("break", 3), ("experiment", 3), ("open", 3), ("check", 3)),
    }
    said = {name: {s.id.removeprefix(f"{name}-") for s in all_statements() if s.document == name} for name in numbered}
    for document, kinds in numbered.items():
        for kind, count in kinds:
            assert {f"{kind}-{i}" for i in range(1, count + 1)} <= said[document]


def test_theorems_and_lemmas_have_claims() -> None:
    """A reason is for definitions, assumptions and outlooks, not for what can be checked."""
    for statement in all_statements():
        if any(word in statement.id for word in ("theorem", "lemma", "conjecture", "remark-", "figure")):
            assert statement.claims, statement.id


def test_the_table_shows_verdicts() -> None:
    (claim,) = find_claims("lemma-3-activation")
    result = replace(not_run(claim, Context(), ""), verdict=Verdict.IN_PART)
    rows = statements_table([result])
    lemma = next(row for row in rows if row.statement.id == "notes-lemma-3")
    assert lemma.verdict == "holds in part"
    assert lemma.claim == "lemma-3-activation"
    assert {row.verdict for row in rows} == {"holds in part", "not run", "no claim"}
    covered = {row.statement.id for row in rows}
    assert covered == {statement.id for statement in all_statements()}


def test_the_report_has_the_table() -> None:
    (claim,) = find_claims("lemma-12-epsilon")
    text = page([judge(claim, Context())], {}, {})
    assert "Every statement of the documents" in text
    assert '<a href="#lemma-12-epsilon">lemma-12-epsilon</a>' in text
    assert "Lecture notes on arXiv 2410.10322" in text
