"""Labelled tables of numbers measured for every seed, their exponents and their curves."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Real
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.marks import Role, Series, Style
from featavg.progress import Progress, silent


def tabulate(
    measure: Callable[..., Mapping[str, Any]],
    seeds: Sequence[int],
    progress: Progress = silent,
    inner: tuple[str, ...] = (),
    every_seed: Callable[..., bool] | None = None,
    missing: tuple[str, ...] = (),
    **axes: Sequence[Any],
) -> xr.Dataset:
    """Calls `measure(value, ..., seed)` for every combination of values and seeds.

    `questions.measured.measure_each` does the same for measures of networks that it trains.

    Args:
        measure: gives named numbers, or arrays with the axes `inner`.
        seeds: the last argument of `measure`, and an axis of the table.
        progress: called with the share done and a note.
        inner: names of the axes of arrays.
        every_seed: of the values; where it is false only the first seed is measured, others are NaN.
        missing: names of numbers that may be NaN, which others may not: means and extremes of xarray
            pass over it.
        axes: the other arguments of `measure`, by the names of their axes.

    >>> table = tabulate(lambda k, seed: {"root": k**0.5}, (0, 1), k=(4, 9, 16))
    >>> table["root"].dims, np.round(exponents(table["root"]), 9).tolist()
    (('k', 'seed'), [0.5, 0.5])
    """
    combinations = list(itertools.product(*axes.values()))
    cells: dict[str, list[Any]] = {}
    for i, values in enumerate(combinations):
        progress(i / len(combinations), ", ".join(_note(*each) for each in zip(axes, values, strict=True)))
        used = seeds if every_seed is None or every_seed(*values) else seeds[:1]
        rows = [measure(*values, seed) for seed in used]
        _refuse_nan(rows, values, missing)
        rows += [dict.fromkeys(rows[0], np.nan)] * (len(seeds) - len(used))
        for row in rows:
            for name, number in row.items():
                cells.setdefault(name, []).append(number)
    shape = *(len(values) for values in axes.values()), len(seeds)
    variables = {}
    for name, numbers in cells.items():
        array = np.array(numbers).reshape(*shape, *np.shape(numbers[0]))
        variables[name] = ((*axes, "seed", *inner[: array.ndim - len(shape)]), array)
    coordinates = {name: list(values) for name, values in axes.items()}
    return xr.Dataset(variables, coordinates | {"seed": list(seeds)})


def _refuse_nan(rows: Sequence[Mapping[str, Any]], values: Sequence[Any], missing: tuple[str, ...]) -> None:
    for row in rows:
        for name, number in row.items():
            if name not in missing and np.asarray(number).dtype.kind == "f" and np.isnan(number).any():
                raise ValueError(f"{name} is NaN at {', '.join(map(str, values))}")


def _note(axis: str, value: Any) -> str:
    return f"{axis} = {value:,}" if isinstance(value, (int, float)) else str(value)


def line(
    label: str,
    values: xr.DataArray,
    role: Role = "neutral",
    style: Style = "line+markers",
    middle: str = "median",
    ends: tuple[xr.DataArray, xr.DataArray] | None = None,
    shade: float = 1.0,
) -> Series:
    """The median of the seeds along the only other axis, with a band from the smallest to the largest.

    Seeds that were not run are NaN and left out. `ends` are other numbers for the band, such as both ends of
    a bracket.

    >>> table = tabulate(lambda k, seed: {"root": k**0.5 + seed}, (0, 1, 5), k=(4, 9))
    >>> curve = line("root", table["root"])
    >>> [[float(one) for one in each] for each in (curve.y, curve.lo, curve.hi)]
    [[3.0, 4.0], [2.0, 3.0], [7.0, 8.0]]
    """
    (axis,) = (str(name) for name in values.dims if name != "seed")
    low, high = ends or (values, values)
    band = low.min("seed").values, high.max("seed").values
    return Series(label, values[axis].values, getattr(values, middle)("seed").values, role, style, *band, shade)


def exponents(values: xr.DataArray) -> list[float]:
    """The exponent p of values ~ x^p for each seed, x the only other axis of the table."""
    (axis,) = (str(name) for name in values.dims if name != "seed")
    columns = values.transpose("seed", axis).values
    return [power_law_exponent(values[axis].values, column) for column in columns]


def power_law_exponent(x: Sequence[float] | Real[ndarray, " q"], y: Sequence[float] | Real[ndarray, " q"]) -> float:
    """The p of y ~ x^p, by least squares of log y against log x.

    Args:
        x, y: positive numbers, at least two.

    >>> import featavg as fa
    >>> round(power_law_exponent([1, 10, 100], [3.0, 0.3, 0.03]), 9)
    -1.0
    """
    horizontal, vertical = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    for name, values in (("x", horizontal), ("y", vertical)):
        if len(values) < 2 or not np.all(values > 0):
            raise InputError(name, "has no logarithms to fit", "give two or more positive numbers")
    return float(np.polyfit(np.log(horizontal), np.log(vertical), 1)[0])
