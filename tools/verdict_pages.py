"""Pages about verdicts, from what `tools/record_verdicts.py` kept, and the marks on other pages.

In a page, `[[theorem-1-averaging]]` becomes the verdict of that claim with a link to its row, and
`{findings: a b}` a table of what these claims found, and `{networks: a b}` one of the public networks
that they recorded, a row each; `{audited}` is the table of `docs/audited.json`. `docs/explained.toml`
says in plain words what a verdict other than "holds" means.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
# What a reader wants to know first.
ORDER = ("fails", "holds in part", "undecided", "not run", "holds")
HEADINGS = {
    "fails": "What fails",
    "holds in part": "What holds in part",
    "undecided": "What is undecided",
    "not run": "What was not run",
}


def write(folder: Path) -> None:
    """Write the two tables and fill in the marks of the other pages."""
    recorded = json.loads((DOCS / "verdicts.json").read_text(encoding="utf-8"))
    claims = {claim["id"]: claim for claim in recorded["claims"]}
    explain(claims)
    (folder / "verdicts.md").write_text(_verdicts(recorded), encoding="utf-8")
    (folder / "statements.md").write_text(_statements(recorded["statements"], claims), encoding="utf-8")
    for page in folder.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        up = "../" * (len(page.relative_to(folder).parts) - 1)
        filled = marked(text, claims, up)
        if filled != text:
            page.write_text(filled, encoding="utf-8")


def explain(claims: dict[str, dict[str, Any]]) -> None:
    """Give every claim its sentence in plain words: `why`, empty where there is none for its verdict."""
    from featavg.storage.reading import read_toml

    sentences = read_toml(DOCS / "explained.toml")
    for name, claim in claims.items():
        few = claim.get("reason", "").startswith("It rests on")
        said = sentences.get(name, {}).get(claim["verdict"], "")
        claim["why"] = claim["reason"] if few else said
        if not claim["why"] and claim["verdict"] not in ("holds", "not run"):
            print(f'docs/explained.toml has no sentence for {name}, "{claim["verdict"]}"')


def marked(text: str, claims: dict[str, dict[str, Any]], up: str = "") -> str:
    """`text` with its marks filled in; an id that no claim has is an error."""

    def findings(match: re.Match[str]) -> str:
        rows = ["| claim | verdict | what was found |", "|---|---|---|"]
        for name in match[1].split():
            claim = claims[name]
            found = cell(claim["finding"] or claim["decided"])
            if claim.get("why"):
                found = f"{cell(claim['why'])} {numbers(found)}"
            rows.append(f"| {cell(claim['title'])} {code(name)} | {chip(claim, up)} | {found} |")
        return "\n".join(rows)

    text = re.sub(r"^\{networks: ([^}]+)\}$", _networks, text, flags=re.M)
    if "{audited}" in text:
        text = re.sub(r"^\{audited\}$", lambda _: _audited(), text, flags=re.M)
    text = re.sub(r"\[\[([a-z0-9.-]+)\]\]", lambda match: chip(claims[match[1]], up), text)
    return re.sub(r"^\{findings: ([^}]+)\}$", findings, text, flags=re.M)


def _networks(match: re.Match[str]) -> str:
    """The rows that claims of the theme verification recorded."""
    from featavg.paper.engine.store import recorded_result

    columns = "network, images, threat model, published, certified, flipped, misclassified, open, CPU seconds"
    lines = [f"| {columns.replace(', ', ' | ')} |", "|---" * 9 + "|"]
    for name in match[1].split():
        result = recorded_result(name)
        if result is None or result.evidence is None:
            lines.append(f"| not recorded yet: {code(name)} {'| ' * 9}")
            continue
        for row in result.evidence.numbers["rows"]:
            spent = f"{row['cpu_seconds_mean']:.2f}, {row['cpu_seconds_most']:.1f} at most"
            threat = f"{row['threat']}, {row['radius']:.3g}"
            cells = [row["network"], row["images"], threat, row["published"]]
            cells += [row[status] for status in ("certified", "flipped", "misclassified", "open")]
            lines.append(f"| {' | '.join(cell(str(one)) for one in [*cells, spent])} |")
    return "\n".join(lines)


def _audited() -> str:
    """The public networks that were audited, from `tools/record_audits.py`."""
    heads = "network | verdict | A [95%], its null | at | predicted gain | label budget | median radius"
    lines = [f"| {heads} | accuracy | CPU seconds |", "|---" * 9 + "|"]
    for name, row in json.loads((DOCS / "audited.json").read_text(encoding="utf-8")).items():
        shared = gain = "–"
        if row["shared"]:
            value, low, high, null = row["shared"]
            shared = f"{value:.2f} [{low:.2f}, {high:.2f}], {null:.2f}"
        if row["gain"] and row["gain"][0]:
            gain = "{:.2f} [{:.2f}, {:.2f}]".format(*row["gain"])
        cells = [name, f"**{row['verdict']}**", shared, row["layer"], gain, f"{row['radius']:.3g}"]
        cells += [f"{row['accuracy']:.1%}", f"{row['seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def chip(claim: dict[str, Any], up: str = "", place: str = "", words: str = "") -> str:
    """A verdict as a small coloured mark that leads to the claim's row; its title says more."""
    hint = f"{claim['verdict']}: {claim['title']}. {claim.get('why', '')}"
    title = escape(re.sub(r"<[^>]+>", "", hint).strip(), quote=True)
    words = f"{claim['symbol']}&nbsp;{words or claim['verdict'].replace(' ', '&nbsp;')}"
    aim = place or f"{up}verdicts.html#{claim['id']}"
    return f'<a class="verdict {look(claim["verdict"])}" href="{aim}" title="{title}">{words}</a>'


def look(verdict: str) -> str:
    """The class of its colour, as the report has it."""
    return "v-" + verdict.replace("holds in part", "in part").replace(" ", "-")


def _verdicts(recorded: dict[str, Any]) -> str:
    claims = recorded["claims"]
    lines = [
        "# What holds and what does not",
        "",
        f"{len(claims)} claims, as they came out with featavg {recorded['version']}. Each is a "
        "program: `featavg reproduce --only ID` repeats it. A claim that fails is a finding, and "
        "stands here like one that holds. [Every statement](statements.md) of the documents has "
        "its claims beside it.",
        "",
        *_counts(claims),
    ]
    for verdict in ORDER[:-1]:
        lines += _in_words(verdict, [one for one in claims if one["verdict"] == verdict])
    lines += _rule()
    lines += _other_seeds(claims)
    themes: dict[str, list[dict[str, str]]] = {}
    for claim in claims:
        themes.setdefault(claim["theme"], []).append(claim)
    lines += ["## All claims", ""]
    for theme, listed in themes.items():
        lines += [f"### {theme}", "", "| verdict | claim | what decided | tolerance |"]
        lines.append("|---|---|---|---|")
        for claim in listed:
            aim = f"#why-{claim['id']}" if claim["verdict"] != "holds" else f"#{claim['id']}"
            lines.append(
                f"| {chip(claim, place=aim)} "
                f'| <a id="{claim["id"]}"></a>{cell(claim["title"])} {code(claim["id"])} '
                f"| {cell(claim['decided'])} | {cell(claim['tolerance'])} |"
            )
        lines.append("")
    return "\n".join(lines)


def _counts(claims: list[dict[str, Any]]) -> list[str]:
    """How many of each verdict, as links to where they are listed."""
    counts = Counter((claim["verdict"], claim["symbol"]) for claim in claims)
    tiles = []
    for (verdict, symbol), count in sorted(counts.items(), key=lambda item: -item[1]):
        aim = HEADINGS.get(verdict, "All claims").lower().replace(" ", "-")
        tiles.append(f'<a class="tile {look(verdict)}" href="#{aim}"><b>{count}</b><span>{symbol} {verdict}</span></a>')
    return ["```{raw} html", f'<p class="tiles">{"".join(tiles)}</p>', "```", ""]


def _in_words(verdict: str, claims: list[dict[str, Any]]) -> list[str]:
    """Claims of one verdict: what it means in plain words, and behind a click what was found."""
    if not claims:
        return []
    lines = [f"## {HEADINGS[verdict]}", ""]
    for claim in claims:
        found = claim["finding"]
        lines += [
            ":::{container} in-words",
            f'<a id="why-{claim["id"]}"></a>{chip(claim)} **{cell(claim["title"])}** {code(claim["id"])}',
            "",
            cell(claim["why"] or (claim["decided"] if verdict == "not run" else found)),
        ]
        if claim["why"] and found:
            # A line that begins with a tag is HTML to Markdown, which then leaves it alone.
            decided = f"{claim['decided']} (tolerance {claim['tolerance']})."
            lines += ["", numbers(powers(f"{decided} {found}").replace("\n", " "))]
        lines += [":::", ""]
    return lines


def _other_seeds(claims: list[dict[str, Any]]) -> list[str]:
    """How often other blocks of five seeds gave the same verdict, from `featavg stability --record`."""
    from featavg.paper.engine.stability import agreement, others_text, recorded

    kept = recorded().get("claims", {})
    counted = [
        (claim, kept[claim["id"]]["verdicts"])
        for claim in claims
        if len(kept.get(claim["id"], {}).get("verdicts", ())) > 1
    ]
    if not counted:
        return []
    rows, all_alike = [], 0
    for claim, verdicts in counted:
        same, count = agreement(verdicts, claim["verdict"])
        all_alike += same == count
        others = others_text(verdicts, claim["verdict"]) or "none"
        title = f"{cell(claim['title'])} {code(claim['id'])}"
        rows.append(f"| {title} | {chip(claim)} | {same} of {count} | {others} |")
    return [
        "## By other seeds",
        "",
        f"{len(counted)} claims were judged again by other blocks of five seeds (`featavg stability`); "
        f"{all_alike} of them came out the same every time.",
        "",
        "| claim | verdict | the same | others |",
        "|---|---|---|---|",
        *rows,
        "",
    ]


def _rule() -> list[str]:
    """How a verdict is reached, from the ledger itself."""
    from featavg.paper.engine.claim import Verdict

    lines = [
        "## How a verdict is reached",
        "",
        "Every claim has one **main** check, which is its statement, and may have other **essential** "
        "ones. What else was measured is a **note** and changes no verdict. Tolerances are in the "
        "code and were fixed before the first run. A check over seeds is about their mean, give or take "
        "one standard deviation of the seeds: all of that interval within the tolerance passes, all of "
        "it outside fails, a part on each side is undecided. Where an average varies by as much as its "
        "tolerance from seed to seed, the check is about the mean of twenty seeds and its 95% interval.",
        "",
        "| verdict | when |",
        "|---|---|",
    ]
    for verdict in Verdict:
        words = f"{verdict.symbol}&nbsp;{verdict.value.replace(' ', '&nbsp;')}"
        lines.append(f'| <span class="verdict {look(verdict.value)}">{words}</span> | {verdict.sentence} |')
    return [*lines, ""]


def _statements(statements: list[dict[str, Any]], claims: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Every statement and its claim",
        "",
        "Each numbered statement of the documents in our words, the claims that check it, and their "
        "verdicts: ✓ holds, ◐ holds in part, ? undecided, ✗ fails, – not run. Where there is no "
        "claim, the reason. [What the verdicts mean](verdicts.md).",
        "",
    ]
    documents: dict[str, list[dict[str, Any]]] = {}
    for statement in statements:
        documents.setdefault(statement["document"], []).append(statement)
    for document, rows in documents.items():
        lines += [f"## {document}", "", "| place | in our words | claims and verdicts |"]
        lines.append("|---|---|---|")
        for row in rows:
            links = (chip(claims[name], words=name) if name in claims else code(name) for name in row["claims"])
            checked = "<br>".join(links) or cell(row["reason"])
            lines.append(f"| {cell(row['place'])} | {cell(row['words'])} | {checked} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def numbers(text: str) -> str:
    """What is behind a click."""
    return f"<details><summary>In numbers</summary><p>{text}</p></details>"


def code(name: str) -> str:
    return f'<small class="id">{name}</small>'


def cell(text: str) -> str:
    """For a cell of a table: <sub>, <sup>, <i>, <b> pass through Markdown, other signs it would read are escaped."""
    parts = powers(text).replace("|", "\\|").replace("\n", " ").split("`")
    return "`".join(part if i % 2 else re.sub(r"[*$_]", r"\\\g<0>", part) for i, part in enumerate(parts))


def powers(text: str) -> str:
    """What is printed as 10^-3 in a terminal is raised on a page."""
    return re.sub(r"\b10\^(-?\d+(?:\.\d+)?)", r"10<sup>\1</sup>", text)
