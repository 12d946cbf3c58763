"""Mutants: small mistakes put into the code on purpose, and the tests that must notice them.

A file here lists the mutants of one part of the package as `MUTANTS`. `make mutants` puts each into
the module it belongs to, runs its tests, and reports the ones that nobody noticed. A mistake that
cannot change any answer is no mutant: where one was tried, a comment says why it is not listed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake: `before`, which occurs exactly once in `file`, becomes `after`.

    Attributes:
        file: under src/featavg.
        why: what would be wrong with an answer.
        tests: pytest addresses; at least one of them must fail.
    """

    file: str
    before: str
    after: str
    why: str
    tests: tuple[str, ...]


def tests_in(path: str) -> Callable[..., tuple[str, ...]]:
    """Addresses of tests in a file under tests/, or in any file of a folder, by their names."""
    return lambda *names: tuple(f"tests/{_file_of(path, name)}::{name}" for name in names)


def _file_of(path: str, test: str) -> str:
    folder = Path(__file__).parent.parent / path
    if not folder.is_dir():
        return path
    defined = f"def {test.split('[', maxsplit=1)[0]}("
    (file,) = (file for file in folder.glob("test_*.py") if defined in file.read_text())
    return f"{path}/{file.name}"


def mutants_of(file: str, *mistakes: tuple[str, str, str, tuple[str, ...]]) -> list[Mutant]:
    """The mutants of one file: before, after, why, tests."""
    return [Mutant(file, *mistake) for mistake in mistakes]


def lists() -> dict[str, list[Mutant]]:
    """Every list, by the name of its file."""
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    return {name: importlib.import_module(f"tests.mutants.{name}").MUTANTS for name in names}
