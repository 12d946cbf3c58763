"""A sample of the list of bad inputs; `python -m tests.bad_inputs` tries all of it.

In a process of its own: here the types are checked at run time by another tool.
"""

import subprocess
import sys
from pathlib import Path


def test_a_sample_of_bad_inputs_is_answered_in_one_sentence():
    command = [sys.executable, "-m", "tests.bad_inputs", "--sample", "150", "--unhurried"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "answered right: " in done.stdout
