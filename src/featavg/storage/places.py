"""Where results go by default, and the command that runs featavg."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from importlib.metadata import requires
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
    """What installs an extra: from the clone, or else the packages that it stands for.

    An installed copy does not name featavg itself: nothing of that name need be on the reader's index.

    >>> "torch" in install_command("torch")
    True
    """
    clone = Path(__file__).parents[3]
    python, folder = _short(Path(sys.executable)), _short(clone)
    if not (clone / "pyproject.toml").exists():
        wanted = [
            one.split(";")[0].strip() for one in requires("featavg") or () if re.search(f"extra == .{extra}.", one)
        ]
        return f"{python} -m pip install {shlex.join(wanted or [extra])}"
    return f"{python} -m pip install -c {folder}/constraints.txt '{folder}[{extra}]'"


def _short(path: Path) -> str:
    """Relative to the working folder if it is below it."""
    try:
        relative = path.relative_to(Path.cwd())
    except (ValueError, OSError):
        return shlex.quote(str(path))
    return shlex.quote(str(relative))
