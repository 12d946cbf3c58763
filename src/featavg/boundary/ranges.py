"""What numbers must at least be, and which lengths must agree, told by the names of arguments.

A name means one thing across the package: a `seed` is never negative, `rounds` are at least one, and
the `n` of two shapes in one signature is one number. The boundary asks here for every public call.
"""

from __future__ import annotations

import math
import typing
from numbers import Real
from typing import Any

from featavg.boundary.words import short
from featavg.errors import InputError

_LEAST: dict[str, int] = dict.fromkeys(
    (
        "k", "d", "n", "m", "h", "r", "neurons", "points", "images", "radii", "gradients", "budget",
        "width", "batch", "epochs", "rounds", "starts", "restarts", "nodes", "jobs", "workers",
        "permutations", "resamples", "threads", "iterations", "per_decade", "every", "passes", "depth",
    ),
    1,
) | dict.fromkeys(
    (
        "seed", "seeds", "samples", "warmup", "crop", "small", "order", "noise", "scale",
        "eps", "sigma", "sigma_w", "sigma_b", "momentum", "decay", "overshoot", "kink", "confidence",
        "gap", "rate", "lr", "checkpoint_seconds", "first_seed", "n_test", "patience", "size",
    ),
    0,
)  # fmt: skip
# Beyond this nothing can be counted; seeds are names, and may have any length.
MOST, _NAMES = 10**18, ("seed", "seeds", "first_seed")
# Infinity says "without end" or "without bound" here.
_ENDLESS = ("time", "seconds", "log_time", "bounds", "until", "norm")


def check_number(argument: str, value: Any, default: Any) -> None:
    """Refuse what no number of this name can be; in a list of seeds too.

    >>> check_number("rounds", 0, 6)
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: rounds is 0: give 1 or more.
    """
    least = _LEAST.get(argument)
    if argument == "radii" and isinstance(value, (list, tuple)):
        least = 0  # lengths; a single number says how many
    endless = argument in _ENDLESS or (isinstance(default, float) and math.isinf(default))
    several = isinstance(value, (list, tuple)) and argument == "seeds"  # other lists are no counts
    for number in value if several else (value,):
        if not _is_number(number):
            continue
        seconds = isinstance(number, float) and number > 0  # half a second, where counts are whole
        if least is not None and not number >= least and not seconds:
            raise InputError(argument, f"is {short(number)}", f"give {least} or more")
        if isinstance(number, int) and abs(number) > MOST and argument not in _NAMES:
            raise InputError(argument, f"is {short(number)}", f"give at most {MOST:.0e}")
        if not endless and number in (math.inf, -math.inf):  # not isinf: ints of any length
            raise InputError(argument, f"is {number}", "give a finite number")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_shapes(arguments: dict[str, tuple[Any, Any]]) -> None:
    """Refuse arrays whose lengths do not fit each other; an annotation and a value for each name.

    >>> from jaxtyping import Float, Int
    >>> import numpy as np
    >>> x, y = (Float[np.ndarray, "n d"], np.eye(3)), (Int[np.ndarray, " n"], np.arange(2))
    >>> check_shapes({"x": x, "y": y})
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: y has shape (2,) beside x of shape (3, 3): give both the same n.
    """
    lengths: dict[str, tuple[int, str, tuple[int, ...]]] = {}
    for argument, (annotation, value) in arguments.items():
        shape = getattr(value, "shape", None)
        if not isinstance(shape, tuple):
            continue
        for name, length in _named_lengths(annotation, shape):
            known, other, its_shape = lengths.setdefault(name, (length, argument, shape))
            if known != length and other == argument:
                raise InputError(argument, f"has shape {shape}", f"both axes {name} are one length")
            if known != length:
                problem = f"has shape {shape} beside {other} of shape {its_shape}"
                raise InputError(argument, problem, f"give both the same {name}")


def check_width(model: Any, x: Any) -> None:
    """Refuse points of other coordinates than the network has whose method is called."""
    width, shape = getattr(model, "dimension", None), getattr(x, "shape", None)
    if isinstance(width, int) and isinstance(shape, tuple) and shape and shape[-1] != width:
        raise InputError(
            "x", f"has shape {shape}", f"give points of {width} coordinates, one a row"
        )


def _named_lengths(annotation: Any, shape: tuple[int, ...]) -> list[tuple[str, int]]:
    """The axes that have a name and a place: those behind a `*s` are counted from the end."""
    options = [a for a in (annotation, *typing.get_args(annotation)) if hasattr(a, "dim_str")]
    if len(options) != 1:
        return []
    names = options[0].dim_str.split()
    free = [i for i, name in enumerate(names) if name.startswith(("*", "..."))]
    missing = len(names) - len(free) > len(shape)
    if missing or len(free) > 1 or (not free and len(names) != len(shape)):
        return []
    front = free[0] if free else len(names)
    behind = names[front + 1 :]
    pairs = list(zip(names[:front], shape, strict=False))
    pairs += zip(behind, shape[len(shape) - len(behind) :], strict=True)
    return [(name, length) for name, length in pairs if name.isidentifier()]
