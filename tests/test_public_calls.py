"""Public names called once: nothing of the user's changes, and answers fit a screen."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.public_calls import CALLS

import featavg as fa
from featavg.boundary.public import hints


def test_calls_change_nothing_of_the_users_and_their_answers_fit_a_screen() -> None:
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "tests.unchanged", "--fast"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "0 problems" in done.stdout


def test_the_table_has_every_function_that_takes_arguments() -> None:
    functions = {name for name in fa.__all__ if inspect.isfunction(getattr(fa, name))}
    assert functions - set(CALLS) == set()


def test_a_public_function_says_so_and_its_annotations_can_be_resolved() -> None:
    for name in fa.__all__:
        thing = getattr(fa, name)
        if inspect.isfunction(thing):
            assert hints(thing.__wrapped__), name
