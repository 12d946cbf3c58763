"""Pages about verdicts, from what `tools/record_verdicts.py` kept, and the marks on other pages.

In a page, `[[theorem-1-averaging]]` becomes the verdict of that claim with a link to its row, and
`{findings: a b}` a table of what these claims found.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"


def write(folder: Path) -> None:
    """Write the two tables and fill in the marks of the other pages."""
    recorded = json.loads((DOCS / "verdicts.json").read_text(encoding="utf-8"))
    claims = {claim["id"]: claim for claim in recorded["claims"]}
    (folder / "verdicts.md").write_text(_verdicts(recorded), encoding="utf-8")
    (folder / "statements.md").write_text(_statements(recorded["statements"]), encoding="utf-8")
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(folder).parts) - 1)
        filled = marked(text, claims, up)
        if filled != text:
            page.write_text(filled, encoding="utf-8")


def marked(text: str, claims: dict[str, dict[str, Any]], up: str = "") -> str:
    """`text` with its marks filled in; an id that no claim has is an error."""

    def verdict(match: re.Match[str]) -> str:
        claim = claims[match[1]]
        words = f"{claim['symbol']} {claim['verdict']}"
        return f'<a class="verdict" href="{up}verdicts.html#{claim["id"]}" title="{claim["id"]}">{words}</a>'

    def findings(match: re.Match[str]) -> str:
        rows = ["| claim | verdict | what was found |", "|---|---|---|"]
        for name in match[1].split():
            claim = claims[name]
            finding = cell(claim["finding"] or claim["decided"])
            rows.append(f"| `{name}` | {claim['symbol']} {claim['verdict']} | {finding} |")
        return "\n".join(rows)

    text = re.sub(r"\[\[([a-z0-9.-]+)\]\]", verdict, text)
    return re.sub(r"^\{findings: ([^}]+)\}$", findings, text, flags=re.M)


def _verdicts(recorded: dict[str, Any]) -> str:
    lines = [
        "# What holds and what does not",
        "",
        f"{len(recorded['claims'])} claims, as they came out with featavg {recorded['version']}. "
        "Each is a program: `featavg reproduce --only ID` repeats it. A claim that fails is a "
        "finding, and stands here like one that holds.",
        "",
        *_rule(),
    ]
    themes: dict[str, list[dict[str, str]]] = {}
    for claim in recorded["claims"]:
        themes.setdefault(claim["theme"], []).append(claim)
    for theme, claims in themes.items():
        lines += [f"## {theme}", "", "| verdict | claim | what decided | tolerance |"]
        lines.append("|---|---|---|---|")
        for claim in claims:
            lines.append(
                f"| {claim['symbol']} {claim['verdict']} "
                f'| <a id="{claim["id"]}"></a>`{claim["id"]}`: {cell(claim["title"])} '
                f"| {cell(claim['decided'])} | {cell(claim['tolerance'])} |"
            )
        lines.append("")
        for claim in claims:
            if claim["verdict"] not in ("holds", "not run") and claim["finding"]:
                lines += [f"**{claim['id']}**: {plain_tags(claim['finding'])}", ""]
    return "\n".join(lines)


def _rule() -> list[str]:
    """How a verdict is reached, from the ledger itself."""
    from featavg.claims.ledger import Verdict

    lines = [
        "## How a verdict is reached",
        "",
        "Every claim has one **main** check, which is its statement, and may have other **essential** "
        "ones. What else was measured is a **note** and changes no verdict. Tolerances are in the "
        "code and were fixed before the first run. A check over seeds is about their mean, give or take "
        "one standard deviation of the seeds: all of that interval within the tolerance passes, all of "
        "it outside fails, a part on each side is undecided.",
        "",
        "| verdict | when |",
        "|---|---|",
    ]
    lines += [f"| {verdict.symbol} {verdict.value} | {verdict.sentence} |" for verdict in Verdict]
    return [*lines, ""]


def _statements(statements: list[dict[str, Any]]) -> str:
    lines = [
        "# Every statement and its claim",
        "",
        "Each numbered statement of the documents in our words, the claims that check it, and their "
        "verdicts; where there is no claim, the reason.",
        "",
    ]
    documents: dict[str, list[dict[str, Any]]] = {}
    for statement in statements:
        documents.setdefault(statement["document"], []).append(statement)
    for document, rows in documents.items():
        lines += [f"## {document}", "", "| place | in our words | claims and verdicts |"]
        lines.append("|---|---|---|")
        for row in rows:
            pairs = zip(row["claims"], row["verdicts"], strict=True)
            links = (
                f'<a href="verdicts.html#{name}"><code>{name}</code></a>: {verdict}'
                for name, verdict in pairs
            )
            checked = "; ".join(links) or cell(row["reason"])
            lines.append(f"| {cell(row['place'])} | {cell(row['words'])} | {checked} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return plain_tags(text).replace("|", "\\|").replace("\n", " ")


def plain_tags(text: str) -> str:
    """Our texts use <sub>, <sup>, <i>, <b>, which Markdown lets through."""
    return text.replace("*", "\\*").replace("$", "\\$")
