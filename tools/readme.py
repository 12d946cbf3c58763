"""Fill the marked place of the README from what was recorded, and draw the figures it leads with.

`--check` only says whether the text fits.

python tools/readme.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

from featavg.paper.engine.store import recorded_result

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
# Whose findings the README quotes: what averaging is, what it costs, and what became of it on images.
QUOTED = (
    "figure-2a-averaged",
    "figure-2b-decoupled",
    "figure-3-left",
    "figure-3-cifar10",
    "question-labels-share",
    "competition",
)
# Figures of recorded claims that README and front page lead with, in docs/figures.
DRAWN = ("question-labels-share", "competition")
# Of several claims.
PLURAL = {
    "holds": "hold",
    "holds in part": "hold in part",
    "fails": "fail",
    "undecided": "undecided",
    "not run": "not run",
}


def blocks() -> dict[str, str]:
    """What stands between `<!-- name -->` and `<!-- end name -->`."""
    recorded = json.loads((ROOT / "docs" / "verdicts.json").read_text(encoding="utf-8"))
    claims = {claim["id"]: claim for claim in recorded["claims"]}
    counts = Counter(claim["verdict"] for claim in claims.values())
    listed = ", ".join(f"{count} {PLURAL[verdict]}" for verdict, count in counts.most_common())
    failing = [f"`{name}`" for name, claim in claims.items() if claim["verdict"] == "fails"]
    first = f"**{len(claims)} claims: {listed}** (featavg {recorded['version']})."
    if failing:
        first += f" What fails is a finding: {', '.join(failing)}."
    rows = ["| claim | verdict | what was found |", "|---|---|---|"]
    for name in QUOTED:
        claim = claims[name]
        rows.append(f"| {claim['title']} | {claim['symbol']} {claim['verdict']} | {short(claim)} |")
    return {"verdicts": "\n".join([first, "", *rows])}


def short(claim: dict[str, str]) -> str:
    """The finding, up to the sentence at which it becomes long."""
    text = claim["finding"].replace("|", "\\|").replace("*", "\\*")
    kept = ""
    for sentence in re.split(r"(?<=[.;]) (?=[A-Zw])", text):
        if kept and len(kept) + len(sentence) > 330:
            break
        kept = f"{kept} {sentence}".strip()
    return kept.rstrip(";") + ("." if kept.endswith(";") else "")


def filled(text: str) -> str:
    for name, content in blocks().items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)"
        if not re.search(pattern, text, re.DOTALL):
            raise SystemExit(f"README.md has no place for {name}")
        text = re.sub(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.DOTALL)
    return text


def main() -> int:
    now = README.read_text(encoding="utf-8")
    wanted = filled(now)
    if "--check" in sys.argv:
        if now != wanted:
            print("README.md is not what was recorded: run python tools/readme.py", file=sys.stderr)
        return int(now != wanted)
    README.write_text(wanted, encoding="utf-8")
    for name in DRAWN:
        (figure,) = recorded_result(name).evidence.figures
        figure.save(ROOT / "docs" / "figures" / f"{name}.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
