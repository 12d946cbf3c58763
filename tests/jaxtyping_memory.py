"""The checker of annotations under pytest: beartype, for which an int is a float too, with a memory.

A training run calls small functions a hundred thousand times with arrays of the same shapes, and to check a
call takes longer than the call: four fifths of the time of such a test. So what passed is remembered. Whether
arguments and answer fit their annotations follows from the kind of each: its class, and of an array the dtype
and the shape as well. A call of kinds that have passed will pass again. What its kind does not decide is
checked at every call. `tests/test_jaxtyping_memory.py` compares this with jaxtyping as it is.

The name of this file begins like that of the package whose part it takes: `featavg.boundary` looks past both.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum
from types import FunctionType
from typing import Any

import jaxtyping
import jaxtyping._decorator
import numpy as np
from beartype import BeartypeConf, beartype

checker = beartype(conf=BeartypeConf(is_pep484_tower=True))
jaxtyped = jaxtyping.jaxtyped

# Kinds of calls remembered of one function; the calls beyond them are all checked.
MEMORY = 2_000
# A collection with more items is checked at each call: to look at them all would take longer.
LONG = 32
# Of a list or tuple beartype looks at one item, a random one. Where they are not all of one kind, the
# call has to pass this many times for each of them, after which one that does not fit has been
# overlooked with a probability of e^-10.
LOOKS = 10

_UNDECIDED = object()


class _Items(tuple[Any, ...]):
    """The class of a collection and the kinds of its items."""


@dataclass(slots=True)
class _Memory:
    """What is known of one function; of one inside another, for all its lives.

    looks_left: at kinds of arguments, and of arguments with their answer, how often they must still pass.
    whole: jaxtyping's stand-in for the function, which takes its arguments and `answer_name`.
    """

    function: FunctionType
    looks_left: dict[tuple[Any, ...], int] = field(default_factory=dict)
    answers_left: dict[tuple[Any, ...], int] = field(default_factory=dict)
    hints: dict[str, Any] = field(default_factory=dict)
    whole: Callable[..., Any] | None = None
    answer_name: str = ""

    def fits(self, function: FunctionType) -> bool:
        """Whether it is the memory of `function`."""
        mine = self.function
        return (
            mine.__globals__ is function.__globals__
            and mine.__code__ == function.__code__
            and mine.__annotations__ == function.__annotations__
        )

    def typechecker(self, given: Callable[..., Any]) -> Callable[..., Any]:
        """`given`, with a note of the stand-ins it is asked to check."""

        def noting(stand_in: Any) -> Any:
            checked = given(stand_in)
            added = set(inspect.signature(stand_in).parameters)
            added -= set(inspect.signature(self.function).parameters)
            if self.whole is None and len(added) == 1:
                self.whole, self.answer_name = checked, added.pop()
                self.hints = dict(stand_in.__annotations__)
            return checked

        return noting

    def check_answer(self, arguments: tuple[Any, ...], named: dict[str, Any], answer: Any) -> None:
        """Raise as jaxtyping does if `answer` does not fit."""
        try:
            with jaxtyped("context"):
                self.whole(*arguments, **named, **{self.answer_name: answer})
        except Exception as error:
            where = f"{self.function.__module__}.{self.function.__qualname__}"
            raise jaxtyping.TypeCheckError(f"the return value of {where}: {error}") from error


_inside_others: dict[tuple[str, str], list[_Memory]] = {}


def jaxtyped_with_memory(fn: Any = inspect.Parameter.empty, **options: Any) -> Any:
    """`jaxtyping.jaxtyped`, which checks kinds of calls that have not passed yet."""
    if not isinstance(fn, FunctionType) or options.get("typechecker") is None:
        return jaxtyped(**options) if fn is inspect.Parameter.empty else jaxtyped(fn, **options)
    known = _inside_others.get((fn.__module__, fn.__qualname__), ())
    for memory in known:
        if memory.fits(fn):
            return _remembering(fn, memory, functools.cache(lambda: jaxtyped(fn, **options)))
    memory = _Memory(fn)
    noting = memory.typechecker(options["typechecker"])
    checked = jaxtyped(fn, **(options | {"typechecker": noting}))
    words = " ".join(str(hint) for hint in memory.hints.values())
    if memory.whole is None or "{" in words:  # an axis whose length is the value of an argument
        return checked
    if "<locals>" in fn.__qualname__:
        _inside_others.setdefault((fn.__module__, fn.__qualname__), []).append(memory)
    return _remembering(fn, memory, lambda: checked)


def _remembering(
    function: FunctionType, memory: _Memory, checked: Callable[[], Callable[..., Any]]
) -> Callable[..., Any]:
    """`function`, or `checked()` where its arguments are not known to pass."""
    kind = _kind_and_value if "Literal" in str(memory.hints) else _kind
    parameters = list(inspect.signature(function).parameters.values())
    # An object's methods are asked about everything but the object.
    first = int(bool(parameters) and parameters[0].annotation is inspect.Parameter.empty)
    answers = "return" in function.__annotations__
    looks_left, answers_left = memory.looks_left, memory.answers_left

    @functools.wraps(function)
    def remembering(*arguments: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        kinds = tuple(map(kind, arguments[first:]))
        if named:
            kinds = (*kinds, *named, *map(kind, named.values()))
        left = looks_left.get(kinds)
        if left != 0:
            answer = checked()(*arguments, **named)
            _note(looks_left, kinds, left)
            return answer
        answer = function(*arguments, **named)
        if answers:
            kinds = (*kinds, kind(answer))
            left = answers_left.get(kinds)
            if left != 0:
                memory.check_answer(arguments, named, answer)
                _note(answers_left, kinds, left)
        return answer

    return remembering


def _note(looks_left: dict[tuple[Any, ...], int], kinds: tuple[Any, ...], left: int | None) -> None:
    """Write down that `kinds` have passed once more."""
    if left is None:
        left = _looks(kinds) if len(looks_left) < MEMORY else 0
    if left:
        looks_left[kinds] = left - 1


def _kind(value: Any) -> Any:
    """Equal for two values only if they fit the same annotations that name no values."""
    cls = type(value)
    if cls is np.ndarray and not value.dtype.hasobject:
        return value.dtype, value.shape
    how = _how(cls)
    return cls if how is None else how(value, _kind)


def _kind_and_value(value: Any) -> Any:
    """The same where an annotation is a `Literal`, which names values of these classes."""
    if isinstance(value, str | bytes | int | Enum):
        return type(value), value
    how = _how(type(value))
    return type(value) if how is None else how(value, _kind_and_value)


@functools.cache
def _how(cls: type) -> Callable[[Any, Callable[[Any], Any]], Any] | None:
    """How the kind of a value of this class is found, if it is not the class itself."""
    if issubclass(cls, type):
        return lambda value, kind: (cls, value)
    if hasattr(cls, "shape") and hasattr(cls, "dtype"):
        return _array
    if cls in (tuple, list, set, frozenset):
        return _items
    if cls is dict:
        return lambda value, kind: _Items((_items(value, kind), _items(value.values(), kind)))
    if issubclass(cls, Collection) and not issubclass(cls, str | bytes):
        return lambda value, kind: _UNDECIDED
    return None


def _array(value: Any, kind: Callable[[Any], Any]) -> Any:
    """Of an array of objects, beartype may look at one."""
    objects = getattr(value.dtype, "hasobject", False)
    return _UNDECIDED if objects else (type(value), value.dtype, tuple(value.shape))


def _items(values: Collection[Any], kind: Callable[[Any], Any]) -> Any:
    if len(values) > LONG:
        return _UNDECIDED
    kinds = tuple(map(kind, values))
    if type(values) is not tuple and len(set(kinds)) == 1:
        kinds = kinds[:1]  # the length of a list is not annotated
    return _Items((type(values), *kinds))


def _looks(kinds: tuple[Any, ...]) -> int:
    """How often calls of these kinds have to pass; 0 for ever."""
    if any(kind is _UNDECIDED for kind in kinds):
        return 0
    looks = [_looks(kind) for kind in kinds if isinstance(kind, _Items)]
    mixed = isinstance(kinds, _Items) and len(set(kinds[1:])) > 1
    return (LOOKS * (len(kinds) - 1) if mixed else 1) * min([1, *looks]) * max([1, *looks])


# The name under which jaxtyping's import hook, and jaxtyping for classes and properties, find it.
jaxtyping._decorator.jaxtyped = jaxtyped_with_memory
