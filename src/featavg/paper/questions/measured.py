"""Measures of networks over settings and seeds, in one labelled table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.progress import Progress, silent
from featavg.simulate.setting import Setting
from featavg.simulate.sweep.measures import Measured, Run, measures_named
from featavg.simulate.sweep.work import trained

if TYPE_CHECKING:
    import xarray as xr


def measure_each(
    base: Mapping[str, Any],
    seeds: Sequence[int],
    measures: Sequence[str | Callable[[Run], Measured]],
    progress: Progress = silent,
    **axes: Sequence[Any] | Mapping[Any, Mapping[str, Any]],
) -> xr.Dataset:
    """Trains every combination of `axes` and measures every seed of it.

    `sweep` does the same for thousands of runs, with a store and several processes.

    Args:
        base: fields of `Setting` that stay.
        seeds: all seeds of a setting are one batched computation.
        measures: names of measures of a sweep, or functions from a `Run` to named numbers.
        progress: called with the share done and a note.
        axes: a field of `Setting` with its values, or any name with a mapping from labels to fields.

    >>> names = {"descent": {"stepper": "gd"}, "Adam": {"stepper": "adam", "coordinates": "ambient"}}
    >>> base = {"k": 4, "d": 60, "n": 20, "steps": 5}
    >>> table = measure_each(base, (0, 1), ["index"], optimizer=names, sigma=[0.5, 1.0])
    >>> dict(table.sizes), table["index_coarse"].dims
    ({'optimizer': 2, 'sigma': 2, 'seed': 2}, ('optimizer', 'sigma', 'seed'))
    """
    import xarray as xr

    functions = [measures_named((one,))[0].function if isinstance(one, str) else one for one in measures]
    choices: dict[str, Mapping[Any, Mapping[str, Any]]] = {
        name: values if isinstance(values, Mapping) else {value: {name: value} for value in values}
        for name, values in axes.items()
    }
    combinations = list(itertools.product(*(each.items() for each in choices.values())))
    cells: dict[str, list[Any]] = {}
    for i, combination in enumerate(combinations):
        progress(i / len(combinations), ", ".join(str(label) for label, _ in combination))
        fields = dict(base)
        for _, changed in combination:
            fields |= changed
        setting = Setting(**fields, seeds=tuple(seeds))
        points, trajectories = trained(setting)
        for index, seed in enumerate(seeds):
            run = Run(setting, points, trajectories, index, seed)
            for function in functions:
                for name, value in function(run).items():
                    cells.setdefault(name, []).append(value)
    dims = (*axes, "seed")
    shape = (*map(len, choices.values()), len(seeds))
    variables = {}
    for name, values in cells.items():
        array = np.array(values).reshape(*shape, *np.shape(values[0]))
        inner = tuple(f"{name}_axis{i}" for i in range(array.ndim - len(dims)))
        variables[name] = ((*dims, *inner), array)
    coordinates = {name: list(each) for name, each in choices.items()} | {"seed": list(seeds)}
    return xr.Dataset(variables, coordinates)
