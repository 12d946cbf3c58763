"""A flat table of plain values as TOML, written with comments and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.storage.reading import read_toml


def read_table(path: Path) -> dict[str, Any]:
    """The table in a TOML file; a relative path in it (`gram`, `data`) is beside the file."""
    try:
        table = read_toml(path)
    except InputError as error:
        raise InputError("config", f"({path}) {error.problem}", error.remedy) from None
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
