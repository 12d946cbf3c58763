"""Linear classifiers: gradient flow and the vanishing penalty both end in the SVM direction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.errors import one_of
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.svm import MaxMargin, angle, checked_max_margin
from featavg.paper.margins.linear_flow import linear_flow
from featavg.paper.margins.linear_penalties import penalty_path
from featavg.progress import Progress, silent

POINTS, DIMENSION = 40, 20
# log t of the flow, and log(1/penalty) of the path.
LOG_TIMES = tuple(float(v) for v in np.logspace(1, 4, 25))
LOG_DEPTHS = tuple(float(v) for v in np.logspace(1, 7, 25))
# Where 1/log t is to be seen: beyond the first hundred e-foldings of time.
SETTLED = 100.0


@dataclass(frozen=True, repr=False, eq=False)
class LinearDrift(Result):
    """The angle to the max-margin direction, along gradient flow or along a vanishing penalty.

    Attributes:
        kind: "flow" (the clock is log t) or "path" (the clock is log(1/penalty)).
        clock: where the directions were looked at.
        angles: to the SVM direction in radians, a row for each data set.
        svm: the exact answers, with their duality gaps.

    Returned by `fa.linear_drift` and `fa.linear_limits`, which have examples.
    """

    kind: str
    clock: tuple[float, ...]
    angles: Float[ndarray, "s p"]
    svm: tuple[MaxMargin, ...]

    @property
    def exponents(self) -> list[float]:
        """The exponent of angle ~ clock^exponent beyond `SETTLED`, for each data set."""
        clock = np.asarray(self.clock)
        late = clock >= SETTLED
        logs = np.log(clock[late])
        return [float(np.polyfit(logs, np.log(row[late]), 1)[0]) for row in self.angles]

    @property
    def gap(self) -> float:
        """The largest relative duality gap of the SVM."""
        return max(abs(svm.gap) for svm in self.svm)

    def figure(self) -> Figure:
        """The angle against the clock."""
        label = {"flow": "log t", "path": "log(1/penalty)"}[self.kind]
        clock = np.asarray(self.clock)
        series = [Series.over_seeds("angle to the SVM", clock, self.angles, "averaged")]
        product = float(np.median(self.angles[:, -1])) * clock[-1]
        series.append(Series(f"1/({label})", clock, product / clock, "reference", "dashed"))
        return Figure(
            {"flow": "angle", "path": "path"}[self.kind],
            "The angle to the max-margin direction",
            {
                "flow": "Gradient flow of the logistic loss on separable points: the angle falls "
                "like 1/log t.",
                "path": "The minimiser of logistic loss plus penalty, as the penalty vanishes.",
            }[self.kind],
            (Lines(Axis(label, log=True), Axis("angle", "radians", log=True), tuple(series)),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "clock": list(self.clock),
            "angles": self.angles.tolist(),
            "margins": [svm.margin for svm in self.svm],
            "support": [len(svm.support) for svm in self.svm],
        }

    def summary(self) -> str:
        """The margin, and the angle at every mark of the clock."""
        sign = {"flow": "log t", "path": "log(1/penalty)"}[self.kind]
        first = self.svm[0]
        head = f"Margin {first.margin:.6g}, {len(first.support)} of {len(first.multipliers)} support vectors."
        step = max(1, len(self.clock) // 8)
        marks = list(zip(self.clock, self.angles.max(axis=0), strict=True))[::-step][::-1]
        rows = [f"  {sign} = {time:g}: angle {value:.2e}" for time, value in marks]
        return "\n".join([head, *rows])


def linear_drift(
    x: Float[ndarray, "n N"], y: Int[ndarray, " n"], log_times: Sequence[float] = LOG_TIMES
) -> LinearDrift:
    """How gradient flow on your separable points drifts to their max-margin direction.

    Args:
        x: the points, separable by a plane through the origin.
        y: their labels, -1 or +1.
        log_times: log t at which to look.

    >>> import numpy as np
    >>> import featavg as fa
    >>> x, y = np.array([[2.0, 1.0], [1.0, 3.0], [-1.0, -2.0]]), np.array([1, 1, -1])
    >>> bool(fa.linear_drift(x, y, (10.0, 1000.0)).angles[0, -1] < 0.01)
    True
    """
    svm = checked_max_margin(x, y)
    return LinearDrift(
        "flow", tuple(log_times), _angles(linear_flow(x, y, log_times), svm)[None], (svm,)
    )


def linear_limits(
    kind: str = "flow", *, seeds: Sequence[int] = (0,), progress: Progress = silent
) -> LinearDrift:
    """How linear classifiers of Gaussian clouds turn to the max-margin direction.

    Args:
        kind: "flow", gradient flow in time (Soudry et al. 2017), or "path", minimisers under a
            vanishing penalty (Rosset et al. 2004).
        seeds: of the clouds.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.linear_limits()
    Margin 0.186182, 13 of 40 support vectors.
    ...
    """
    one_of("kind", kind, ("flow", "path"))
    rows = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"seed {seed}")
        x, y = labelled_points(seed)
        if kind == "flow":
            directions = linear_flow(x, y, LOG_TIMES)
        else:
            directions = penalty_path(x, y, [-depth for depth in LOG_DEPTHS])
        rows.append(_angles(directions, solved(seed)))
    clock = LOG_TIMES if kind == "flow" else LOG_DEPTHS
    return LinearDrift(kind, clock, np.array(rows), tuple(solved(seed) for seed in seeds))


def labelled_points(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Two Gaussian clouds that a plane separates, about a third of them support vectors."""
    draw = stream(seed, "margin-linear")
    y = np.repeat([1, -1], POINTS // 2)
    x = draw.standard_normal((POINTS, DIMENSION))
    x[:, 0] += 2.0 * y
    return x / math.sqrt(DIMENSION), y


@cache
def solved(seed: int) -> MaxMargin:
    """The exact answer for one seed."""
    return checked_max_margin(*labelled_points(seed))


def _angles(directions: Float[ndarray, "p N"], svm: MaxMargin) -> Float[ndarray, " p"]:
    return angle(directions, np.broadcast_to(svm.w, directions.shape))
