"""A flat table of plain values as TOML, written with comments and read back."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from featavg.errors import InputError


def read(path: Path) -> dict[str, Any]:
    """The table in a TOML file; a relative path in it (`gram`, `data`) is beside the file."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        cause = (error.strerror or str(error)).lower()
        raise InputError(
            "config", f"({path}) cannot be read ({cause})", "name a TOML file"
        ) from None
    except ValueError as error:  # not TOML, or not text
        raise InputError("config", f"({path}) is not TOML ({error})", "correct the file") from None
    for name in ("gram", "data"):
        if isinstance(table.get(name), str):
            table[name] = str(path.parent / table[name])
    return table


def write(values: Mapping[str, Any], sections: Mapping[str, Iterable[str]]) -> str:
    """`values` in the order of `sections`, each with its heading.

    >>> table = {"n": 3, "rate": 1e-5, "seeds": [0, 1]}
    >>> print(write(table, {"all": ["seeds", "n", "rate"]}), end="")
    # all
    seeds = [0, 1]
    n = 3
    rate = 1e-05
    """
    parts = []
    for heading, names in sections.items():
        lines = [f"{name} = {_value(values[name])}" for name in names if name in values]
        if lines:
            parts.append("\n".join([f"# {heading}", *lines]))
    return "\n\n".join(parts) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError("setting", f"holds {value}", "give finite numbers")
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
