"""One line of the benchmark table."""

from typing import NamedTuple


class Row(NamedTuple):
    """What was measured, what was asked for, and whether it is met.

    `ok` is None where there is nothing to meet: a number that is only shown.
    """

    name: str
    measured: str
    target: str
    ok: bool | None
    note: str = ""
