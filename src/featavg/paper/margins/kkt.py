"""KKT points on multi-cluster data: are they reached, do they average, and how robust are they?

Beside their exact radii stands the Lipschitz bound, margin over Lipschitz constant.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.figures.figure import Axis, Bar, Bars, Figure, Lines, Role, Series
from featavg.measures.accuracy import accuracy
from featavg.measures.averaging import averaging_index
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.margins.kkt_flow import LOSS_DEPTHS, POINTS_PER_CLUSTER, KKTFlow, kkt_flow
from featavg.robustness.radii import radii

POINTS = 40
FRESH_POINTS = 1000
# Up to this many neurons every activation pattern is looked at: 2^16 of them are a second's work.
LISTED = 16
FLIPPED = 0.99
FREI = "Talk (iTCS 2024), properties of KKT points (Vardi et al. 2022; Frei et al. 2023, Theorem 4.2)"
PLANS = {
    "first layer, small start": ("first", "small"),
    "both layers and biases, small start": ("both", "small"),
    "both layers and biases, large start": ("both", "large"),
}


def _seeds_of(layers: str, run: Context) -> tuple[int, ...]:
    """Both layers take seconds a seed: three of them, unless the full tier is asked for."""
    return run.seeds if layers == "first" or run.full else run.seeds[:3]


@claim(
    "margin-kkt-residual",
    "Gradient flow ends in a KKT point of the max-margin problem",
    theme="Margins",
    minutes=0.36,
    statements=("itcs-kkt", "csml-kkt", "itcs-kkt-late"),
    shares="kkt points",
    source="Talks, max-margin problem (P) (Lyu and Li 2020; Ji and Telgarsky 2020)",
    measured="complementarity and relative stationarity with non-negative least-squares "
    "multipliers, data known, along the flow to e^-500: first layer trained, and both layers "
    "with biases from small and large starts (k = 10, d = 3072)",
)
def margin_kkt_residual(run: Context, k: int = 10) -> Evidence:
    """The limit direction satisfies the KKT conditions of the max-margin problem: stationarity and
    complementarity. (That the direction converges: margin-direction.)
    """
    flows: dict[str, list[KKTFlow]] = {}
    for i, (name, plan) in enumerate(PLANS.items()):
        run.progress(i / len(PLANS), name)
        flows[name] = [kkt_flow(k, seed, *plan) for seed in _seeds_of(plan[0], run)]
    every = [flow.residuals[-1] for rows in flows.values() for flow in rows]
    table = {
        name: {
            quantity: np.array([[getattr(at, quantity) for at in flow.residuals] for flow in rows])
            for quantity in ("complementarity", "stationarity")
        }
        for name, rows in flows.items()
    }
    notes = {
        name: "a small start has it by construction" if "small" in name
        else "what the weights started with fades like a power of log(1/loss)" for name in table
    }  # fmt: skip
    worst = max(at.complementarity for at in every)
    return Evidence(
        *(Check(f"{name}: complementarity", each["complementarity"][:, -1], "<=", 1e-2)
          for name, each in table.items()),
        *(Check(f"{name}: stationarity at e^-500 over that at e^-50",
                each["stationarity"][:, -1] / each["stationarity"][:, 2], "<=", 0.5)
          for name, each in table.items()),
        *(Check(f"{name}: stationarity", each["stationarity"][:, -1], "<=", 1e-3, notes[name], "note")
          for name, each in table.items()),
        figure=_residuals(table),
        numbers=table | {"support": [at.support for at in every], "kinks": [at.kinks for at in every]},
        finding=f"At a loss of e^-500 the complementarity residual is at most {worst:.1e} from every "
        f"start, and stationarity falls as the loss does; at least {min(at.support for at in every)} of "
        f"{POINTS_PER_CLUSTER * k} points are support vectors, and up to "
        f"{max(at.kinks for at in every)} pairs (neuron, point) slide on their kink.",
    )  # fmt: skip


def _residuals(table: dict[str, dict[str, ndarray]]) -> Figure:
    roles: tuple[Role, ...] = ("averaged", "decoupled", "neutral")
    panels = []
    for quantity in ("complementarity", "stationarity"):
        series = tuple(
            Series.over_seeds(name, LOSS_DEPTHS, each[quantity], role)
            for (name, each), role in zip(table.items(), roles, strict=False)
        )
        axes = Axis("log(1/loss)", log=True), Axis(f"relative {quantity}", log=True)
        panels.append(Lines(*axes, series, title=quantity.capitalize()))
    caption = (
        "Residuals of the KKT conditions along the flow (k = 10, d = 3072). From a small start "
        "stationarity is small from the beginning, and complementarity tells."
    )
    return Figure("residuals", "The flow reaches a KKT point", caption, tuple(panels))


@claim(
    "margin-kkt-averaging", "Training longer keeps the average",
    theme="Margins", source=FREI, minutes=0.01,
    statements=(
        "itcs-kkt-radius", "csml-finite-time",
    ), shares="kkt points",
    measured="the averaging index of every neuron from a loss of e^-2 to e^-500",
)  # fmt: skip
def margin_kkt_averaging(run: Context, k: int = 10) -> Evidence:
    """The KKT point that training from a small start tends to still averages features."""
    flows = [kkt_flow(k, seed) for seed in run.seeds]
    # Evenness alone: few points per cluster leave noise in the weights, which is no averaging.
    index = np.array([[averaging_index(net, flow.task).neuron_evenness.min() for net in flow.nets] for flow in flows])
    axes = Axis("log(1/loss)", log=True), Axis("averaging index", range=(0.0, 1.05))
    series = (Series.over_seeds("smallest of all neurons", LOSS_DEPTHS, index, "averaged"),)
    return Evidence(
        Check("smallest averaging index at the KKT point", index[:, -1].min(), ">=", 0.9),
        Check("largest loss of it since the fit", (index[:, 0] - index[:, -1]).max(), "<=", 0.05),
        figure=Figure("averaging", "Training longer keeps the average", "The smallest averaging index of "
                      "any neuron; 1 is a perfect average, 0 a single feature.", (Lines(*axes, series),)),
        numbers={"index": index, "depths": LOSS_DEPTHS},
        finding=f"From a loss of e^-2 to e^-500 the index of every neuron stays above "
        f"{index.min():.2f}: the limit averages as the beginning does.",
    )  # fmt: skip


def _robustness(flow: KKTFlow, seed: int) -> tuple[float, float, float]:
    """The median radius over sqrt(d/k), the universal length over sqrt(d/(c^2 k)), clean accuracy.

    c = 1/2 is the share of the smaller class. Without the accuracy a short radius would mean nothing.
    """
    net, task = flow.nets[-1], flow.task
    exact = radii(net, task.sample(POINTS, seed), jobs=1)
    unit = math.sqrt(task.d / task.k)
    return (
        float(np.median(exact.certified)) / unit,
        universal_length(net, task, seed) / (2 * unit),
        accuracy(net, task.sample(FRESH_POINTS, seed)).value,
    )


def universal_length(net: TwoLayer, task: MultiCluster, seed: int) -> float:
    """The shortest z = eta sum_j y_j mu_j that flips all but 1% of 1000 fresh points.

    Infinite if eight times sqrt(d/k) is too short.
    """
    sample = task.sample(FRESH_POINTS, seed)
    x = sample.coordinates(net.dimension)
    direction = task.cluster_labels @ task.features_in(net.dimension)
    size = float(np.linalg.norm(direction))

    def flips(length: float) -> bool:
        z = length / size * direction
        score = sample.y * net(x - sample.y[:, None] * z)[:, 0]
        return bool(np.mean(score <= 0) >= FLIPPED)

    low, high = 0.0, 8.0 * math.sqrt(task.d / task.k)
    if not flips(high):
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if flips(middle) else (middle, high)
    return high


@claim(
    "margin-kkt-radius", "KKT points have radius of order √(d/k)",
    theme="Margins", source=FREI, minutes=0.17, shares="kkt points",
    statements=("itcs-kkt-radius", "itcs-theorem-4.2", "csml-double-edged", "csml-margin-misleads",),
    measured="exact radii, clean accuracy and the shortest such z that flips 99% of 1000 fresh points, "
    "k = 4, 6, 10, at the KKT points that the flow reaches: first layer trained, and both layers with "
    "biases, from small and large starts (not at every KKT point: nobody can list them)",
)  # fmt: skip
def margin_kkt_radius(run: Context, clusters: tuple[int, ...] = (4, 6, 10)) -> Evidence:
    """Every KKT point of a two-layer network (both layers and biases) is at most O(√(d/k))-robust,
    and one direction z = η Σ y<sub>j</sub>μ<sub>j</sub> of length O(√(d/(c²k))) flips all but ε
    of the points, which it decides rightly as they are.
    """
    checks, table = [], dict[str, dict[int, ndarray]]()
    for i, (name, plan) in enumerate(PLANS.items()):
        rows = table[name] = dict[int, ndarray]()
        for j, k in enumerate(clusters):
            run.progress((i + j / len(clusters)) / len(PLANS), f"{name}, k = {k}")
            # All k but the last have two seeds: the order in k is what they are for.
            seeds = _seeds_of(plan[0], run)[: None if k == clusters[-1] else 2]
            rows[k] = np.array([_robustness(kkt_flow(k, seed, *plan), seed) for seed in seeds])
        near, far, right = np.concatenate(list(rows.values())).T
        checks += [
            Check(f"{name}: largest median radius / √(d/k)", near.max(), "<=", 2.0),
            Check(f"{name}: longest universal direction / √(d/(c²k))", far.max(), "<=", 1.0),
            Check(f"{name}: smallest clean accuracy", right.min(), ">=", 0.99,
                  note="the other edge of the sword: KKT points generalise"),
            Check(f"{name}: smallest median radius / √(d/k)", near.min(), ">=", 0.5, role="note"),
        ]  # fmt: skip
    near, far, right = np.concatenate([each for rows in table.values() for each in rows.values()]).T
    names = "radius", "universal", "accuracy"
    return Evidence(
        *checks,
        figure=_fragile(rows),
        numbers={
            name: {k: dict(zip(names, each.T, strict=True)) for k, each in rows.items()} for name, rows in table.items()
        },
        finding=f"Median radii are {near.min():.2f} to {near.max():.2f} times √(d/k) for k = "
        f"{', '.join(map(str, clusters))}, "
        f"with the first layer or both and biases trained, from small and large starts; one direction "
        f"of {far.max():.2f} times √(d/(c²k)) flips 99% of fresh points, of which "
        f"at least {right.min():.1%} are decided rightly without it.",
        headlines=(Headline(f"{near.mean():.2f} √(d/k)", "radius of KKT points", "averaged"),),
    )


def _fragile(rows: dict[int, ndarray]) -> Figure:
    labels: tuple[tuple[str, Role], ...] = (
        ("median radius / √(d/k)", "averaged"),
        ("length that flips 99% / √(d/(c²k))", "reference"),
    )
    middle, low, high = (np.array([of(each, axis=0) for each in rows.values()]).T for of in (np.median, np.min, np.max))
    bars = tuple(Bar(label, middle[i], role, low[i], high[i]) for i, (label, role) in enumerate(labels))
    return Figure(
        "radius",
        "KKT points are as fragile as averages",
        "Exact median radius and the universal direction's length, in units of their formulas.",
        (Bars(tuple(f"k = {k}" for k in rows), bars, Axis("ratio")),),
    )


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


def lipschitz_radii(net: TwoLayer, x: Float[ndarray, "n N"], y: Int[ndarray, " n"]) -> Float[ndarray, " n"]:
    """q_i / beta for every point, zero where it is misclassified: never above the exact radius."""
    return np.maximum(y * net(x)[:, 0], 0.0) / lipschitz_bound(net)


@claim(
    "margin-lipschitz", "Robustness is at least margin over Lipschitz constant",
    theme="Margins", minutes=0.01, statements=("itcs-lipschitz", "csml-lipschitz"), shares="kkt points",
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
    series = (Series("points", exact, bound, "averaged", "markers"), Series("exact", line, line, "reference", "dashed"))
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
