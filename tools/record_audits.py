"""Keep what `featavg audit` found of public networks, for the page `docs/public-networks.md`.

    python tools/record_audits.py NAME=FOLDER=CPU_SECONDS ...

A folder is one that `featavg audit --out FOLDER` wrote, in so many seconds of CPU; a row that is not
named stays as it was.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "docs" / "audited.json"


def main(given: list[str]) -> None:
    rows = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    for one in given:
        name, folder, seconds = one.split("=")
        found = json.loads((Path(folder) / "audit.json").read_text())
        rows[name] = described(found) | {"seconds": float(seconds)}
    TARGET.write_text(json.dumps(rows, indent=1) + "\n")


def described(audit: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of an audit."""
    layers = [one for one in audit["layers"] if one["layer"] == audit["layer"]]
    gain = audit["predicted_gain"]
    return {
        "data": f"{audit['about']['images']} images of {audit['about']['shape']}",
        "accuracy": audit["accuracy"]["value"],
        "verdict": audit["verdict"]["verdict"],
        "layer": audit["layer"],
        "shared": [layers[0][end] for end in ("value", "low", "high", "null")] if layers else None,
        "gain": None if gain is None else [gain[end] for end in ("value", "low", "high")],
        "radius": audit["radii"]["median"],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
