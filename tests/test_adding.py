"""Adding something is adding a file: each toy is put into a copy of the package, and found there.

The table is the one of CONTRIBUTING: where the file goes, and the one other line, if any.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import featavg

TOYS = Path(__file__).parent / "toys"
PACKAGE = Path(featavg.__file__).parent


class Addition(NamedTuple):
    """Where the file goes, and which line of which other file becomes two."""

    file: str | None
    other: str | None = None
    line: str = ""
    added: str = ""


ADDITIONS = {
    "claim": Addition(
        "paper/questions/toy.py", "paper/engine/registry.py", '    "figures.cosines",', '    "questions.toy",'
    ),
    "command": Addition("cli/toy.py", "__main__.py", '    "featavg.cli.simulate",', '    "featavg.cli.toy",'),
    "attack": Addition(
        "robustness/attacks/toy.py", "robustness/attacks/suite.py", '        "apgd": "pgd",', '        "toy": "toy",'
    ),
    "stepper": Addition("training/steppers/toy.py"),
    "controller": Addition("training/controllers/toy.py"),
    "loss": Addition("training/losses/toy.py"),
    "activation": Addition("nets/activations/toy.py"),
    "readout": Addition(
        "nets/readouts/toy.py",
        "registry.py",
        'READOUTS = ("probability", "max", "sum")',
        'READOUTS = (*READOUTS, "toy")',
    ),
    "image_set": Addition(
        "data/image_sets/toy.py",
        "registry.py",
        '_SETS = {"digits": "digits", "mnist": "digits", "cifar10": "cifar", "cifar100": "cifar"}',
        '_SETS["toy"] = "toy"',
    ),
    "panel": Addition(
        "figures/toy.py",
        "figures/figure.py",
        "from featavg.figures.typeset import html, without_tags",
        "from featavg.figures.toy import Toy  # noqa: F401",
    ),
    "three_layers": Addition(None),
}


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """What `toys/examine.py` has to say about each toy, in a copy of the package with all of them."""
    root = tmp_path_factory.mktemp("with_toys")
    shutil.copytree(PACKAGE, root / "featavg", ignore=shutil.ignore_patterns("__pycache__"))
    for name, addition in ADDITIONS.items():
        if addition.file is not None:
            target = root / "featavg" / addition.file
            assert not target.exists()
            shutil.copy(TOYS / f"{name}.py", target)
        if addition.other is not None:
            other = root / "featavg" / addition.other
            text = other.read_text()
            assert text.count(addition.line + "\n") == 1, f"{addition.other}: {addition.line}"
            other.write_text(text.replace(addition.line, f"{addition.line}\n{addition.added}", 1))
    environment = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "200", "TERM": "dumb"}
    run = subprocess.run(
        [sys.executable, str(TOYS / "examine.py")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=root,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", ADDITIONS)
def test_a_file_and_at_most_one_line_add_a_toy(name, problems):
    assert problems[name] == ""


def test_the_copy_without_the_toys_would_be_noticed():
    run = subprocess.run(
        [sys.executable, str(TOYS / "examine.py")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "COLUMNS": "200", "TERM": "dumb"},
    )
    missing = json.loads(run.stdout)
    assert not missing.pop("three_layers")
    assert all(missing.values())
