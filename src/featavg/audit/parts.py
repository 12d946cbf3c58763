"""What each metric of an audit has in common: its words, its figures and its JSON, in one file of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from featavg.figures.figure import Figure
from featavg.storage.files import strict_json

Audited: TypeAlias = Any  # the whole `Audit`, whose file imports every part


@dataclass(frozen=True)
class Row:
    """A finding in words; details are for those who check."""

    name: str
    text: str
    is_detail: bool = False


class Part:
    """One metric of an audit. Its file alone knows its words, its figures and its JSON.

    A new metric is a class of this kind, a field of `Audit` and the line of `run.py` that fills it.
    """

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """What it says, with a word on what the number means and which way is good.

        Args:
            name: of the field that holds it.
        """
        return []

    def figures(self, audit: Audited) -> list[Figure]:
        """What can be drawn."""
        return []

    def entries(self, name: str) -> dict[str, object]:
        """Plain values by name, for the JSON of the audit."""
        return {name: strict_json(self)}


def number(radius: float) -> str:
    """Four digits of a radius, or words where none was found."""
    return f"{radius:.4g}" if np.isfinite(radius) else "not found"
