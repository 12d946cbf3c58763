"""Run with a package that has the toys: is each of them in flags, help, doctor and error messages?

Prints JSON: for each toy an empty text, or what went wrong.
"""

import contextlib
import io
import json
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

import featavg as fa
from featavg.__main__ import main
from featavg.registry import STEPPERS

SMALL = ["--k", "4", "--d", "60", "--n", "20", "--steps", "3", "--no-figures", "--labels", "coarse"]
OUT = Path(tempfile.mkdtemp())


def said(*words, code=0):
    """What a command prints, on both streams and on one line."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        returned = main(list(words))
    assert returned == code, text.getvalue()
    return " ".join(text.getvalue().replace("│", " ").split())


def is_an_option(flag):
    """A part that `featavg simulate` knows: in its help, in its errors, and it runs."""
    assert "toy" in said("simulate", "--help").partition(f"--{flag} ")[2][:200]
    assert "toy" in said("simulate", f"--{flag}", "nobody", code=2)
    said("simulate", f"--{flag}", "toy", *SMALL, "--out", str(OUT / flag))
    assert getattr(fa.load_simulation(OUT / flag).setting, flag).startswith("toy")


def claim():
    assert "toy-claim" in said("claims")
    assert "holds" in said("reproduce", "--only", "toy-claim", "--out", str(OUT / "report"))
    assert "toy-claim" in said("reproduce", "--only", "toy-clam", code=2)


def command():
    assert "Say that a toy was here" in said("--help")
    assert said("toy") == "a toy was here"


def attack():
    net = fa.TwoLayer(np.eye(2), np.zeros(2), np.array([[1.0, -1.0]]))
    model = fa.network_model(net, bounds=(-20.0, 20.0))
    x = np.array([[3.0, 1.0]])
    assert "toy" in fa.attack_suite(model, x, [1]).attacks
    refused(lambda: fa.attack_suite(model, x, [1], attacks=["nobody"]))


def refused(call):
    """A name that nothing has, in a sentence that lists the toy."""
    message = ""
    try:
        call()
    except fa.InputError as error:
        message = str(error)
    assert "toy" in message


def stepper():
    is_an_option("stepper")
    assert "toy" in STEPPERS


def controller():
    is_an_option("controller")


def loss():
    is_an_option("loss")


def activation():
    is_an_option("activation")


def readout():
    is_an_option("readout")
    net = fa.grouped(np.eye(4), 4)
    x, mask = np.array([[3.0, 1.0, 0.5, 0.5]]), [True, True, False, False]
    assert fa.score(net(x), mask, "toy").tolist() == [1.5]
    # The mean of two outputs minus that of the others: a gradient of length one, no kink on the way.
    np.testing.assert_allclose(fa.radii(net, x, [1], readout="toy", positive=mask).certified, 1.5, rtol=1e-6)
    refused(lambda: fa.score(net(x), mask, "nobody"))


def image_set():
    assert "toy" in said("images", "train", "--help")
    assert "toy" in said("images", "presets")
    assert "toy" in said("data", "list")
    assert "toy" in fa.doctor(OUT).data
    assert "toy" in said("images", "train", "nobody", "coarse", code=2)


def panel():
    from featavg.figures.toy import Toy

    from featavg.figures.figure import Figure
    from featavg.figures.matplotlib_figure import draw, render
    from featavg.figures.plotly_figure import legend, plotly_panels

    figure = Figure("needles", "Needles", "Three.", (Toy((1.0, 2.0, 3.0), "Panel"),))
    assert Figure.from_json(figure.to_json()) == figure
    assert figure.csv().splitlines()[-1] == "1,needle,2,3"
    assert figure.alt == "Needles. Three. Panels: Panel."
    assert [entry.label for entry in legend(figure)] == ["needle"]
    assert plotly_panels(figure)[0]["data"][0]["y"] == [1.0, 2.0, 3.0]
    drawing = draw(figure)
    assert len(drawing.axes[0].collections[0].get_segments()) == 3
    assert drawing.axes[0].get_title(loc="left") == "Panel"
    assert set(render(figure)) == {"png", "pdf", "svg", "csv"}


def three_layers():
    """No file at all: a number."""
    assert "--depth" in said("simulate", "--help")
    said("simulate", "--depth", "3", "--m", "2", *SMALL, "--out", str(OUT / "deep"))
    assert "median" in said("radius", str(OUT / "deep"), "--points", "2", "--out", str(OUT / "r"))


def examined(check):
    try:
        check()
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    checks = {
        "claim": claim, "command": command, "attack": attack, "stepper": stepper,
        "controller": controller, "loss": loss, "activation": activation, "readout": readout,
        "image_set": image_set, "panel": panel, "three_layers": three_layers,
    }  # fmt: skip
    json.dump({name: examined(check) for name, check in checks.items()}, sys.stdout)
