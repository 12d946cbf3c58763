"""Outcomes on disk: what was recorded with the package, and what a run has finished.

Two places hold outcomes. `featavg/results/` ships with the package and has the recorded results of
the full tier, a small JSON file a claim. `OUT/outcomes/` has what a run has finished, each with the
key of all that it depends on, so that a killed run goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import featavg
from featavg.errors import InputError
from featavg.paper.engine.claim import Verdict
from featavg.paper.engine.result import ClaimResult
from featavg.storage.files import dumps, write
from featavg.storage.reading import read_json

PACKAGE = Path(featavg.__file__).parent
RESULTS = PACKAGE / "paper" / "results"


def record_result(outcome: ClaimResult, folder: Path | None = None) -> Path:
    """Keep the outcome of a full-tier claim in the package, for the reports of others."""
    if outcome.verdict is Verdict.NOT_RUN:
        raise InputError("record", f"has nothing for {outcome.id}", "record claims that were run")
    described = replace(outcome, recorded=False).to_json()
    # The rows of one array on one line: a file of results is read in diffs.
    return write((folder or RESULTS) / f"{outcome.id}.json", _compact(described), "record")


def recorded_result(claim_id: str, folder: Path | None = None) -> ClaimResult | None:
    """The recorded outcome of a claim, or None if there is none."""
    path = (folder or RESULTS) / f"{claim_id}.json"
    if not path.exists():
        return None
    try:
        return replace(ClaimResult.from_json(read_json(path)), recorded=True)
    except ValueError as error:  # InputError is one
        raise InputError(str(path), f"is damaged ({error})", "restore or delete it") from error


def keep(out: Path, outcome: ClaimResult, seeds: tuple[int, ...], full: bool) -> None:
    """Keep a finished outcome for a later run that asks for the same seeds and tier."""
    described = outcome.to_json() | {"key": key(outcome.id, seeds, full)}
    write(out / "outcomes" / f"{outcome.id}.json", dumps(described))


def kept(out: Path, claim_id: str, seeds: tuple[int, ...], full: bool) -> ClaimResult | None:
    """What an earlier run finished, if nothing it depends on changed and the file is sound."""
    try:
        described = read_json(out / "outcomes" / f"{claim_id}.json")
        if described.pop("key") != key(claim_id, seeds, full):
            return None
        result = ClaimResult.from_json(described)
        return None if result.verdict is Verdict.NOT_RUN else result
    except (ValueError, KeyError, AttributeError):  # InputError is a ValueError
        return None


def last_result(out: Path, claim_id: str) -> ClaimResult | None:
    """The last result of a claim in a report's folder, whatever it was made with; None if none."""
    path = out / "outcomes" / f"{claim_id}.json"
    if not os.path.lexists(path):
        return None
    try:
        described = read_json(path)
        described.pop("key", None)
        return ClaimResult.from_json(described)
    except (ValueError, AttributeError, TypeError) as error:  # InputError is a ValueError
        remedy = "delete it, or run the claim again"
        raise InputError(str(path), f"is damaged ({error})", remedy) from error


def any_kept(out: Path) -> bool:
    """Whether a report's folder has any result."""
    return any((out / "outcomes").glob("*.json"))


def key(claim_id: str, seeds: tuple[int, ...], full: bool) -> str:
    """All that a result depends on: claim, seeds, tier, version and source of the package."""
    parts: list[Any] = [claim_id, list(seeds), full, featavg.__version__, source_hash()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


# Files that show results and cannot change one.
_SHOWING = ("playground", "cli", "__main__.py", "progress.py")
_RENDERERS = ("matplotlib_", "plotly_", "palette", "legend", "typeset", "animation")


@cache
def source_hash(package: Path = PACKAGE) -> str:
    """Hash of the package's Python files that can change a result.

    Left out are the report, the command line and the renderers of figures: what a figure shows is
    in a result, how it is drawn is not.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        draws = name.parts[0] == "figures" and name.name.startswith(_RENDERERS)
        if name.parts[0] not in _SHOWING and not draws:
            digest.update(f"{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _compact(value: dict[str, Any]) -> str:
    """JSON with an indented outer level and long arrays of numbers on one line each."""
    lines = [f" {json.dumps(k)}: {_value(v)}" for k, v in value.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _value(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(", ", ": "))
