"""`featavg radius` on a saved simulation."""

import json

import pytest

from featavg.__main__ import main
from featavg.simulate.run import simulate


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("radius") / "run"
    simulate(out=folder, k=4, d=1000, n=60, steps=60, figures=False)
    return folder


def test_a_saved_network_gets_a_table_a_histogram_a_curve_and_json(result, tmp_path, capsys) -> None:
    out, told = tmp_path / "figures", tmp_path / "radii.json"
    command = ["radius", str(result), "--points", "12", "--readout", "max"]
    assert main([*command, "--out", str(out), "--json", str(told)]) == 0
    printed = capsys.readouterr().out
    assert "coarse labels, certified radii:" in printed
    assert "exact: 12" in printed
    assert {"robust-accuracy.png", "radii.csv"} <= {path.name for path in out.iterdir()}
    assert len(json.loads(told.read_text())["networks"]["fine"]["certified"]) == 12


REFUSED = {
    "no folder": (["radius", "nowhere"], "nowhere is not a folder"),
    "no points": (["radius", "RESULT", "--points", "0"], "--points should be"),
    "read-out": (["radius", "RESULT", "--readout", "mean"], "readout is 'mean'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_sentence(name: str, result, capsys) -> None:
    command, words = REFUSED[name]
    assert main([str(result) if word == "RESULT" else word for word in command]) == 2
    assert capsys.readouterr().err.startswith(words)
    assert not (result / "radii").exists()
