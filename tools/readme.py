"""Fill the marked places of the README from what was recorded; `--check` only says whether it fits.

python tools/readme.py [--check]
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def blocks() -> dict[str, str]:
    """What stands between `<!-- name -->` and `<!-- end name -->`."""
    recorded = json.loads((ROOT / "docs" / "verdicts.json").read_text())
    counts = Counter(claim["verdict"] for claim in recorded["claims"])
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    failing = [claim for claim in recorded["claims"] if claim["verdict"] == "fails"]
    lines = [f"**{len(recorded['claims'])} claims: {listed}** (featavg {recorded['version']})."]
    if failing:
        lines.append("What fails, each a finding with its numbers in the report:")
        lines += [""] + [f"- `{claim['id']}`: {claim['title']}" for claim in failing]
    return {"verdicts": "\n".join(lines)}


def filled(text: str) -> str:
    for name, content in blocks().items():
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)"
        if not re.search(pattern, text, re.DOTALL):
            raise SystemExit(f"README.md has no place for {name}")
        text = re.sub(pattern, lambda m, c=content: f"{m[1]}{c}\n{m[2]}", text, flags=re.DOTALL)
    return text


def main() -> int:
    now = README.read_text()
    wanted = filled(now)
    if "--check" in sys.argv:
        if now != wanted:
            print("README.md is not what was recorded: run python tools/readme.py", file=sys.stderr)
        return int(now != wanted)
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
