"""Where results go by default, and the command that runs featavg."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

DEFAULT = "featavg-results"


def results_folder(*parts: str) -> Path:
    """A folder for results: below `featavg-results` in the working folder, or `$FEATAVG_RESULTS`.

    >>> results_folder("report").name
    'report'
    """
    return Path(os.environ.get("FEATAVG_RESULTS") or DEFAULT, *parts)


def typed(command: str) -> str:
    """`command` as it can be typed here: after `make reproduce` no `featavg` is on the path.

    >>> typed("featavg claims").endswith(" claims")
    True
    """
    name, _, rest = command.partition(" ")
    return f"{program()} {rest}" if name == "featavg" else command


def program() -> str:
    """How the program that belongs to this Python is called from the working folder."""
    script = Path(sys.executable).with_name("featavg")
    on_path = shutil.which("featavg")
    if on_path is not None and (not script.exists() or os.path.samefile(on_path, script)):
        return "featavg"
    return _short(script) if script.exists() else f"{_short(Path(sys.executable))} -m featavg"


def install_command(extra: str) -> str:
    """What installs an extra: into the environment of a clone from that clone, else from PyPI.

    >>> "torch" in install_command("torch")
    True
    """
    clone = Path(__file__).parents[3]
    if not (clone / "pyproject.toml").exists():
        return f"pip install 'featavg[{extra}]'"
    python, folder = _short(Path(sys.executable)), _short(clone)
    return f"{python} -m pip install -c {folder}/constraints.txt '{folder}[{extra}]'"


def _short(path: Path) -> str:
    """Relative to the working folder if it is below it."""
    try:
        relative = path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return shlex.quote(str(path))
    return shlex.quote(str(relative))
