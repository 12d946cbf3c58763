"""Shapes that need a name of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from numpy import ndarray

if TYPE_CHECKING:
    PerSeed: TypeAlias = ndarray
    TruthPerSeed: TypeAlias = ndarray
else:
    import numpy as np
    from jaxtyping import Bool, Float

    # One value for each seed of a batch; NumPy makes it a plain scalar when there is no batch.
    PerSeed = Float[ndarray, "*s"] | np.float64
    TruthPerSeed = Bool[ndarray, "*s"] | np.bool_
