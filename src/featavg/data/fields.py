"""The fields of a multi-cluster task, which `MultiCluster` and `featavg.simulate.setting.Setting` share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from featavg.fields import about

if TYPE_CHECKING:
    from jaxtyping import Float
    from numpy import ndarray

ORIENTATIONS = ("axes", "random")
_task = partial(about, section="The task")
_TWO = "give at least two clusters, one for each class"


@dataclass(frozen=True, eq=False)
class TaskFields:
    """What decides a task; `MultiCluster` says what each field means."""

    k: int = _task(10, "Clusters", least=2, remedy=_TWO)
    d: int = _task(3072, "Dimension", least=1)
    # Squares of lengths beyond 1e100 overflow.
    alpha: float = _task(1.0, "Signal", least=0, most=1e100)
    sigma: float = _task(1.0, "Noise", least=0, most=1e100)
    positive: int | Sequence[int] | Sequence[bool] | ndarray | None = _task(
        None, "How many clusters are positive, or which: 0,2", unset="the first half"
    )
    cosine: float = _task(0.0, "Cosine between any two features")
    norms: float | Sequence[float] | None = _task(None, "Length of the features, one or k of them", unset="√d")
    probabilities: Sequence[float] | None = _task(None, "Shares of the clusters, such as 0.3,0.7", unset="equal")
    gram: Sequence[Sequence[float]] | Float[ndarray, "k k"] | None = _task(
        None, "Gram matrix of the features: CSV, JSON or npy file", file=True
    )
    orientation: str = _task("axes", "Features along", choices=ORIENTATIONS)
