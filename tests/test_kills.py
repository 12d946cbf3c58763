"""A few kills; `python -m tests.kills 100` makes as many as one likes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the runs are forks")
@pytest.mark.parametrize("name", ["simulate", "reproduce", "margin network", "images train"])
def test_a_killed_run_ends_in_the_same_bits(name):
    command = [sys.executable, "-m", "tests.kills", "3", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]
    assert "3 kills, the same bits" in done.stdout
