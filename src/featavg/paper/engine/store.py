"""Outcomes on disk: what was recorded with the package, and what a run has finished.

Two places hold outcomes. `featavg/results/` ships with the package and has the recorded results of
the full tier, a small JSON file a claim. `OUT/outcomes/` has what a run has finished, each with the
key of all that it depends on, so that a killed run resumes where it stopped.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import featavg
from featavg.errors import InputError
from featavg.paper.engine.claim import Claim, Context, Verdict
from featavg.paper.engine.registry import all_claims
from featavg.paper.engine.result import TEXTS, ClaimResult, settled
from featavg.storage.files import dumps, write
from featavg.storage.reading import read_json

PACKAGE = Path(featavg.__file__).parent
RESULTS = PACKAGE / "paper" / "results"


def record_result(outcome: ClaimResult, folder: Path | None = None) -> Path:
    """Keep the outcome of a full-tier claim in the package, for the reports of others."""
    if outcome.verdict is Verdict.NOT_RUN:
        raise InputError("record", f"has nothing for {outcome.id}", "record claims that were run")
    described = replace(outcome, recorded=False).to_json()
    # A field a line, whatever it holds: a file of results is read in diffs.
    lines = [f' "{k}": {json.dumps(v, allow_nan=False, ensure_ascii=False)}' for k, v in described.items()]
    return write((folder or RESULTS) / f"{outcome.id}.json", "{\n" + ",\n".join(lines) + "\n}\n", "record")


def recorded_result(claim_id: str, folder: Path | None = None) -> ClaimResult | None:
    """The recorded outcome of a claim, or None if there is none."""
    path = (folder or RESULTS) / f"{claim_id}.json"
    if not path.exists():
        return None
    result = replace(_read(path, "restore or delete it"), recorded=True)
    claim = next((claim for claim in all_claims() if claim.id == claim_id), None)
    if claim is None:
        return result
    # What a claim says is stated once, in its file; a record has the numbers and what was measured.
    result = replace(result, **{name: getattr(claim, name) for name in TEXTS})
    if claim.runs is None:
        return result
    verdict = result.verdict if result.evidence is None else result.evidence.verdict
    return settled(replace(result, runs=claim.runs, verdict=verdict, reason=""))


def _read(path: Path, remedy: str) -> ClaimResult:
    try:
        described = read_json(path)
        described.pop("key", None)
        return ClaimResult.from_json(described)
    except (ValueError, AttributeError, TypeError) as error:  # InputError is a ValueError
        raise InputError(str(path), f"is damaged ({error})", remedy) from error


def keep(out: Path, outcome: ClaimResult, claim: Claim, settings: Context) -> None:
    """Keep a finished outcome for a later run that asks for the same seeds and tier."""
    described = outcome.to_json() | {"key": key(claim, settings)}
    write(out / "outcomes" / f"{outcome.id}.json", dumps(described))


def kept(out: Path, claim: Claim, settings: Context) -> ClaimResult | None:
    """What an earlier run finished, if nothing it depends on changed and the file is sound."""
    try:
        described = read_json(out / "outcomes" / f"{claim.id}.json")
        if described.pop("key") != key(claim, settings):
            return None
        result = ClaimResult.from_json(described)
        return None if result.verdict is Verdict.NOT_RUN else result
    except (ValueError, KeyError, AttributeError):  # InputError is a ValueError
        return None


def last_result(out: Path, claim_id: str) -> ClaimResult | None:
    """The last result of a claim in a report's folder, whatever it was made with; None if none."""
    path = out / "outcomes" / f"{claim_id}.json"
    return _read(path, "delete it, or run the claim again") if os.path.lexists(path) else None


def any_kept(out: Path) -> bool:
    """Whether a report's folder has any result."""
    return any((out / "outcomes").glob("*.json"))


def key(claim: Claim, settings: Context) -> str:
    """All that a result depends on: claim, seeds, tier, version and the source that it uses."""
    source = source_hash(claim.run.__module__)
    parts: list[Any] = [claim.id, list(settings.seeds), settings.full, featavg.__version__, source]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def source_hash(module: str, package: Path = PACKAGE) -> str:
    """Hash of a module and of all modules of the package that it imports, directly or not.

    A change elsewhere (the report, a command, another claim) leaves a kept result valid.
    """
    found, waiting = set[Path](), [_file(module, package)]
    while waiting:
        path = waiting.pop()
        if path is not None and path not in found:
            found.add(path)
            waiting += [_file(name, package) for name in _imported(path)]
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()


@cache
def _imported(path: Path) -> list[str]:
    """What a file imports, at any depth of its functions; a name may be a module or inside one."""
    names = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _file(module: str, package: Path) -> Path | None:
    """The file of a module of the package, or None."""
    first, *rest = module.split(".")
    path = package.joinpath(*rest).with_suffix(".py") if rest else package / "__init__.py"
    return path if first == "featavg" and path.exists() else None
