"""The lists of mutants stay true: each names one place in the code, and tests that exist."""

import importlib
from pathlib import Path

import pytest

import featavg

ROOT = Path(__file__).parent.parent
LISTS = sorted(path.stem for path in (ROOT / "tests/mutants").glob("[a-z]*.py"))


@pytest.mark.parametrize("name", LISTS)
def test_every_mutant_names_one_place(name):
    mutants = importlib.import_module(f"tests.mutants.{name}").MUTANTS
    package = Path(featavg.__file__).parent
    for mutant in mutants:
        assert (package / mutant.file).read_text().count(mutant.before) == 1, mutant
        assert mutant.before != mutant.after
        for path in mutant.tests.partition(" -k ")[0].split():
            assert (ROOT / path).exists(), mutant
    assert len(set(mutants)) == len(mutants)
