"""Provenance of a result: version, commit, Python, NumPy, machine, date."""

from __future__ import annotations

import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

import featavg
from featavg.machine import cores


def provenance() -> dict[str, str]:
    """What a reader needs to know about the run, ready to be shown."""
    return {
        "featavg": featavg.__version__,
        "commit": commit() or "not in a git work tree",
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}, {cores()} cores",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


def commit(folder: Path | None = None) -> str:
    """The commit of the package's own work tree, marked if files differ; empty if there is none."""
    folder = folder or Path(featavg.__file__).parent
    # A copy in site-packages may lie inside another project's work tree: ask git for this very file.
    if not _git(folder, "ls-files", "__init__.py"):
        return ""
    # Recorded results lie in the package and make none: two in a row are of the same commit.
    changed = _git(folder, "status", "--porcelain", ".", ":(exclude)results")
    marked = " with uncommitted changes" if changed else ""
    return _git(folder, "rev-parse", "--short=10", "HEAD") + marked


def _git(folder: Path, *arguments: str) -> str:
    # Without this `git status` locks the index to refresh it, and a git that the time-out kills
    # would leave the lock behind for everybody who works in the same tree.
    command = ["git", "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
