"""Parts that are chosen by name: the files are the table, and a part of one's own joins it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.toys.activation import Toy as Absolute
from tests.toys.stepper import Toy as Lazy

import featavg
from featavg.__main__ import main
from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.registry import ACTIVATIONS, CONTROLLERS, LOSSES, STEPPERS, spec
from featavg.simulate.setting import Setting
from featavg.training.train import train

TABLES = {table.kind: table for table in (STEPPERS, CONTROLLERS, LOSSES, ACTIVATIONS)}
TASK = MultiCluster(k=4, d=300)
SMALL = {"n": 30, "m": 2, "lr": 0.01, "steps": 8}


@pytest.mark.parametrize("kind", TABLES)
def test_every_part_of_a_folder_is_known_under_its_name(kind: str) -> None:
    table = TABLES[kind]
    folder = Path(featavg.__file__).parent / table.folder
    written = {
        name
        for path in folder.glob("*.py")
        for name in re.findall(r'^    name: ClassVar\[str\] = "(.+)"', path.read_text(), re.M)
    }
    assert set(table) == written
    for name in table:
        part = table.build(name, rate=0.1, steps=10)
        assert part.name == name
        assert table.build(spec(part)) == part
        assert table.build(part) is part


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nobody", "stepper is 'nobody': choose one of adam, "),
        ("momentum:gamma=1", "stepper is 'momentum:gamma=1' with the option 'gamma': momentum has"),
        ("momentum:beta=x", "stepper is 'momentum:beta=x': give beta as float"),
        ("momentum:beta=1", "beta is 1.0: give a finite number of at least 0 and below 1"),
        ("gd:beta=1", "stepper is 'gd:beta=1' with the option 'beta': gd has no options"),
    ],
)
def test_bad_texts_are_refused(text: str, words: str) -> None:
    for refuse in (STEPPERS.build, lambda t: Setting(stepper=t), lambda t: train(TASK, stepper=t)):
        with pytest.raises(InputError) as caught:
            refuse(text)
        assert str(caught.value).startswith(words)


def test_a_name_is_as_good_as_an_object() -> None:
    named = train(TASK, stepper="momentum:beta=0.5", controller="constant", **SMALL)
    built = train(TASK, stepper=STEPPERS["momentum"](beta=0.5), **SMALL)
    np.testing.assert_array_equal(named.net.weights, built.net.weights)
    assert named.settings == built.settings
    assert named.settings["recipe"]["stepper"] == "momentum:beta=0.5"


@pytest.fixture
def toys():
    STEPPERS.add(Lazy)
    ACTIVATIONS.add(Absolute)
    yield
    STEPPERS.remove("toy")
    ACTIVATIONS.remove("toy")


@pytest.mark.usefixtures("toys")
def test_a_stepper_of_ones_own_works_in_python_in_settings_and_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lazy = train(TASK, stepper="toy:share=0.25", **SMALL)
    slow = train(TASK, **(SMALL | {"lr": 0.25 * SMALL["lr"]}))
    np.testing.assert_allclose(lazy.net.weights, slow.net.weights, rtol=1e-12, atol=1e-18)
    flags = "--stepper toy --k 4 --d 100 --n 20 --steps 2 --no-figures"
    assert main(["simulate", *flags.split(), "--out", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["simulate", "--stepper", "hasty"]) == 2
    assert "toy" in capsys.readouterr().err
    with pytest.raises(InputError, match="stepper 'toy' exists already"):
        STEPPERS.add(Lazy)


@pytest.mark.usefixtures("toys")
def test_an_activation_of_ones_own() -> None:
    net = Deep((np.eye(2), np.ones((1, 2))), activation="toy")
    assert net(np.array([[1.0, -2.0]])).tolist() == [[3.0]]
    assert net.input_gradient(np.array([[1.0, -2.0]])).tolist() == [[1.0, -1.0]]


def test_names_cost_no_imports() -> None:
    code = "import sys, featavg.registry as r; print(r.STEPPERS, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "False"
    assert "momentum" in done.stdout
