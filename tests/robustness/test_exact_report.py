"""`radius_report` on a saved simulation: table, figures and JSON."""

import json

import pytest

from featavg.errors import InputError
from featavg.simulate.radius import radius_report
from featavg.simulate.run import simulate


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("result") / "run"
    simulate(out=folder, k=4, d=1000, n=60, steps=60, figures=False)
    return folder


def test_report(result, tmp_path):
    report = radius_report(result, points=20, readout="max", out=tmp_path / "figures", json=tmp_path / "radii.json")
    assert [row["labels"] for row in report.rows()] == ["coarse", "fine"]
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} >= {".svg", ".csv"}
    told = json.loads((tmp_path / "radii.json").read_text())
    assert told["points"] == 20
    assert len(told["networks"]["fine"]["certified"]) == 20
    assert told["networks"]["coarse"]["median"][0] < told["networks"]["fine"]["median"][0]


@pytest.mark.parametrize("change", [{"points": 0}, {"readout": "mean"}], ids=str)
def test_bad_input(result, change):
    with pytest.raises(InputError):
        radius_report(result, **change)
