"""Mutants: small mistakes put into the code on purpose, and the tests that must notice them.

A file here lists the mutants of one part of the package as `MUTANTS`. `make mutants` applies each
to a copy of the source, runs its tests there, and reports the ones that nobody noticed.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake: `before` occurs exactly once in `file` (under src/featavg) and becomes `after`."""

    file: str
    before: str
    after: str
    tests: str
