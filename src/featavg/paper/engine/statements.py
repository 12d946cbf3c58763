"""Every numbered statement of the five documents, in our words, with its claims or why it has none.

The statements are in `paper/statements.toml`; a claim names those that it checks. `statements_table`
joins them with verdicts, for the report and the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.paper.engine.claim import Claim
from featavg.paper.engine.registry import all_claims
from featavg.paper.engine.result import ClaimResult
from featavg.storage.reading import read_toml

FILE = Path(__file__).parents[1] / "statements.toml"


@dataclass(frozen=True)
class Statement:
    """One statement of a document: where it is found, what it says, and the claims that check it.

    Its id begins with the document's short name, such as "notes-lemma-3"; `reason` says why no claim does.
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
        return documents()[self.document]


@cache
def _read() -> dict[str, Any]:
    return dict(read_toml(FILE))


def documents() -> dict[str, str]:
    """The five documents: short name and title."""
    return dict(_read()["documents"])


@cache
def all_statements() -> tuple[Statement, ...]:
    """Every statement, in the order of the documents, with all claims that name it.

    >>> import featavg as fa
    >>> fa.paper.all_statements()[0].document_title
    'Lecture notes on arXiv 2410.10322'
    """
    named: dict[str, list[str]] = {}
    for claim in all_claims():
        for statement in claim.statements:
            named.setdefault(statement, []).append(claim.id)
    statements = []
    for row in _read()["statements"]:
        document = row["id"].split("-")[0]
        checked_by = tuple(named.pop(row["id"], ()))
        words = row["place"], row["words"], checked_by, row.get("reason", "")
        statements.append(Statement(row["id"], document, *words))
    if named:
        unknown = ", ".join(sorted(named))
        raise InputError("statements", f"of some claim name no statement ({unknown})", "add it to statements.toml")
    return tuple(statements)


@dataclass(frozen=True)
class StatementRow:
    """A statement, one of its claims if any, its verdict ("not run", "no claim"), and finding or reason."""

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

    >>> row = statements_table()[0]
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
