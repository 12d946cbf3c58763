"""A claim's runs as a table with labelled axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from featavg.progress import Progress, silent


def measured_table(
    measure: Callable[..., Mapping[str, float]],
    seeds: Sequence[int],
    progress: Progress = silent,
    every_seed: Callable[[Mapping[str, Any]], bool] | None = None,
    **axes: Sequence[Any],
) -> xr.Dataset:
    """The numbers that `measure(seed=..., **plan)` returns, for every combination of `axes` and seed.

    Where `every_seed(plan)` is false only the first seed is measured, and the others are NaN.

    >>> found = measured_table(lambda seed, k: {"sum": k + seed}, (0, 1), k=[2, 4])
    >>> found["sum"].dims, found["sum"].values.tolist()
    (('k', 'seed'), [[2, 3], [4, 5]])
    """
    plans = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    rows: list[Mapping[str, float]] = []
    for i, plan in enumerate(plans):
        progress(i / len(plans), ", ".join(f"{name} {value}" for name, value in plan.items()))
        used = seeds if every_seed is None or every_seed(plan) else seeds[:1]
        rows += [measure(seed=seed, **plan) for seed in used]
        rows += [dict.fromkeys(rows[0], math.nan)] * (len(seeds) - len(used))
    labelled = {**{name: list(values) for name, values in axes.items()}, "seed": list(seeds)}
    shape = [len(values) for values in labelled.values()]
    cells = {name: np.reshape([row[name] for row in rows], shape) for name in rows[0]}
    return xr.Dataset({name: (tuple(labelled), cell) for name, cell in cells.items()}, labelled)
