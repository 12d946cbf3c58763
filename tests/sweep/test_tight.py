"""What tells one run of a sweep from another, and where the points of an axis lie."""

from dataclasses import replace

import numpy as np
import pytest

import featavg
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.measures import MEASURES
from featavg.simulate.sweep.plan import SweepAxis, _between
from featavg.simulate.sweep.work import described, run_id

LOSS = MEASURES["loss"]


def test_every_part_of_a_run_is_in_its_id(monkeypatch):
    values = described(Setting())
    ids = [
        run_id(values, 0, LOSS),
        run_id(values, 1, LOSS),
        run_id(described(Setting(k=4)), 0, LOSS),
        run_id(values, 0, replace(LOSS, version=LOSS.version + 1)),
        run_id(values, 0, replace(LOSS, name="other")),
    ]
    monkeypatch.setattr(featavg, "__version__", "another")
    ids.append(run_id(values, 0, LOSS))
    assert len(set(ids)) == len(ids)


def test_a_seed_is_the_same_run_alone_and_in_company():
    assert described(Setting(seeds=(0,))) == described(Setting(seeds=(0, 1, 2)))


def test_points_of_an_axis():
    assert SweepAxis.parse("d=1e2:1e4:3:log").values == (100, 1000, 10000)
    assert SweepAxis.parse("d=100:300:3").values == (100, 200, 300)
    log, straight = SweepAxis("sigma", (1.0, 100.0), log=True), SweepAxis("sigma", (1.0, 100.0))
    assert _between(log, 0.5) == pytest.approx(10.0)
    assert _between(straight, 0.5) == pytest.approx(50.5)
    assert _between(SweepAxis("k", (2, 10)), 0.5) == 6
    assert {_between(SweepAxis("stepper", ("gd", "adam")), s) for s in np.linspace(0, 1, 5)} == {"gd", "adam"}
