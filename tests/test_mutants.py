"""`make mutants` kills what a test notices and reports what none does, and touches no file."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "mutants.py"
CODE = '''
LEAST = 3


def clipped(x: float, most: float = 9.0) -> float:
    """The docstring holds 7, and is left alone."""
    if x < LEAST and not x != x:
        raise ValueError(f"{x} is below {LEAST + 1}")
    while x > most:
        x -= 1.0
    return min(x, most)


def nobody() -> int:
    return 5
'''
TESTS = """
import pytest
from featavg.nets.toy import clipped


@pytest.mark.parametrize("x", [3.0, 4.5, 9.0])
def test_inside(x):
    assert clipped(x) == x


def test_outside():
    assert clipped(9.5, 9.0) == 8.5
    with pytest.raises(ValueError, match="below 4"):
        clipped(2.0)
"""
START = "import sys; sys.path.insert(0, 'tools'); import mutants; mutants.HEAVY, mutants.SLACK = 'pytest', 1.0; "
ALL = START + "print('code', mutants.main(['nets/toy.py', '--sample', '0', '--verbose']))"
EXPECTED = {
    "3 -> 4": "killed",
    "x < LEAST -> x <= LEAST": "killed",
    "x < LEAST and (not x != x) -> x < LEAST or (not x != x)": "killed",
    "not x != x -> x != x": "killed",
    "x > most -> x >= most": "killed",
    "x -= 1.0 -> x += 1.0": "hangs",
    "x -= 1.0 -> pass": "hangs",
    "min(x, most) -> max(x, most)": "SURVIVED",
    "min(x, most) -> x": "SURVIVED",
    "min(x, most) -> most": "killed",
    "return min(x, most) -> return min(x, most) * 0.9": "killed",
    "9.0 -> 11.25": "SURVIVED",
    "5 -> 6": "SURVIVED",
}


@pytest.mark.full
def test_what_is_noticed_is_killed_and_the_rest_is_reported(tmp_path):
    for name, text in {"src/featavg/nets/toy.py": CODE, "tests/nets/test_toy.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    for folder in ("", "nets"):
        (tmp_path / "src" / "featavg" / folder / "__init__.py").touch()
    (tmp_path / "tools").mkdir()
    shutil.copy(TOOL, tmp_path / "tools")
    command = [sys.executable, "-c", ALL]
    first, again = (subprocess.check_output(command, cwd=tmp_path, text=True) for _ in range(2))
    said = {line.split(": ", 1)[1].split("  ")[0]: line.split()[1] for line in first.splitlines() if "toy.py:" in line}
    assert {change: said.get(change) for change in EXPECTED} == EXPECTED
    assert not any("LEAST + 1" in change or "7" in change for change in said)  # messages and docstrings
    assert (tmp_path / "src/featavg/nets/toy.py").read_text() == CODE
    assert again == first
    assert "code 1" in first
