"""Arrays that look odd and mean the same: lists, tensors, other orders, strides, types, subclasses.

Each public function of the table answers as it does for plain ones, to the last digit that it shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.public_calls import CALLS
from tests.small import deep, points

import featavg as fa
from featavg.boundary.coerce import plain_array
from featavg.errors import InputError


class Own(np.ndarray):
    """A subclass, of which there are many."""


class Table:
    """What can be made an array, as tables of other libraries."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values if dtype is None else self.values.astype(dtype)


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


def tensor(array: np.ndarray) -> Any:
    torch = pytest.importorskip("torch")
    made = torch.tensor(array)
    return made.requires_grad_() if made.is_floating_point() else made


ODD: dict[str, Callable[[np.ndarray], Any]] = {
    "list": np.ndarray.tolist,
    "read-only": read_only,
    "Fortran order": np.asfortranarray,
    "negative strides": lambda array: np.ascontiguousarray(array[::-1])[::-1],
    "every second": lambda array: np.repeat(array, 2, axis=0)[::2],
    "other byte order": lambda array: array.astype(array.dtype.newbyteorder(">")),
    "subclass": lambda array: array.view(Own),
    "nothing masked": np.ma.array,
    "table": Table,
    "tensor with a gradient": tensor,
    "long double": lambda array: array.astype(np.longdouble) if array.dtype.kind == "f" else array,
}
NAMES = ("averaging_index_of", "collapse", "max_margin", "kkt", "certify", "attack_suite", "margins")


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", NAMES)
def test_odd_arrays_are_answered_as_plain_ones(name: str, odd: str) -> None:
    given = CALLS[name]()
    changed = {
        argument: ODD[odd](value) if isinstance(value, np.ndarray) else value for argument, value in given.items()
    }
    assert repr(getattr(fa, name)(**changed)) == repr(getattr(fa, name)(**given))


def test_single_precision_is_computed_in_double() -> None:
    """A certificate from points in float32 is one of their exact values."""
    x, y = points().x, np.arange(6) % 3
    single = x.astype(np.float32)
    exact = fa.radii(deep(), single.astype(float), y)
    assert np.array_equal(fa.radii(deep(), single, y).certified, exact.certified)
    half = fa.radii(deep(), x.astype(np.float16), y)
    assert half.certified.dtype == np.float64


def test_labels_may_be_floats_that_are_whole_and_no_others() -> None:
    given = CALLS["max_margin"]()
    whole = fa.max_margin(given["x"], given["y"].astype(float))
    assert repr(whole) == repr(fa.max_margin(**given))
    with pytest.raises(InputError, match=r"^y is an? "):
        fa.max_margin(given["x"], given["y"] + 0.5)


def test_what_is_masked_is_missing() -> None:
    assert plain_array(np.ma.masked_less(np.eye(2), 0.5)) is None
    assert type(plain_array(np.eye(2).view(Own))) is np.ndarray
