"""The lists of mutants stay true: each names one place in the code, and tests that exist.

`make mutants` runs them all; here a few, always the same ones, so that the runner is known to work.
"""

import ast
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from tests.mutants import lists

import featavg

ROOT = Path(__file__).parent.parent
PACKAGE = Path(featavg.__file__).parent
LISTS = lists()


@lru_cache
def _tests_of(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", LISTS)
def test_every_mutant_names_one_place_and_tests_that_exist(name):
    for mutant in LISTS[name]:
        text = (PACKAGE / mutant.file).read_text(encoding="utf-8")
        assert text.count(mutant.before) == 1, mutant
        changed = text.replace(mutant.before, mutant.after)
        assert changed != text, mutant
        compile(changed, mutant.file, "exec")
        assert mutant.why, mutant
        assert mutant.tests, mutant
        for address in mutant.tests:
            path, _, test = address.partition("::")
            assert test in _tests_of(path), mutant
    assert len(set(LISTS[name])) == len(LISTS[name])


@pytest.mark.full
def test_a_few_of_them_are_killed():
    """The sample is small, and none may survive."""
    without_extras = [name for name in LISTS if name not in ("loading", "radii")]
    command = [sys.executable, "tools/mutants.py", *without_extras, "--sample", "8"]
    command += ["--fresh", "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 killed" in done.stdout


VERDICTS = """
import sys
sys.path[:0] = ["tools", "src", "."]
import mutants
from tests.mutants import Mutant, tests_in
partition = tests_in("data/test_tight.py")("test_an_index_is_named_once")
same = ("data/clusters.py", "given.max() >= k", "given.max() > k - 1", "the same", partition)
elsewhere = ("robustness/linf.py", "FURTHER = 3", "FURTHER = 4", "another", partition)
missing = ("data/clusters.py", "given.max() >= k", "given.max() > k - 1", "no test",
           ("tests/data/test_tight.py::test_of_nothing",))
wrong = ("data/clusters.py", "len(np.unique(given)) < len(given)", "False", "twice", partition)
for mutant, report in mutants._run([Mutant(*m) for m in (same, elsewhere, missing, wrong)], 1):
    print(report["verdict"])
"""


@pytest.mark.full
def test_the_runner_tells_what_survives_from_what_says_nothing():
    done = subprocess.run([sys.executable, "-c", VERDICTS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["SURVIVED", "unmet", "broken", "killed"], done.stderr
