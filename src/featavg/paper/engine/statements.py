"""Every numbered statement of the five documents, in our words, with its claims or why it has none.

A claim names the statements that it checks (`Claim.statements`); rows here name claims of other
themes that do, and a row without any says why. `statements_table` joins them with verdicts: the
report and the documentation show it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from featavg.errors import InputError
from featavg.paper.engine.claim import Claim
from featavg.paper.engine.registry import all_claims
from featavg.paper.engine.result import ClaimResult
from featavg.paper.engine.statement_rows import DOCUMENTS, ROWS


@dataclass(frozen=True)
class Statement:
    """One statement of a document.

    Attributes:
        id: the document's short name and the statement's own name, such as "notes-lemma-3".
        document: a key of `DOCUMENTS`.
        place: where it is found, such as "Lemma 3".
        words: what it says, in our words.
        claims: ids of the claims that check it.
        reason: why there is none, if there is none.
    """

    id: str
    document: str
    place: str
    words: str
    claims: tuple[str, ...] = ()
    reason: str = ""

    @property
    def document_title(self) -> str:
        """The document, as a reader knows it."""
        return DOCUMENTS[self.document]


@cache
def all_statements() -> tuple[Statement, ...]:
    """Every statement, in the order of the documents, with all claims that name it.

    >>> import featavg as fa
    >>> fa.all_statements()[0].document_title
    'Lecture notes on arXiv 2410.10322'
    """
    named: dict[str, list[str]] = {}
    for claim in all_claims():
        for statement in claim.statements:
            named.setdefault(statement, []).append(claim.id)
    statements = []
    for name, place, words, claims, reason in ROWS:
        document = name.split("-")[0]
        joined = tuple(dict.fromkeys((*named.pop(name, ()), *claims)))
        statements.append(Statement(name, document, place, words, joined, reason))
    if named:
        unknown = ", ".join(sorted(named))
        raise InputError("statements", f"of some claim name no statement ({unknown})", "add a row")
    return tuple(statements)


@dataclass(frozen=True)
class StatementRow:
    """A row of the table: a statement, one of its claims (None without any), and the verdict.

    Attributes:
        verdict: "holds", ..., "not run" if the claim has no result, or "no claim".
        remark: the claim's finding, or the reason why there is no claim.
    """

    statement: Statement
    claim: Claim | None
    verdict: str
    remark: str

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "statement": self.statement.id,
            "document": self.statement.document_title,
            "place": self.statement.place,
            "words": self.statement.words,
            "claim": None if self.claim is None else self.claim.id,
            "verdict": self.verdict,
            "remark": self.remark,
        }


def statements_table(results: Iterable[ClaimResult] = ()) -> tuple[StatementRow, ...]:
    """Statement, claim and verdict, one row for each pair, in the order of the documents.

    Args:
        results: of a run, such as `run_claims` returns; claims without one are "not run".

    >>> import featavg as fa
    >>> row = fa.statements_table()[0]
    >>> row.statement.document_title, row.verdict
    ('Lecture notes on arXiv 2410.10322', 'not run')
    """
    by_id = {result.id: result for result in results}
    claims = {claim.id: claim for claim in all_claims()}
    rows = []
    for statement in all_statements():
        if not statement.claims:
            rows.append(StatementRow(statement, None, "no claim", statement.reason))
        for claim_id in statement.claims:
            result = by_id.get(claim_id)
            verdict = "not run" if result is None else result.verdict.value
            evidence = None if result is None else result.evidence
            remark = "" if evidence is None else evidence.finding
            rows.append(StatementRow(statement, claims[claim_id], verdict, remark))
    return tuple(rows)
