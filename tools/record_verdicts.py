"""Keep the verdicts that the documentation and the README show.

    featavg reproduce --json all.json && python tools/record_verdicts.py all.json
    python tools/record_verdicts.py          # only what is recorded with the package

What the file does not hold stays as it was; claims of the full tier are those recorded with the
package; a claim that is no longer registered is dropped.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import featavg
from featavg.paper.engine.check import measured_text, tolerance_text
from featavg.paper.engine.claim import Claim
from featavg.paper.engine.registry import all_claims, all_statements
from featavg.paper.engine.result import ClaimResult
from featavg.paper.engine.store import recorded_result

TARGET = Path(__file__).resolve().parent.parent / "docs" / "verdicts.json"


def main(source: str | None = None) -> None:
    given = json.loads(Path(source).read_text())["outcomes"] if source else []
    ran = {result.id: result for result in map(ClaimResult.from_json, given)}
    before = {claim["id"]: claim for claim in json.loads(TARGET.read_text())["claims"]}
    claims = []
    for claim in all_claims():
        recorded = recorded_result(claim.id) if claim.tier == "full" else None
        result = recorded or ran.get(claim.id)
        kept = described(result) if result is not None else before.get(claim.id)
        # The reason of a claim that was not run names the machine it was not run on.
        ran_once = kept is not None and kept["verdict"] != "not run"
        claims.append(kept if ran_once else missing(claim))
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
    kept = {"version": featavg.__version__, "claims": claims, "statements": rows}
    TARGET.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n")
    print(f"{TARGET}: {len(claims)} verdicts, {len(rows)} statements")


def described(result: ClaimResult) -> dict[str, object]:
    check = result.evidence.key_check if result.evidence is not None else None
    return {
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
        "reason": result.reason if result.evidence is not None else "",
    }


def missing(claim: Claim) -> dict[str, object]:
    """A claim that was never run."""
    return {
        "id": claim.id,
        "title": claim.title,
        "theme": claim.theme,
        "verdict": "not run",
        "symbol": "–",
        "decided": f"`featavg reproduce --full --only {claim.id}` runs it",
        "tolerance": "",
        "finding": "",
        "seeds": 0,
        "when": "",
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
