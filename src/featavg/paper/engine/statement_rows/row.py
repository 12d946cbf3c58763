"""What a row of the table of statements is."""

from __future__ import annotations

# Name, place, our words, claims of themes that do not name it themselves, and why there is none.
Row = tuple[str, str, str, tuple[str, ...], str]

DEFINITION = "A definition, used by every claim: "
