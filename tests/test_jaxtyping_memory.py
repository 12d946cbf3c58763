"""The checker that remembers says what jaxtyping says, which remembers nothing."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pytest
from jaxtyping import Bool, Float, Int, TypeCheckError
from numpy import ndarray

from jaxtyping_memory import LONG, MEMORY, checker, jaxtyped, jaxtyped_with_memory

NUMBERS = itertools.count()


@runtime_checkable
class Named(Protocol):
    name: str


class WithName:
    name = "one"


class Rows(Sequence):
    """A collection of its own class, with one item."""

    def __init__(self, item):
        self.item = item

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return [self.item][index]


HINTS = {
    "matrix": Float[ndarray, "n d"],
    "row": Float[ndarray, " n"],
    "square": Float[ndarray, "n n"],
    "whole": Int[ndarray, "..."],
    "truth": Bool[ndarray, "*s"],
    "scalar or array": Float[ndarray, "*s"] | np.float64,
    "float": float,
    "int": int,
    "text": str,
    "word": Literal["one", "two"],
    "number": Literal[1, 2],
    "perhaps": Float[ndarray, " n"] | None,
    "list": list[int],
    "pair": tuple[int, int],
    "run": tuple[Float[ndarray, " n"], ...],
    "sequence": Sequence[float],
    "iterable": Iterable[str],
    "table": dict[str, Float[ndarray, " n"]],
    "mapping": Mapping[str, Literal["one"]],
    "class": type[Exception],
    "call": Callable[[int], int],
    "named": Named,
    "words": list[Literal["one"]],
}

# Each has all its items of one kind: of several, the checker without memory takes a random one.
VALUES = [
    *(np.zeros(shape) for shape in [(), 1, 2, (2, 2), (2, 3), (2, 3, 4)]),
    *(np.array([item], dtype=object) for item in ("one", 1)),
    *(np.zeros(2, kind) for kind in ["float32", "int64", "uint8", "bool", "complex", "O", "U3"]),
    *(np.float64(1), np.float32(1), np.int64(1), np.bool_(True), np.zeros(2).view(np.recarray)),
    *(0, 1, 2, 1.0, True, None, 1j, "one", "two", "three", b"one"),
    *([], [1], [1, 1], [1.0], ["one"], ["two"], [np.zeros(2)], [[1]], {1}, {"one"}, frozenset([1])),
    *((), (1,), (1, 1), (1.0, 1.0), ("one",), (np.zeros(2),), (np.zeros((2, 2)),)),
    *({}, {"one": np.zeros(2)}, {"one": np.zeros((2, 2))}, {1: np.zeros(2)}),
    *({"one": "one"}, {"one": "two"}, Rows("one"), Rows(1.0), Rows("two")),
    *(ValueError, int, np.ndarray, len, WithName(), WithName, object(), range(3), iter([1])),
    *([1] * (LONG + 1), [1.0] * (LONG + 1), tuple("ab" * LONG)),
]


def passes(function, *arguments):
    try:
        function(*arguments)
    except Exception:  # jaxtyping takes any exception of a checker for its no
        return False
    return True


def slowly(function):
    return jaxtyped(function, typechecker=checker)


def remembered(function):
    return jaxtyped_with_memory(anew(function), typechecker=checker)


def anew(function):
    """Under a name of its own, so that nothing is remembered of it."""
    function.__qualname__ += f" {next(NUMBERS)}"
    return function


def takes(hint):
    def function(value):
        pass

    function.__annotations__ = {"value": hint}
    return function


def gives(hint):
    def function(value):
        return value

    function.__annotations__ = {"return": hint}
    return function


@pytest.mark.parametrize("make", [takes, gives])
@pytest.mark.parametrize("hint", HINTS.values(), ids=HINTS)
def test_it_says_the_same_of_every_value_however_often_it_is_asked(hint, make):
    slow, fast = slowly(make(hint)), remembered(make(hint))
    truth = [passes(slow, value) for value in VALUES]
    assert any(truth)
    assert not all(truth)
    for value in itertools.compress(VALUES, truth):
        assert passes(fast, value)
    # With all in memory that it will ever have.
    assert [passes(fast, value) for value in VALUES] == truth


def test_axes_of_one_name_are_compared_between_arguments_and_the_answer():
    def product(
        x: Float[ndarray, "n d"], y: Float[ndarray, "*s d"], answer: Any
    ) -> Float[ndarray, "*s n"]:
        return answer

    slow, fast = slowly(product), remembered(product)
    matrices = [np.zeros((n, d)) for n in (1, 2) for d in (1, 2)]
    calls = list(itertools.product(matrices, [*matrices, np.zeros(2)], [*matrices, np.zeros(1)]))
    truth = [passes(slow, *call) for call in calls]
    assert 0 < sum(truth) < len(truth)
    for _ in range(3):
        assert [passes(fast, *call) for call in calls] == truth


def test_arguments_are_those_of_their_names():
    def named(*rest: int, x: Float[ndarray, " n"] | None = None, y: int = 0) -> None: ...

    fast = remembered(named)
    for _ in range(3):
        fast(x=np.zeros(2), y=1)
        fast(1, x=None)
        for wrong in ({"x": 1, "y": np.zeros(2)}, {"x": None, "y": None}):
            assert not passes(lambda wrong=wrong: fast(**wrong))
        assert not passes(fast, np.zeros(2))


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (tuple[Float[ndarray, " n"], ...], (*map(np.zeros, range(5)), np.zeros((2, 2)))),
        (list[int], [1, 2, 3, 4, 5, "six"]),
        (Sequence[int], (1, 2, 3, 4, 5, "six")),
        (tuple[int, str, float], (1, "two", "three")),
        (list[tuple[int, ...]], [(1, 2), (3, 4), (5, "six")]),
    ],
)
def test_one_wrong_item_among_several_is_found(hint, values):
    """A single look finds it with a probability of one sixth at least, and may find nothing."""
    for _ in range(20):
        fast = remembered(takes(hint))
        assert not all(passes(fast, values) for _ in range(100))


@pytest.mark.parametrize("make", [takes, gives])
def test_the_error_is_jaxtypings_and_names_the_function(make):
    fast = remembered(make(int))
    for _ in range(3):
        fast(1)
        with pytest.raises(TypeCheckError, match="function"):
            fast("one")


@pytest.fixture
def counted(monkeypatch):
    """The number of checks that are made, as the only item of a list."""
    checks, unchanged = [0], checker

    def counting(function):
        checked = unchanged(function)

        def count(*arguments, **named):
            checks[0] += 1
            return checked(*arguments, **named)

        return functools.wraps(function)(count)

    monkeypatch.setattr(sys.modules[__name__], "checker", counting)
    return checks


def test_a_kind_is_checked_once_and_a_mixed_one_until_all_its_items_are_seen(counted):
    def keeps(x: Float[ndarray, " n"], several: tuple[float, ...] = ()) -> Float[ndarray, " n"]:
        return x

    fast = remembered(keeps)
    for _ in range(50):
        fast(np.zeros(3))
    once = counted[0]
    assert once == 3  # the arguments, with the answer, and the answer of known arguments
    for _ in range(50):
        fast(np.zeros(3), (1, 2.0))
    assert counted == [once + 20 * 3]
    for length in range(2 * MEMORY):
        fast(np.zeros(length))
    before = counted[0]
    fast(np.zeros(2 * MEMORY - 1))  # too many to remember
    assert counted[0] == before + 2


def test_what_is_not_decided_by_its_kind_is_checked_each_time(counted):
    def of_length(n: int, x: Float[ndarray, "{n}"]) -> None: ...

    def of_rows(rows: Sequence[str]) -> None: ...

    sized, opened = remembered(of_length), remembered(of_rows)
    for _ in range(3):
        assert passes(sized, 2, np.zeros(2))
        assert not passes(sized, 3, np.zeros(2))
        assert passes(opened, Rows("one"))
        assert not passes(opened, Rows(1))
    assert counted[0] >= 12


def test_a_function_inside_another_has_the_memory_of_its_last_life(counted):
    def outer(hint, value):
        def inner(x):
            return [x, value][1]

        inner.__annotations__ = {"x": hint, "return": hint}
        return jaxtyped_with_memory(inner, typechecker=checker)

    for value in range(5):
        assert outer(int, value)(1) == value
    assert counted == [3]
    outer(str, "one")("one")  # other annotations under the same name
    assert counted == [5]
    for wrong in (outer(int, 1), "one"), (outer(int, "one"), 1), (outer(str, 1), 1):
        assert not passes(*wrong)


def test_the_package_is_checked_by_it():
    """Functions, methods, properties and constructors; and what is wrong is noticed the second time."""
    import featavg as fa
    from featavg.measures.accuracy import wilson

    assert wilson.__code__.co_filename.endswith("jaxtyping_memory.py")
    task = fa.MultiCluster(k=4, d=40)
    for _ in range(3):
        net = fa.feature_averaging(task)
        assert net.weights.ndim == 2
        with pytest.raises(TypeCheckError):
            wilson("one", 2)
