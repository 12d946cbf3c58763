"""The boundary: bad calls are one sentence that names the argument, good ones pass or are converted.

The calls run in a process of their own: here the types are checked at run time by another tool.
"""

import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import featavg as fa
from featavg.storage.reading import read_json

TABLE = r"""
import inspect, json, typing
import numpy as np
import featavg as fa
from featavg.boundary import resolved_annotations

BAD = {
    "None": None, "text": "no such thing", "a number": -1.5, "nan": float("nan"), "true": True,
    "an object": object(), "a dictionary": {1: 2}, "a function": print, "bytes": b"x",
    "a list of text": ["a", "b"], "a complex number": 1j,
}

def originals():
    for name in fa.__all__:
        public = getattr(fa, name)
        if inspect.isfunction(public) and hasattr(public, "__wrapped__"):
            yield name, public, public.__wrapped__
        elif inspect.isclass(public) and hasattr(public.__init__, "__guarded__"):
            if inspect.isabstract(public):
                continue
            yield name, public, public.__init__.__wrapped__

def refusable(annotation, value):
    # The table must not believe the boundary: plain kinds are judged here, by hand.
    text = str(annotation)
    kinds = {int: ("text", "an object", "nan", "None", "true", "a dictionary", "a complex number"),
             float: ("text", "an object", "nan", "None", "true", "a dictionary", "a complex number"),
             bool: ("text", "an object", "None", "a number", "a dictionary"),
             str: ("None", "a number", "an object", "a dictionary", "bytes")}
    return value in kinds.get(annotation, ())

rows = []
for name, public, original in originals():
    signature, annotations = resolved_annotations(original)
    for parameter, annotation in annotations.items():
        for word, value in BAD.items():
            array = hasattr(annotation, "dim_str") and word in ("text", "an object", "None", "a list of text")
            if not (refusable(annotation, word) or array):
                continue
            # A record says what was measured, and NaN says that it could not be.
            record = inspect.isclass(public) and (
                not hasattr(public, "__post_init__") or hasattr(public, "_repr_html_")
            )
            if record and word == "nan" and annotation is float:
                continue
            try:
                public(**{parameter: value})
                rows.append([name, parameter, word, "accepted", ""])
            except Exception as error:
                rows.append([name, parameter, word, type(error).__name__, str(error)])
    if not any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        try:
            public(no_such_argument=1)
            rows.append([name, "no_such_argument", "unknown", "accepted", ""])
        except Exception as error:
            rows.append([name, "no_such_argument", "unknown", type(error).__name__, str(error)])
print(json.dumps(rows))
"""


def run(script, folder="."):
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_every_bad_call_of_the_table_is_one_sentence_that_names_the_argument():
    rows = run(TABLE)
    assert len(rows) >= 300
    assert len({name for name, *_ in rows}) >= 40
    wrong = [
        row
        for row in rows
        if row[3] != "InputError" or not row[4].startswith(f"{row[1]} ") or "\n" in row[4]
    ]
    assert wrong == []


CALLS = r"""
import json, pickle
import numpy as np
import featavg as fa

task = fa.MultiCluster(k=4, d=200)
trained = fa.train(task, n=40.0, steps=5, stepper="adam", lr=1e-3)
test = task.sample(3, seed=1)
result = {}
result["name of a stepper"] = trained.net.weights.shape[0]
result["a trajectory for its net"] = bool(
    np.array_equal(fa.cosines(trained, task), fa.cosines(trained.net, task))
)
result["lists for arrays"] = fa.TwoLayer([[1.0, 0.0]], [0.0], [[1.0]]).weights.shape
result["pickled"] = pickle.loads(pickle.dumps(fa.train)) is fa.train
result["the class itself"] = isinstance(task, fa.MultiCluster)
result["a path of text for a method"] = fa.radii(trained, test).save("radii.npz") is None
result["radii as a list of lengths"] = len(
    fa.pgd_curve(fa.network_model(trained), test.x, test.y, radii=[0.5], steps=1).radii
)
model = fa.torch_model(__import__("torch").nn.Linear(200, 1))
refused = {}
for name, call in {
    "seed": lambda: fa.train(task, n=40, seed=-1, steps=1),
    "weights": lambda: fa.TwoLayer([[float("nan"), 0.0]], [0.0], [[1.0]]),
    "k": lambda: fa.MultiCluster(k="four", d=10),
    "net": lambda: fa.cosines(None, task),
    "stepz": lambda: fa.MultiCluster(stepz=3),
    "task": lambda: fa.train(7),
    "points": lambda: fa.radii(trained.net, "points"),
    "every": lambda: fa.train_images(fa.load_images("digits"), "fine", every=float("inf")),
    # Options that are handed on to a class, and parts that are none.
    "m": lambda: fa.train(task, n=40, m="five"),
    "stepper": lambda: fa.train(task, n=40, stepper=3),
    "controller": lambda: fa.train(task, n=40, controller=fa.Constant),
    # Methods: of what is given, of what comes back, and of the network inside.
    "n": lambda: task.sample("three", seed=0),
    "dimension": lambda: test.coordinates("a"),
    "save": lambda: trained.at(99),
    "folder": lambda: trained.save(7),
    "x of another width": lambda: trained.net([[1.0, 2.0]]),
    "x that is one point": lambda: trained.net(test.x[0]),
    "x that is NaN": lambda: trained.net(test.x * float("nan")),
    "x of a deep network": lambda: fa.Deep((np.eye(2), np.ones((1, 2))))([[1.0]]),
    "radii": lambda: fa.radii(trained, test).robust_accuracy([float("nan")]),
    "sign": lambda: task.class_clusters(3),
    "mean": lambda: fa.torch_model(model.module, mean=[1.0, 2.0]).shaped(test.x),
    # What type checkers alone import, and values of a table.
    "audit": lambda: fa.write_audit(3, "page"),
    "nets": lambda: fa.image_curve({"coarse": 3}, fa.load_images("digits")),
    "folder with a long name": lambda: fa.load_simulation("a" * 300),
    "labels": lambda: fa.collapse(np.eye(3), [0, 0, 0]),
    "open_browser": lambda: fa.playground("page.html", open_browser=3),
}.items():
    try:
        call()
        refused[name] = "accepted"
    except fa.InputError as error:
        refused[name] = str(error)
print(json.dumps([result, refused]))
"""


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    pytest.importorskip("torch")
    return run(CALLS, tmp_path_factory.mktemp("calls"))


def test_what_means_the_right_thing_is_taken(calls):
    result, _ = calls
    assert result["a trajectory for its net"] is True
    assert result["lists for arrays"] == [1, 2]
    assert result["pickled"] is True
    assert result["the class itself"] is True
    assert result["a path of text for a method"] is True
    assert result["radii as a list of lengths"] == 1


def test_what_does_not_is_named(calls):
    _, refused = calls
    assert len(refused) >= 25
    wrong = {n: told for n, told in refused.items() if not told.startswith(f"{n.split()[0]} ")}
    assert wrong == {}


def test_the_boundary_costs_next_to_nothing():
    """Counted, not timed: a call through the boundary does a bounded number of checks."""
    from featavg import boundary
    from featavg.boundary import fitting

    looked = []
    fit = fitting.fit

    def counting(annotation, value, nan):
        looked.append(annotation)
        return fit(annotation, value, nan)

    def function(x: int, y: float = 1.0, z: str = "a") -> int:
        return x

    guarded = boundary.guarded(function)
    fitting.fit = counting
    try:
        assert guarded(3) == 3
    finally:
        fitting.fit = fit
    assert len(looked) == 1


def test_what_was_measured_may_be_nan_and_copies_are_no_calls_from_outside():
    index = fa.averaging_index(
        fa.feature_decoupling(fa.MultiCluster(k=4, d=50)), fa.MultiCluster(k=4, d=50)
    )
    assert np.isnan(replace(index, value=math.nan).value)
    assert not fa.Check("c", math.nan, "<=", 1).passed


def test_arrays_go_through():
    """An array is compared with nothing as a whole: its truth value is an error."""
    assert fa.binary(np.ones((4, 3))).neurons == 4
    with pytest.raises(fa.InputError, match="is empty"):
        fa.load_images("")


NEEDED = {"Adversarial": {"radius": 1.0}, "Cosine": {"rate": 0.1}}
WITH_STEPS = [
    *("APGD", "DDN", "DeepFool", "Directions", "FMN", "PGD", "RandomStarts", "MultiStartDDN"),
    *("Adversarial", "Cosine", "HeadRecipe", "Recipe", "Setting", "Stop", "slab_reliance"),
    "paired_pictures",
]


@pytest.mark.parametrize("name", WITH_STEPS)
def test_the_least_number_of_steps_is_the_one_that_is_accepted(name):
    """An attack of no steps would call everything robust; training for none is a start."""
    with pytest.raises(fa.InputError, match="steps") as refused:
        getattr(fa, name)(**NEEDED.get(name, {}), steps=-1)
    if "0 or more" in str(refused.value):
        getattr(fa, name)(**NEEDED.get(name, {}), steps=0)


OUTSIDE = """
import numpy as np
import featavg as fa

assert fa.MultiCluster(k=np.array(4), d=np.array(40.0)).k == 4
for call in (
    lambda: fa.MultiCluster(k=2, d=40, norms={1.0, 2.0}),
    lambda: fa.MultiCluster(k=4, d=40).sample(10**15, seed=0),
    lambda: fa.grouped(np.ones((4, 0)), 4),
):
    try:
        call()
    except fa.InputError as error:
        print(error)
"""


def test_numbers_without_axes_sets_too_much_memory_and_empty_axes():
    told = subprocess.run(
        [sys.executable, "-c", OUTSIDE], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [line.split(":")[0] for line in told] == [
        "norms is a set",
        "sample needs more memory than there is",
        "weights has shape (4, 0)",
    ]


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b"\xef\xbb\xbf[1, 2]")
    assert read_json(path) == [1, 2]
