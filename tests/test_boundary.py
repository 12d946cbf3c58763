"""Bad calls are one sentence that names the argument; good ones pass or are converted."""

import inspect
import pickle
import typing

import numpy as np
import pytest
from tests.public_calls import CALLS

import featavg as fa
from featavg.boundary.public import hints
from featavg.paper.engine.check import Check
from featavg.storage.reading import read_json

BAD = {
    "text": "no such thing", "nan": float("nan"), "true": True, "an object": object(),
    "a dictionary": {1: 2}, "bytes": b"x", "a complex number": 1j, "None": None, "a number": -1.5,
}  # fmt: skip
NUMBERS = ("text", "an object", "nan", "None", "true", "a dictionary", "a complex number")
# Judged here by hand: the table must not believe the boundary.
REFUSED = {
    int: NUMBERS,
    float: NUMBERS,
    bool: ("text", "an object", "None", "a number", "a dictionary"),
    str: ("None", "a number", "an object", "a dictionary", "bytes"),
}
ARRAYS = ("text", "an object", "None")


def bad_calls():
    for name in fa.__all__:
        public = getattr(fa, name)
        if not inspect.isfunction(public):
            continue
        for argument, annotation in hints(public.__wrapped__).items():
            kind = typing.get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation
            words = ARRAYS if hasattr(kind, "dim_str") else REFUSED.get(kind, ())
            default = inspect.signature(public).parameters.get(argument)
            if argument == "return" or default is None or default.kind is default.VAR_KEYWORD:
                continue
            for word in words:
                if not (word == "None" and default.default is None):
                    yield name, argument, word
        yield name, "no_such_argument", "text"


def test_every_bad_call_of_the_table_is_one_sentence_that_names_the_argument():
    pytest.importorskip("torch")
    calls = list(bad_calls())
    assert len(calls) >= 300
    assert len({name for name, *_ in calls}) >= 30
    wrong = []
    for name, argument, word in calls:
        given = CALLS[name]() | {argument: BAD[word]}
        takes_more = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(getattr(fa, name)).parameters.values())
        if argument == "no_such_argument" and takes_more:
            continue
        try:
            getattr(fa, name)(**given)
            wrong.append((name, argument, word, "accepted"))
        except Exception as error:
            said = str(error)
            plain = isinstance(error, fa.InputError) and said.startswith(f"{argument} ")
            if not plain or "\n" in said:
                wrong.append((name, argument, word, f"{type(error).__name__}: {said}"))
    assert wrong == []


def test_what_means_the_right_thing_is_taken():
    task = fa.MultiCluster(k=4, d=200)
    trained = fa.train(task, n=40.0, steps=5, stepper="adam", lr=1e-3)
    assert np.array_equal(fa.cosines(trained, task), fa.cosines(trained.net, task))
    assert fa.TwoLayer([[1.0, 0.0]], [0.0], [[1.0]]).weights.shape == (1, 2)
    assert pickle.loads(pickle.dumps(fa.train)) is fa.train
    assert fa.MultiCluster(k=np.array(4), d=np.array(40.0)).k == 4
    test = task.sample(3, seed=1)
    curve = fa.pgd_curve(fa.network_model(trained), test.x, test.y, radii=[0.5], steps=1)
    assert len(curve.radii) == 1


TASK = fa.MultiCluster(k=4, d=60)
REFUSALS = {
    "seed": lambda: fa.train(TASK, n=40, seed=-1, steps=1),
    "weights": lambda: fa.TwoLayer([[float("nan"), 0.0]], [0.0], [[1.0]]),
    "weights of no columns": lambda: fa.grouped(np.ones((4, 0)), 4),
    "k": lambda: fa.MultiCluster(k="four", d=10),
    "norms": lambda: fa.MultiCluster(k=2, d=40, norms={1.0, 2.0}),
    "net": lambda: fa.cosines(None, TASK),
    "task": lambda: fa.train(7),
    "m": lambda: fa.train(TASK, n=40, m="five"),
    "stepper": lambda: fa.train(TASK, n=40, stepper=3),
    "labels": lambda: fa.collapse(np.eye(3), [0, 0, 0]),
    "folder": lambda: fa.load_simulation("a" * 300),
    "open_browser": lambda: fa.playground("page.html", open_browser=3),
    "source": lambda: fa.load_images(""),
    "n": lambda: fa.draw(TASK, 0, 10, 0),
    "momentum": lambda: fa.ImageRecipe(momentum=-1.0),
    "controller": lambda: fa.Recipe(controller=""),
    "pixels": lambda: fa.Images(np.zeros((4, 1, 8, 0), np.uint8), np.arange(4)),
    "fine": lambda: fa.rehead(None, np.eye(3), np.arange(3), np.ma.masked_less(np.arange(3.0), 1)),
    "y": lambda: fa.max_margin(np.eye(3), np.ones(2, dtype=int)),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_does_not_is_named(name):
    with pytest.raises(fa.InputError, match=rf"^{name.split()[0]} ") as refused:
        REFUSALS[name]()
    assert "\n" not in str(refused.value)


def test_a_network_called_by_a_user_is_plain_arithmetic():
    """Counted, not timed: neither `net(x)` nor a constructor of the package is wrapped."""
    for kind in (fa.TwoLayer, fa.Deep, fa.MultiCluster):
        for member in (kind.__init__, kind.__call__):
            assert not hasattr(member, "__wrapped__"), kind


def test_what_was_measured_may_be_nan():
    assert not Check("c", float("nan"), "<=", 1).passed


STEPS = ("APGD", "DDN", "DeepFool", "Directions", "FMN", "PGD", "RandomStarts")


@pytest.mark.parametrize("name", STEPS)
def test_an_attack_takes_at_least_one_step(name):
    """An attack of no steps would call everything robust."""
    with pytest.raises(fa.InputError, match="steps"):
        getattr(fa.attacks, name)(steps=-1)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path):
    path = tmp_path / "table.json"
    path.write_bytes(b"\xef\xbb\xbf[1, 2]")
    assert read_json(path) == [1, 2]
