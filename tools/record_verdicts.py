"""Keep the verdicts that the documentation and the README show.

featavg reproduce --json all.json && python tools/record_verdicts.py all.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from featavg.claims.check import measured_text, tolerance_text
from featavg.claims.result import ClaimResult
from featavg.claims.statements import all_statements

TARGET = Path(__file__).resolve().parent.parent / "docs" / "verdicts.json"


def main(source: str) -> None:
    given = json.loads(Path(source).read_text())
    results = [ClaimResult.from_json(one) for one in given["outcomes"]]
    claims = []
    for result in results:
        check = result.evidence.key_check if result.evidence is not None else None
        claims.append(
            {
                "id": result.id,
                "title": result.title,
                "theme": result.theme,
                "verdict": result.verdict.value,
                "symbol": result.verdict.symbol,
                "decided": f"{check.name}: {measured_text(check)}" if check else result.reason,
                "tolerance": tolerance_text(check) if check else "",
                "finding": result.evidence.finding if result.evidence is not None else "",
                "seeds": len(result.seeds),
                "when": result.when,
            }
        )
    verdict = {claim["id"]: claim["verdict"] for claim in claims}
    rows = [
        {
            "id": statement.id,
            "document": statement.document_title,
            "place": statement.place,
            "words": statement.words,
            "claims": list(statement.claims),
            "reason": statement.reason,
            "verdicts": [verdict.get(name, "not run") for name in statement.claims],
        }
        for statement in all_statements()
    ]
    kept = {
        "version": given["provenance"]["featavg"],
        "claims": claims,
        "statements": rows,
    }
    TARGET.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    print(f"{TARGET}: {len(claims)} verdicts, {len(rows)} statements")


if __name__ == "__main__":
    main(sys.argv[1])
