"""Exact robust radii in l_inf, for networks written in the coordinates of R^d."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import Sample
from featavg.errors import InputError, one_of
from featavg.nets.readouts.readout import ReadOut
from featavg.nets.readouts.registry import READOUTS, readout_of
from featavg.nets.two_layer import TwoLayer
from featavg.progress import Progress
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.flipped_set import flipped, output_mask, output_pieces
from featavg.robustness.exact.linf_tree import Program, linf_search
from featavg.robustness.exact.result import EXACT_WITHIN, Radii, RadiusStatus
from featavg.robustness.exact.subspace import Subspace, reduce
from featavg.robustness.models.model import TwoLayerModel, network_model
from featavg.training.trajectory import Trajectory

# How often the search starts again a thousand times further out when nothing has flipped.
FURTHER = 3
# A candidate lies on the boundary, where the sign of a rounded score is a toss.
NUDGES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


def linf_radii(
    net: TwoLayer | Trajectory,
    points: Sample | ndarray,
    y: ndarray | None = None,
    readout: str | ReadOut = "sum",
    positive: Sequence[int] | Sequence[bool] | ndarray | None = None,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> Radii:
    r"""The l_inf distance from each point to the nearest point that the network decides otherwise.

        radius(x, y) = min { max_i |u_i| : y * score(x + u) <= 0 }.

    Exact for one output and for read-outs that are piecewise linear, as `sum` and `max` are; where
    the budget ends first, a bracket. A compressed network is refused: turning the coordinates
    changes l_inf distances.

    Args:
        net: a network in R^d, or the result of training one with coordinates="ambient".
        points: a sample of a task (it brings y and the positive clusters), or n rows of R^d.
        y: n labels, -1 or +1.
        readout: a piecewise linear one: "sum", "max" or your own; for one output there is no choice.
        positive: J+ over the outputs, as a mask or as indices.
        budget: linear programs and seconds a point (2000 programs unless given).
        progress: called with the share done and a note, such as a `ProgressBar`.

    >>> import numpy as np
    >>> import featavg as fa
    >>> found = linf_radii(fa.binary(np.eye(2)), np.array([[3.0, 1.0]]), y=np.array([1]))
    >>> found.certified.round(6), found.norm
    (array([1.]), 'linf')
    """
    network, x, labels, mask = _inputs(net, points, y, positive)
    given = output_mask(network.outputs, mask)
    rule = readout_of(readout)
    if output_pieces(1, rule, given) is None:
        straight = [name for name in READOUTS if READOUTS[name].pieces(given) is not None]
        one_of("readout", rule.name, straight)
    model = network_model(network, given if network.outputs > 1 else None, rule)
    label = model.decision.labels(labels)
    x = model.rows(x)
    wrong = model.margins(x, label) <= 0
    starts = _starts(model, x, labels, wrong)
    space = reduce(network)
    parts = []
    for i in range(len(x)):
        if progress is not None:
            progress(i / len(x), f"point {i} of {len(x)}")
        answer = _one(model, space, given, x[i], int(labels[i]), starts[i], bool(wrong[i]), budget)
        parts.append(answer)
    certified, attack, witness, nodes, outcome = (
        np.array([part[column] for part in parts]) for column in range(5)
    )
    return Radii(certified, attack, witness, nodes, outcome, norm="linf")


def _inputs(
    net: TwoLayer | Trajectory,
    points: Sample | ndarray,
    y: ndarray | None,
    positive: Sequence[int] | Sequence[bool] | ndarray | None,
) -> tuple[TwoLayer, ndarray, ndarray, Sequence[int] | Sequence[bool] | ndarray | None]:
    """The network, points, labels and mask, unless the coordinates are not those of R^d."""
    network = net.net if isinstance(net, Trajectory) else net
    compressed = isinstance(net, Trajectory) and net.settings.get("coordinates") == "compressed"
    if isinstance(points, Sample):
        compressed |= network.dimension != points.task.d
    if compressed:
        raise InputError(
            "net",
            "is compressed, and compression does not keep l_inf distances",
            'train with coordinates="ambient"',
        )
    if isinstance(points, Sample):
        mask = points.task.positive_clusters if positive is None else positive
        return network, points.x, points.y if y is None else y, mask
    if y is None:
        raise InputError("y", "is missing", "give one label per point, -1 or +1")
    x = np.asarray(points, dtype=float)
    if x.ndim != 2 or len(x) != len(y):
        raise InputError(
            "y", f"has {len(y)} labels for points {x.shape}", "give one label per point"
        )
    return network, x, np.asarray(y), positive


def _starts(model: TwoLayerModel, x: ndarray, y: ndarray, wrong: ndarray) -> list[ndarray | None]:
    """A flipped point for each, to bound the search from above; None where no attack finds one."""
    found: list[ndarray | None] = [None] * len(x)
    rows = np.flatnonzero(~wrong)
    if len(rows) == 0:
        return found
    try:
        result = attack_suite(model, x[rows], y[rows], "linf", budget=60)
    except InputError:
        # No gradient anywhere: the search will have to prove that nothing flips.
        return found
    for row, witness, radius in zip(rows, result.witness, result.radii, strict=True):
        found[row] = witness if math.isfinite(radius) else None
    return found


def _one(
    model: TwoLayerModel,
    space: Subspace,
    positive: ndarray,
    x: Float[ndarray, " N"],
    y: int,
    start: ndarray | None,
    wrong: bool,
    budget: Budget | None,
) -> tuple[float, float, ndarray, int, int]:
    """Certified, attack, witness, nodes and outcome of one point."""
    if wrong:
        return 0.0, 0.0, x, 0, RadiusStatus.MISCLASSIFIED.code
    label = model.decision.labels([y])
    witness = start
    reach = math.inf if start is None else float(np.abs(start - x).max())

    def probe(step: Float[ndarray, " N"]) -> float:
        nonlocal witness, reach
        for nudge in NUDGES:
            point = x + step * (1 + nudge)
            if model.margins(point[None], label)[0] <= 0:
                length = float(np.abs(point - x).max())
                if length < reach:
                    witness, reach = point, length
                return length
        return math.inf

    pieces = output_pieces(y, model.decision.readout, positive)
    assert pieces is not None
    families = flipped(space, pieces)
    at_x = space.preactivations(x[None])[0]
    programs = [Program(family, space.normals, at_x) for family in families]
    clock = (budget or Budget(nodes=2000)).start()
    guess = reach if math.isfinite(reach) else _far(space, at_x, x)
    tree = linf_search(programs, guess, probe, clock)
    for _ in range(FURTHER):
        if math.isfinite(reach) or not tree.finished:
            break
        guess *= 1e3
        tree = linf_search(programs, guess, probe, clock)
    if not math.isfinite(reach):
        # Nothing flips within `guess`; beyond it the lines of the search say nothing.
        nowhere = np.full_like(x, np.nan)
        return min(tree.certified, guess), math.inf, nowhere, tree.nodes, RadiusStatus.OPEN.code
    assert witness is not None
    certified = min(tree.certified, reach)
    outcome = RadiusStatus.EXACT if certified >= reach * (1 - EXACT_WITHIN) else RadiusStatus.OPEN
    if not tree.finished:
        outcome = RadiusStatus.BUDGET
    return certified, reach, witness, tree.nodes, outcome.code


def _far(space: Subspace, at_x: ndarray, x: ndarray) -> float:
    """A radius that is far: more than it takes to move every neuron through zero."""
    sizes = np.abs(space.normals).sum(axis=1)
    reach = np.abs(at_x) / np.where(sizes > 0, sizes, 1.0)
    return 10 * max(float(np.max(reach, initial=0.0)), float(np.abs(x).max(initial=0.0)), 1e-300)
