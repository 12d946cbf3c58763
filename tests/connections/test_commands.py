"""`featavg connections`: every command runs with options, and bad input is one sentence."""

import json

import pytest

from featavg.cli.app import main
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.matplotlib_figure import animate

RUNS = [
    ("features", ["--k", "4", "--d", "400", "--n", "500"]),
    ("expressivity", ["--m", "5", "--gap", "0.1", "--eps", "0.2"]),
    ("margin", ["--angle", "75", "--seeds", "1"]),
    ("manifold", ["--k", "4", "--d", "200", "--r", "20"]),
    ("picture", ["--k", "4", "--d", "400", "--n", "100"]),
    ("simplicity", ["--d", "5", "--n", "600", "--width", "8", "--steps", "50"]),
]
POWER = ["--p", "2", "--k", "4", "--n", "40", "--width", "20", "--time", "200"]


@pytest.mark.parametrize(("name", "options"), RUNS, ids=[name for name, _ in RUNS])
def test_a_command_writes_figures_and_numbers(name, options, tmp_path, capsys):
    seeds = [] if name in ("picture", "margin") else ["--seeds", "1"]
    assert main(["connections", name, *options, *seeds, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["finding"] in printed
    assert written["numbers"]
    assert list(tmp_path.glob(f"{name}-*.png"))


def test_every_power_and_seed_is_written(tmp_path, capsys):
    options = [*POWER, "--seeds", "2", "--out", str(tmp_path)]
    assert main(["connections", "min-vidal", *options]) == 0
    for seed in (0, 1):
        numbers = json.loads((tmp_path / f"min-vidal-p2-seed{seed}.json").read_text())["numbers"]
        assert numbers["radius"] >= numbers["certified"]
    printed = capsys.readouterr().out
    assert "seed 0" in printed
    assert "seed 1" in printed


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["min-vidal", "--p", "0.5"], "p"),
        (["min-vidal", "--width", "1"], "width"),
        (["min-vidal", "--time", "-1"], "time"),
        (["simplicity", "--task", "lms-4"], "task"),
        (["simplicity", "--lr", "0"], "lr"),
        (["margin", "--angle", "100"], "angle"),
        (["expressivity", "--gap", "2"], "gap"),
        (["manifold", "--r", "9999"], "r"),
        (["picture", "--k", "2"], "k"),
        (["features", "--seeds", "0"], "seeds"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else value,
)
def test_bad_input_is_one_sentence(arguments, named, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["connections", *arguments]) == 2
    told = capsys.readouterr().err.strip()
    assert told.removeprefix("--").startswith(named)
    assert len(told.splitlines()) == 1


def test_a_film_has_its_frames(tmp_path):
    image = pytest.importorskip("PIL.Image")
    frames = [
        Figure(
            "film",
            "Film",
            "Frames.",
            (Lines(Axis("x"), Axis("y"), (Series("a", [0, 1], [0, i]),)),),
        )
        for i in (1, 2, 3)
    ]
    path = animate(frames, tmp_path / "film.gif")
    with image.open(path) as film:
        assert film.n_frames == 3
    with pytest.raises(InputError, match="frames"):
        animate([], path)
    with pytest.raises(InputError, match="path"):
        animate(frames, tmp_path / "film.mp4")
