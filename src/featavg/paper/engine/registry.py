"""Where the claims are: one visible list of modules, each with functions under `@claim`; and the statements.

The order of `MODULES` is the order of the report. Every numbered statement of the five documents is in
`paper/statements.toml`, in our words, with a reason where no claim checks it; a claim names those that it
checks, and `statements_table` joins them with verdicts, for the report and the documentation.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.paper.engine.claim import Claim
from featavg.paper.engine.result import ClaimResult
from featavg.storage.reading import read_toml

# Names of modules in featavg.paper, imported only when the claims are asked for.
MODULES: tuple[str, ...] = (
    "figures.cosines",
    "figures.clean_error",
    "theorems.weights",
    "theorems.scale",
    "theorems.lemmas",
    "theorems.proof",
    "theorems.assumptions",
    "figures.fragility",
    "figures.radii",
    "figures.universal",
    "figures.figure3",
    "figures.linf",
    "margins.linear",
    "margins.homogeneous",
    "margins.kkt",
    "margins.table",
    "margins.rate",
    "connections.min_vidal",
    "connections.simplicity",
    "connections.mnist_cifar",
    "connections.hinted_margin",
    "connections.robust_features",
    "connections.dimpled_manifold",
    "connections.expressivity",
    "connections.picture",
    "connections.implicit_bias",
    "connections.optimal_radius",
    "connections.min_vidal_descent",
    "connections.min_vidal_mnist",
    "images.digits",
    "images.heads",
    "images.superclasses",
    "images.figure3",
    "images.protocols",
    "images.attacks",
    "images.audit",
    "images.hidden",
    "images.labels",
    "questions.angle",
    "questions.optimizers",
    "questions.adversarial",
    "questions.borders",
    "questions.depth",
    "questions.depth_inner",
    "questions.depth_margin",
    "verification.decided",
    "verification.prelu",
    "remedies.labels_share",
    "remedies.labels_clusters",
    "remedies.labels_images",
    "remedies.competition",
    "remedies.competition_images",
    "remedies.competition_deep",
    "remedies.without_fine_labels",
)


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, in the order of the report.

    >>> import featavg as fa
    >>> [claim.id for claim in fa.paper.all_claims() if claim.id.startswith("theorem-1")][:2]
    ['theorem-1-averaging', 'theorem-1-coefficients']
    """
    claims = tuple(claim for module in MODULES for claim in claims_in(f"featavg.paper.{module}"))
    ids = [claim.id for claim in claims]
    twice = sorted({name for name in ids if ids.count(name) > 1})
    if twice:
        raise InputError("CLAIMS", f"has {', '.join(twice)} twice", "give every claim its own id")
    return claims


def claims_in(module: str) -> list[Claim]:
    """The claims that a module defines, in the order of the file."""
    things = list(vars(import_module(module)).values())
    listed = [claim for thing in things if isinstance(thing, tuple) for claim in thing]
    return [thing for thing in (*things, *listed) if isinstance(thing, Claim)]


def find_claims(only: str | Iterable[str] | None, claims: Iterable[Claim] | None = None) -> list[Claim]:
    """The claims with these ids; where no claim has one, those that begin with it; all for None.

    `theorem-1` finds `theorem-1-averaging`, not `theorem-10`. An id names its claim alone, so that the
    command that repeats `figure-2-cifar10` does not begin `figure-2-cifar10-resnet18` too. Commas
    separate ids in one string. The order is the report's, whatever the order asked for.
    """
    known = tuple(all_claims() if claims is None else claims)
    if only is None:
        return list(known)
    wanted = [part.strip() for part in (only.split(",") if isinstance(only, str) else only)]
    if not wanted:
        raise InputError("only", "is an empty list", "name a claim, or leave it out for all")
    ids = [claim.id for claim in known]
    chosen: set[str] = set()
    for name in wanted:
        meant = {name} if name in ids else {one for one in ids if name and one.startswith(f"{name}-")}
        if not meant:
            raise InputError("only", f"names no claim ({name!r})", _suggestion(name, ids))
        chosen |= meant
    return [claim for claim in known if claim.id in chosen]


def _suggestion(name: str, ids: list[str]) -> str:
    stems = sorted({"-".join(i.split("-")[: n + 1]) for i in ids for n in range(i.count("-"))})
    near = difflib.get_close_matches(name, sorted({*ids, *stems}), n=4, cutoff=0.4)
    near += [i for i in ids if name and name in i and i not in near]
    listed = "`featavg claims` lists them all"
    return f"did you mean {', '.join(near[:5])}? {listed}" if near else listed


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
    return dict(read_toml(Path(__file__).parents[1] / "statements.toml"))


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
    """A statement, the id of one of its claims, its verdict; or "", "no claim" and the reason."""

    statement: Statement
    claim: str
    verdict: str
    reason: str


def statements_table(results: Iterable[ClaimResult] = ()) -> tuple[StatementRow, ...]:
    """Statement, claim and verdict, one row for each pair, in the order of the documents.

    Args:
        results: of a run, such as `run_claims` returns; claims without one are "not run".

    >>> row = statements_table()[0]
    >>> row.statement.document_title, row.verdict
    ('Lecture notes on arXiv 2410.10322', 'not run')
    """
    verdicts = {result.id: result.verdict.value for result in results}
    rows = []
    for statement in all_statements():
        if not statement.claims:
            rows.append(StatementRow(statement, "", "no claim", statement.reason))
        for claim in statement.claims:
            rows.append(StatementRow(statement, claim, verdicts.get(claim, "not run"), ""))
    return tuple(rows)
