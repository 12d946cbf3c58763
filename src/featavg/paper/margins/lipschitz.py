"""The Lipschitz bound on robustness, margin over Lipschitz constant, beside the exact radius."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.margins.kkt_flow import kkt_flow
from featavg.robustness.radii import radii

POINTS = 40
# Up to this many neurons every activation pattern is looked at: 2^16 of them are a second's work.
LISTED = 16


def lipschitz_bound(net: TwoLayer) -> float:
    r"""A bound on |f(x) - f(x')| / |x - x'| for a network with one output.

    A gradient of f is sum_{r in S} a_r w_r for the set S of active neurons, so the longest such sum
    over all S bounds it. Up to `LISTED` neurons all sums are formed (exact whenever some point
    activates that set); beyond, |sum| is bounded by sqrt(M) times the spectral norm of (a_r w_r).

    >>> from featavg.nets.two_layer import binary
    >>> round(lipschitz_bound(binary(np.array([[3.0, 0.0], [0.0, 4.0]]))), 12)
    5.0
    """
    if net.outputs != 1 or net.batch:
        raise InputError("net", "has several outputs or seeds", "give one network with one output")
    rows = net.head[0][:, None] * net.weights
    if net.neurons > LISTED:
        return math.sqrt(net.neurons) * float(np.linalg.norm(rows, 2))
    gram = rows @ rows.T
    squares, inner = np.zeros(1), np.zeros((1, net.neurons))
    # Doubling: the sums over subsets of the first r neurons, then the same with neuron r added.
    for r in range(net.neurons):
        squares = np.concatenate([squares, squares + 2 * inner[:, r] + gram[r, r]])
        inner = np.concatenate([inner, inner + gram[r]])
    return math.sqrt(float(squares.max()))


def lipschitz_radii(
    net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]
) -> Float[ndarray, " n"]:
    """q_i / beta for every point, zero where it is misclassified: never above the exact radius."""
    return np.maximum(y * net(x)[:, 0], 0.0) / lipschitz_bound(net)


@claim(
    "margin-lipschitz", "Robustness is at least margin over Lipschitz constant",
    theme="Margins", minutes=0.02, statements=("itcs-lipschitz", "csml-lipschitz"), shares="kkt points",
    source="Talks, margin and robustness (Sokolic et al. 2017)",
    measured="q/β beside the exact radius for fresh points of the KKT networks",
)  # fmt: skip
def margin_lipschitz(run: Context, k: int = 10) -> Evidence:
    """If q is β-Lipschitz, the radius is at least q/β. (An identity, which tests the code; the note
    says how tight it is.)
    """
    pairs = []
    for i, seed in enumerate(run.seeds):
        run.progress(i / len(run.seeds), f"seed {seed}")
        flow = kkt_flow(k, seed)
        sample, net = flow.task.sample(POINTS, seed), flow.nets[-1]
        bound = lipschitz_radii(net, sample.coordinates(net.dimension), sample.y)
        pairs.append((bound, radii(net, sample, jobs=1).certified))
    above = max(float(((bound - exact) / exact.max()).max()) for bound, exact in pairs)
    tight = [np.median(bound[exact > 0] / exact[exact > 0]) for bound, exact in pairs]
    bound, exact = pairs[0]
    line = np.array([0.0, float(exact.max())])
    series = (
        Series("points", exact, bound, "averaged", "markers"),
        Series("exact", line, line, "reference", "dashed"),
    )
    return Evidence(
        Check("largest excess of q/β over the exact radius", above, "<=", 1e-9,
              note="an identity: it tests the code, not the theory"),
        Check("median tightness", tight, ">=", 0.1, role="note"),
        figure=Figure("lipschitz", "The Lipschitz bound beside the exact radius",
                      "Fresh points of one seed; every point lies below the diagonal.",
                      (Lines(Axis("exact radius", "l2"), Axis("q/β", "l2"), series),)),
        numbers={"tightness": tight},
        finding=f"The bound is never above the exact radius, as must be, and has "
        f"{np.median(tight):.0%} of it.",
    )  # fmt: skip
