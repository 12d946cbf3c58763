"""Odd values of each kind: what a person hands over who has the wrong variable, or a hostile one."""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

NAN, INF = float("nan"), float("inf")
HUGE = 10**400  # no float can hold it


class Named:
    """A value with a name of its own in the list, made anew for each call: generators run dry."""

    def __init__(self, name: str, make: Any) -> None:
        self.name, self.make = name, make

    def __repr__(self) -> str:
        return self.name


def made(value: Any) -> Any:
    """The value itself."""
    return value.make() if isinstance(value, Named) else value


def _self_made() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _nested(depth: int) -> list[Any]:
    inner: list[Any] = [1.0]
    for _ in range(depth):
        inner = [inner]
    return inner


def _tensor_of_bits() -> Any:
    import torch

    return torch.eye(3).to_sparse()


def _nested_tensor() -> Any:
    import torch

    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


class _Raises:
    """An object whose every use as an array raises something of its own."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array today")

    def __len__(self) -> int:
        raise RuntimeError("no length today")


NO_ARRAYS = (
    np.array([None, 1.0], dtype=object),
    Named("ragged list", lambda: [[1.0], [1.0, 2.0]]),
    Named("complex array", lambda: np.eye(3) * 1j),
    Named("masked array", lambda: np.ma.masked_less(np.eye(3), 0.5)),
    Named("structured array", lambda: np.zeros(3, dtype=[("a", float), ("b", int)])),
    Named("dates", lambda: np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")),
    Named("generator", lambda: (i * 1.0 for i in range(3))),
    Named("endless generator", itertools.count),
    Named("set", lambda: {1.0, 2.0}),
    Named("list of None", lambda: [None, None]),
    Named("list of huge numbers", lambda: [HUGE, 1]),
    Named("list in itself", _self_made),
    Named("200 levels of lists", lambda: _nested(200)),
    Named("100,000 levels of lists", lambda: _nested(100_000)),
    Named("sparse tensor", _tensor_of_bits),
    Named("object that raises", _Raises),
    Named("nested tensor", _nested_tensor),
    Named("memory view", lambda: memoryview(b"abc")),
    Named("type", lambda: np.ndarray),
    Named("file", lambda: np.ones),
)
NO_NUMBERS = (
    True,
    "5",
    " 5 ",
    "５",
    decimal.Decimal("NaN"),
    np.float64("nan"),
    np.datetime64("2020-01-01"),
    datetime.timedelta(seconds=3),
    Named("list of one", lambda: [5]),
    Named("array of two", lambda: np.array([1, 2])),
    Named("type", lambda: int),
    Named("object that raises", _Raises),
)
NO_WORDS = (
    " ",
    "\ud800",
    "a\0b",
    "a\nb",
    "\x1b[31mred",
    Named("a million letters", lambda: "a" * 10**6),
    Named("bytes", lambda: b"coarse"),
    Named("list of one word", lambda: ["coarse"]),
)
NO_PATHS = (
    "a\0b",
    "\ud800",
    "a" * 300,
    Named("6,000 letters", lambda: "a/" * 3000),
    Named("file number", lambda: 0),
    Named("bytes", lambda: b"here"),
    Named("list of one name", lambda: ["here"]),
)
NO_LISTS = (
    Named("endless generator", itertools.count),
    Named("list in itself", _self_made),
    Named("list of None", lambda: [None]),
    Named("object that raises", _Raises),
    Named("dictionary", lambda: {"a": 1}),
    Named("set", lambda: {1.0, 2.0}),
    Named("type", lambda: list),
)
NO_OBJECTS = (
    Named("type", lambda: object),
    Named("object that raises", _Raises),
    Named("dictionary", lambda: {"k": 4, "d": 30}),
    Named("array", lambda: np.eye(3)),
    True,
)


def odd_numbers(options: set[Any], whole: bool) -> Iterator[Any]:
    """Where a number is wanted."""
    yield from NO_NUMBERS[: None if bool not in options else 0]
    if whole and float in options:
        yield from (HUGE, -HUGE)
    if whole and float not in options:
        yield -HUGE


def spoiled(array: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays like a good one, with one thing wrong."""
    if array.dtype.kind == "f" and array.size:
        for name, bad in (("NaN", NAN), ("inf", INF), ("-inf", -INF)):
            copy = array.copy()
            copy.flat[-1] = bad
            yield f"with {name} at its end", copy
    if array.dtype.kind in "iu" and array.size:
        copy = array.astype(float)
        copy.flat[-1] += 0.5
        yield "with half a number", copy
        copy = array.astype(object)
        copy.flat[-1] = HUGE
        yield "with a huge number", copy
    if array.ndim > 1:
        yield "with an axis of no length", array[..., :0]
    if array.ndim:
        yield "of one axis more", array[None]
        yield ("as a masked array", np.ma.array(array, mask=np.arange(array.size).reshape(array.shape) == 0))
        yield "as objects", array.astype(object).reshape(array.shape)[..., None].repeat(2, -1)
        yield "as text", array.astype(str)
        yield "as complex numbers", array + 1j
