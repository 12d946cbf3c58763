"""The decision at a radius: flipped with a witness, certified, or open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from featavg.boundary.kinds import Count
from featavg.boundary.public import public
from featavg.data.clusters import Sample
from featavg.errors import finite
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.nets.readouts._readout import ReadOut
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import Decision, Net, Positive, decision_of
from featavg.robustness.exact.linf import PROGRAMS
from featavg.robustness.exact.result import Answer, RadiusStatus
from featavg.robustness.radii import Task, announce, sides_of, solve

# Hidden neurons beyond which no step of a joint bound fits into a minute.
MOST_NEURONS = 3000
MODERATE = 60  # powers of two: their squares and products are far from infinity


class Certificate(Enum):
    """What is known of one point at one radius.

    >>> import featavg as fa
    >>> [one.name for one in Certificate]
    ['CERTIFIED', 'FLIPPED', 'OPEN', 'MISCLASSIFIED']
    """

    CERTIFIED = "certified"
    FLIPPED = "flipped"
    OPEN = "open"
    MISCLASSIFIED = "misclassified"


@dataclass(frozen=True, eq=False)
class Certificates:
    """For every point, whether anything within `radius` is decided otherwise.

    Attributes:
        radius: the radius, in the units of x.
        status: one of `Certificate` for each point.
        witness: a flipped point within the radius, re-checked; NaN where there is none.
        seconds: of one core, spent on each point.
        norm: of the radius.

    Returned by `fa.certify`, which has an example.
    """

    radius: float
    status: tuple[Certificate, ...]
    witness: Float[ndarray, "n N"]
    seconds: Float[ndarray, " n"]
    norm: str = "l2"

    def __len__(self) -> int:
        return len(self.status)

    def mask(self, status: Certificate) -> Bool[ndarray, " n"]:
        """The points with this status."""
        return np.array([one is status for one in self.status], dtype=bool)

    @property
    def robust_error(self) -> tuple[float, float]:
        """The share of points with a flip within the radius: between attacked and not verified."""
        wrong = self.mask(Certificate.FLIPPED) | self.mask(Certificate.MISCLASSIFIED)
        return float(wrong.mean()), float((wrong | self.mask(Certificate.OPEN)).mean())

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "radius": self.radius,
            "norm": self.norm,
            "points": len(self),
            "status": [status.value for status in self.status],
            "robust_error": list(self.robust_error),
            "seconds": [float(value) for value in self.seconds],
        }

    def figure(self) -> Figure:
        """How many points have each status."""
        counts = [int(self.mask(status).sum()) for status in Certificate]
        bars = Bars(
            tuple(status.value for status in Certificate),
            (Bar("points", counts, "neutral"),),
            Axis("points"),
            title=f"{self.norm} radius {self.radius:g}",
        )
        return Figure("certificates", "What is proven", repr(self), (bars,))

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{int(self.mask(status).sum())} {status.value}" for status in Certificate if self.mask(status).any()
        )
        low, high = self.robust_error
        return (
            f"Certificates at {self.norm} radius {self.radius:g}, {len(self)} points: {counts}; "
            f"robust error {100 * low:.1f}% to {100 * high:.1f}%"
        )


@public
def certify(
    net: Net,
    points: Sample | ndarray,
    y: ndarray | None = None,
    *,
    radius: float,
    norm: str = "l2",
    bounds: tuple[Any, Any] | None = None,
    readout: str | ReadOut | None = None,
    positive: Positive | None = None,
    budget: Budget | None = None,
    jobs: Count | None = None,
    progress: Progress | None = None,
) -> Certificates:
    """Is any point within `radius` of x decided otherwise than x's label?

    Easier than the radius itself, and therefore possible for wide networks: most neurons keep their
    sign in a small ball, and the others cannot all be at their worst at once (see
    `exact/deep/sdp_form`). An answer "certified" is a proof, "flipped" has a witness that was
    evaluated; "open" means that the budget was spent.

    Args:
        net: one hidden layer of any width, or a deep network; see `fa.radii`.
        points: a sample of a task, or n rows of N numbers.
        y: n labels: -1 or +1, or the numbers of outputs for `argmax`.
        radius: in the units of the points.
        norm: "l2" or "linf", of the radius.
        bounds: the least and the largest value of each coordinate, two numbers such as (0, 1) or two
            rows of N: only flips between them count, as for the pixels of an image.
        readout: how several outputs decide; see `fa.radii`.
        positive: the outputs of class +1, as a mask or as indices.
        budget: what one point may cost.
        jobs: processes; by default all cores if there is work for some seconds, otherwise none.
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Deep((np.eye(2), np.eye(2)))
    >>> fa.certify(net, np.array([[3.0, 1.0], [2.0, 1.0]]), np.array([0, 0]), radius=1.0)
    Certificates at l2 radius 1, 2 points: 1 certified, 1 flipped; robust error 50.0% to 50.0%
    """
    finite("radius", radius, above=0)
    decision, x, labels = decision_of(net, points, y, readout, positive, norm)
    allowance = budget or (Budget(nodes=PROGRAMS) if norm == "linf" else Budget())
    each = tuple(sorted(set(labels.tolist())))
    sides = None if bounds is None else sides_of(bounds, x, net, points)
    beyond = (
        "a joint bound takes minutes a step, and what lines and a local search do not decide in "
        f"{allowance.seconds:g} s per point is left open."
    )
    announce(decision.net, MOST_NEURONS, beyond)
    unit, decision = _in_unit(decision, x, labels, radius)
    if sides is not None:
        sides = np.ldexp(sides[0], -unit), np.ldexp(sides[1], -unit)
    within = math.ldexp(radius, -unit)
    task = Task(decision, each, norm, allowance, 1e-3, within, sides)
    answers = solve(task, np.ldexp(x, -unit), labels, jobs, progress)
    status = tuple(_status(answer, within) for answer in answers)
    flipped = (Certificate.FLIPPED, Certificate.MISCLASSIFIED)
    witness = np.full(x.shape, np.nan)
    for i, answer in enumerate(answers):
        if status[i] in flipped:
            witness[i] = np.ldexp(answer.witness, unit)
    seconds = np.array([answer.seconds for answer in answers])
    return Certificates(float(radius), status, witness, seconds, norm)


def _status(answer: Answer, radius: float) -> Certificate:
    if answer.known is RadiusStatus.MISCLASSIFIED:
        return Certificate.MISCLASSIFIED
    if answer.attack <= radius:
        return Certificate.FLIPPED
    if answer.finished and answer.certified >= radius:
        return Certificate.CERTIFIED
    return Certificate.OPEN


def _in_unit(decision: Decision, x: Float[ndarray, "n N"], labels: ndarray, radius: float) -> tuple[int, Decision]:
    """The same question with numbers near one: x and the radius divided by 2^unit, and its network.

    Squares of 1e160 are infinite. A network of ReLUs multiplied by powers of two decides as before,
    bit for bit, if its read-out compares outputs; one that is moderate, or curved, stays as it is.
    """
    net = decision.net
    arrays = [net.weights, net.head] if isinstance(net, TwoLayer) else list(net.weights)
    sizes = [float(np.abs(x).max(initial=radius)), *(float(np.abs(a).max()) for a in arrays)]
    powers = [math.frexp(max(size, 0.0))[1] if size > 0.0 else 0 for size in sizes]
    curved = any(decision.pieces(int(label)) is None for label in set(labels.tolist()))
    if curved or max(map(abs, powers)) <= MODERATE:
        return 0, decision
    unit, *each = powers
    if isinstance(net, TwoLayer):
        biases = None if net.biases is None else np.ldexp(net.biases, -unit - each[0])
        weights, head = np.ldexp(net.weights, -each[0]), np.ldexp(net.head, -each[1])
        return unit, replace(decision, net=replace(net, weights=weights, biases=biases, head=head))
    # An input that is added to an output is in the same unit.
    for number, layer in enumerate(net.layers):
        each[number] = 0 if layer.skip else each[number]
    totals = unit + np.cumsum(each)
    scaled = tuple(np.ldexp(w, -int(e)) for w, e in zip(net.weights, each, strict=True))
    given = net.biases or (None,) * len(scaled)
    pairs = zip(given, totals, strict=True)
    shifts = tuple(None if b is None else np.ldexp(b, -int(e)) for b, e in pairs)
    return unit, replace(decision, net=replace(net, weights=scaled, biases=shifts))
