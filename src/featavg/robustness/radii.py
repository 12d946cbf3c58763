"""The public call: robust radii of points, exact where that is possible and bracketed elsewhere."""

from __future__ import annotations

import logging
from typing import Any

from numpy import ndarray

from featavg.boundary.kinds import Count, NotNegative
from featavg.boundary.public import public
from featavg.data.clusters import Sample
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.readouts._readout import ReadOut
from featavg.progress import Progress
from featavg.robustness.certify import _sides
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import Net, Positive, check_ambient, decision_of
from featavg.robustness.exact.result import Radii
from featavg.robustness.linf import PROGRAMS
from featavg.robustness.solve import Task, solve

# Hidden neurons beyond which most searches spend any budget: 6 layers of 20 trained neurons do.
MOST_NEURONS = 100


@public
def radii(
    net: Net,
    points: Sample | ndarray,
    y: ndarray | None = None,
    *,
    norm: str = "l2",
    bounds: tuple[Any, Any] | None = None,
    readout: str | ReadOut | None = None,
    positive: Positive | None = None,
    budget: Budget | None = None,
    gap: NotNegative = 0.01,
    jobs: Count | None = None,
    progress: Progress | None = None,
) -> Radii:
    r"""The distance from each point to the nearest point that the network decides otherwise.

        radius(x, y) = min { |u| : y * score(x + u) <= 0 },

    zero if x itself is on the wrong side (a score of exactly zero is), infinite if nothing is. With
    `bounds`, x + u stays in a box; where the box does not cut, the radius is that without it.
    Exact for one output and for the read-outs `sum`, `mean`, `max`, `top` and `argmax`, up to
    rounding; within `gap` for `probability` and `soft`; and where the budget ends first, or the
    pieces of `top` are too many to list, an honest bracket. Deep networks of more than about a
    hundred hidden neurons mostly end there, and a warning says so; `certify` decides one radius of
    them.

    Args:
        net: one two-layer, grouped or deep network, or the result of training one. In l_inf two
            layers only, in the coordinates of R^d (coordinates="ambient"): compression turns them.
        points: a sample of a task (it brings y and the positive clusters), or n rows of N numbers.
        y: n labels: -1 or +1, or the numbers of outputs for `argmax`.
        norm: "l2" or "linf", of the distance.
        bounds: the least and the largest value of each coordinate, two numbers such as (0, 1) or two
            rows of N: only flips between them count, as for the pixels of an image.
        readout: how several outputs decide: `probability`, `max`, `sum` or one of your own between
            the positive outputs and the others, or `argmax` between all of them. By default
            `probability`; for a deep network whose positive outputs are not given, `argmax`. One
            output decides by its sign. In l_inf a piecewise linear one.
        positive: the outputs of class +1, as a mask or as indices.
        budget: what one point may cost (20,000 programs unless given, 2000 in l_inf).
        gap: for `probability`, 1 - certified / attack at which a search may stop.
        jobs: processes; by default all cores if there is work for some seconds, otherwise none.
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> x = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> found = fa.radii(fa.binary(np.eye(2)), x, y=np.array([1, 1]))
    >>> found.certified.round(6), [outcome.value for outcome in found.outcomes]
    (array([1.414214, 0.      ]), ['exact', 'misclassified'])
    >>> fa.radii(fa.binary(np.eye(2)), x, y=np.array([1, 1]), norm="linf").certified.round(6)
    array([1., 0.])
    >>> net = fa.Deep((np.eye(2), np.eye(2), np.eye(2)))
    >>> fa.radii(net, x, np.array([0, 1])).certified.round(6)
    array([1.414214, 1.414214])
    >>> fa.radii(net, x[:1], np.array([0]), bounds=([0.0, 0.0], [4.0, 1.5])).certified.round(6)
    array([1.581139])
    """
    decision, x, labels = decision_of(net, points, y, readout, positive, norm)
    if not 0.0 < gap < 1.0:
        raise InputError("gap", f"is {gap}", "give a share between 0 and 1")
    allowance = budget or (Budget(nodes=PROGRAMS) if norm == "linf" else Budget())
    if isinstance(decision.net, Deep):
        _announce(decision.net, allowance)
    if bounds is not None:
        check_ambient(net, points, "turns the sides of a box")
    sides = None if bounds is None else _sides(bounds, x, "l2")
    each = tuple(sorted(set(labels.tolist())))
    task = Task(decision, each, norm, allowance, gap, sides=sides)
    return Radii.of(solve(task, x, labels, jobs, progress), x, gap, norm)


def _announce(net: Deep, budget: Budget) -> None:
    """Say beforehand that most radii will be brackets, where the network is too large for more."""
    neurons = sum(net.widths[:-1])
    if neurons > MOST_NEURONS:
        logging.getLogger(__name__).warning(
            "The network has %d hidden neurons: beyond about %d exact radii are out of reach, and what "
            "%d programs per point leave open is given as a bracket. To decide one radius, use certify.",
            neurons,
            MOST_NEURONS,
            budget.nodes,
        )
