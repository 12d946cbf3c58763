"""`featavg connections`: every command runs with options, and bad input is one sentence."""

import json

import pytest

from featavg.cli import main
from featavg.errors import InputError
from featavg.figures.animation import animate
from featavg.figures.figure import Axis, Figure, Lines, Series

RUNS = [
    ("features", ["--k", "4", "--d", "400", "--n", "500"]),
    ("expressivity", ["--m", "5", "--gap", "0.1", "--eps", "0.2"]),
    ("margin", ["--angle", "75", "--seeds", "1"]),
    ("manifold", ["--k", "4", "--d", "200", "--r", "20"]),
    ("picture", ["--k", "4", "--d", "400", "--n", "100"]),
]


@pytest.mark.parametrize(("name", "options"), RUNS, ids=[name for name, _ in RUNS])
def test_a_command_writes_figures_and_numbers(name, options, tmp_path, capsys):
    seeds = [] if name in ("picture", "margin") else ["--seeds", "1"]
    assert main(["connections", name, *options, *seeds, "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    numbers = json.loads((tmp_path / f"{name}.json").read_text())
    assert numbers["finding"].split()[0] in told
    assert list(tmp_path.glob(f"{name}-*.png"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["min-vidal", "--p", "2", "--k", "4", "--n", "40", "--width", "20", "--time", "200"],
        [
            "simplicity",
            "--task",
            "lms-5",
            "--d",
            "5",
            "--n",
            "600",
            "--width",
            "8",
            "--steps",
            "50",
        ],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_command_prints_a_table(arguments, capsys):
    assert main(["connections", *arguments]) == 0
    assert "seed" in capsys.readouterr().out


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
    assert told.startswith(named)
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
