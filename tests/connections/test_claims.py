"""The claims on connections: what they find on one seed, with other parameters, and with bad ones."""

import json
import math

import pytest

from featavg.errors import InputError
from featavg.figures import animate
from featavg.paper.connections.picture import film
from featavg.paper.engine.claim import Context, NotRun
from featavg.paper.engine.registry import find_claims
from featavg.storage.files import strict_json

ONE = Context(seeds=(0,))
# The others find on one seed what the rows of `claims/sabotage_connections.py` say.
FOUND = ("min-vidal-limits", "simplicity-slabs", "optimal-radius")
SMALL = {
    "min-vidal-limits": {"k": 4, "n": 40, "width": 20, "time": 200.0},
    "simplicity-lms5": {"d": 5, "n": 600, "widths": (8,), "steps": 50},
    "simplicity-margin": {"angle": 75.0, "leak": 0.2},
    "robust-features": {"k": 4, "d": 400, "n": 500},
    "dimpled-manifold": {"k": 4, "d": 200, "r": 20},
    "expressivity": {"m": 5, "gap": 0.1, "eps": 0.2},
    "picture": {"k": 4, "d": 400, "n": 100},
    "implicit-bias-early": {"k": 4, "d": 400, "n": 60},
    "optimal-radius": {"k": 4, "d": 400},
}


def the(name):
    (claim,) = find_claims(name if name.startswith("implicit") else f"connections-{name}")
    return claim


@pytest.mark.full
@pytest.mark.parametrize("name", FOUND)
def test_a_claim_finds_what_it_found(name):
    evidence = the(name).run(ONE)
    failed = [check.name for check in evidence.checks if not check.passed]
    assert evidence.verdict.value == "holds", failed


@pytest.mark.parametrize("name", SMALL)
def test_a_claim_runs_with_other_parameters(name):
    evidence = the(name).run(ONE, **SMALL[name])
    assert all(math.isfinite(check.measured) for check in evidence.checks)
    assert evidence.figures
    assert evidence.finding.endswith(".")
    assert json.loads(json.dumps(strict_json(evidence.numbers), allow_nan=False))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("min-vidal-limits", {"width": 1}),
        ("min-vidal-limits", {"time": -1.0}),
        ("min-vidal-limits", {"scale": 0.0}),
        ("simplicity-lms5", {"lr": 0.0}),
        ("simplicity-margin", {"angle": 100.0}),
        ("simplicity-margin", {"hint": -1.0}),
        ("expressivity", {"gap": 2.0}),
        ("dimpled-manifold", {"r": 9999}),
        ("picture", {"k": 2}),
    ],
    ids=str,
)
def test_a_bad_parameter_is_named(name, bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        the(name).run(ONE, **bad)


def test_without_data_it_says_what_is_missing(tmp_path):
    with pytest.raises(NotRun, match="data-dir"):
        the("simplicity-mnist-cifar").run(Context(seeds=(0,), data_dir=tmp_path))


def test_a_film_has_its_frames(tmp_path):
    image = pytest.importorskip("PIL.Image")
    frames = film(k=4, d=400, n=60, steps=4, every=2)
    path = animate(frames, tmp_path / "film.gif")
    with image.open(path) as moving:
        assert moving.n_frames == 3
    with pytest.raises(InputError, match="frames"):
        animate([], path)
    with pytest.raises(InputError, match="path"):
        animate(frames, tmp_path / "film.mp4")
