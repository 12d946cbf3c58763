"""Homogeneous networks of depth 1 to 4 under gradient flow: margins, rates, and losses of 1e-900."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Role, Rule, Series
from featavg.measures.margin import Margins, deepest_fall, margins, parameter_norm
from featavg.nets.deep import Deep
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.engine.remembered import remembered
from featavg.paper.margins.kkt_flow import LOSS_DEPTHS, STARTS, KKTFlow, kkt_flow, rate_exponents
from featavg.training.controllers import ErrorControl
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import Exponential
from featavg.training.objectives import DeepObjective
from featavg.training.steppers.flow import GradientFlow

NETWORK_DEPTHS = (1, 2, 3, 4)
CLUSTERS, DIMENSION, POINTS, WIDTH = 4, 20, 16, 10
# Where the published run ended.
LOG10_LOSS = -881.51
# A turn (in radians) below this is round-off of the two directions.
_STILL = 1e-7
_SOURCE = "Talks, smoothed normalized margin (Lyu and Li 2020; Ji and Telgarsky 2020)"


@dataclass(frozen=True, eq=False)
class Flow:
    """A flow of all seeds, after every step: the first axis is the step, the second the seed."""

    depth: int
    log_times: Float[ndarray, "t s"]
    log_loss: Float[ndarray, "t s"]
    margins: Margins
    fitted: Bool[ndarray, "t s"]  # from the step on that has a total loss below one, from then on
    weights: tuple[ndarray, ...]


def class_data(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Clusters whose features agree within a class and oppose the other class."""
    sign = np.repeat([1.0, -1.0], CLUSTERS // 2)
    gram = np.where(np.equal.outer(sign, sign), 0.3, -0.25)
    np.fill_diagonal(gram, 1.0)
    task = MultiCluster(k=CLUSTERS, d=DIMENSION, sigma=0.3, gram=DIMENSION * gram)
    sample = task.sample(POINTS, seed)
    return sample.x / math.sqrt(DIMENSION), sample.y


@remembered
def homogeneous_flow(depth: int, seeds: tuple[int, ...] = (0,), log10_loss: float = LOG10_LOSS) -> Flow:
    """Gradient flow of the exponential loss, for which the sandwich is exact, to a mean loss.

    The start has one path for each class, so that no neuron of a deep network meets its kink: an
    integrator that cannot slide there stops for good (two layers can: see `kkt_flow`).
    """
    x, y = (np.stack(part) for part in zip(*map(class_data, seeds), strict=True))
    start = two_sided(x, y, (WIDTH,) * (depth - 1) + (1,), seeds, 0.5)
    objective = DeepObjective(x, y, start, Exponential())
    ran = run(
        objective,
        start.weights,
        stepper=GradientFlow(tolerance=1e-6),
        controller=ErrorControl(),
        stop=Stop(steps=20_000, log_loss=log10_loss * math.log(10)),
        save_at=SaveAt(every=1),
    )
    weights = tuple(ran.parameters[name] for name in objective.trainable)
    # Every saved network at once, on its own copy (a view) of the data.
    targets = np.broadcast_to(y, (len(weights[0]), *y.shape))
    points = np.broadcast_to(x, (len(weights[0]), *x.shape))
    found = DeepObjective(points, targets, Deep(weights), Exponential()).evaluate(weights)
    norm = parameter_norm(weights, 2)
    margin = margins(found.preactivations[-1], targets, found.loss.log_losses, norm, depth)
    # Lyu and Li's t_0: from here on the total loss is below one.
    low = found.log_loss + math.log(POINTS) < 0.0
    fitted = np.logical_and.accumulate(low[::-1], axis=0)[::-1]
    return Flow(depth, ran.log_times, found.log_loss, margin, fitted, weights)


def turning(flow: Flow) -> float:
    r"""The smallest  d log(smoothed) d log|theta| / (L |d direction|^2)  of any step after the fit.

    Lyu and Li (2020, Lemma 5.1) have  d/dt log smoothed >= L |d direction/dt|^2 / (d/dt log|theta|),
    so by Cauchy and Schwarz the ratio is at least one over steps of any length: whenever the
    direction moves, the smoothed margin grows. Steps that turn by less than round-off are left out.
    """
    worst = math.inf
    for seed in range(flow.log_loss.shape[1]):
        rows = flow.fitted[:, seed]
        parts = [w[rows, seed].reshape(int(rows.sum()), -1) for w in flow.weights]
        theta = np.concatenate(parts, axis=1)
        norm = np.linalg.norm(theta, axis=1)
        turn = np.linalg.norm(np.diff(theta / norm[:, None], axis=0), axis=1)
        growth = np.diff(np.log(flow.margins.smoothed[rows, seed]))
        moved = turn > _STILL
        if moved.any():
            product = (growth * np.diff(np.log(norm)))[moved]
            worst = min(worst, float((product / (flow.depth * turn[moved] ** 2)).min()))
    return worst


def _flows(settings: Context, log10_loss: float) -> list[Flow]:
    flows = []
    for i, depth in enumerate(NETWORK_DEPTHS):
        settings.progress(i / len(NETWORK_DEPTHS), f"L = {depth}")
        flows.append(homogeneous_flow(depth, settings.seeds, log10_loss))
    return flows


def _generic(seeds: tuple[int, ...], k: int) -> dict[str, list[KKTFlow]]:
    """Two layers with biases on k clusters from generic starts; few seeds, each takes seconds."""
    return {start: [kkt_flow(k, seed, "both", start) for seed in seeds] for start in STARTS}


@claim(
    "margin-homogeneous-growth", "The smoothed normalized margin never falls after the fit",
    theme="Margins", source=_SOURCE, minutes=0.11, shares="homogeneous flows",
    statements=("itcs-monotone", "csml-monotone", "itcs-sandwich", "summary-question-biases",),
    measured="its deepest fall over all steps, and the sandwich at every step, for bias-free ReLU "
    "networks of depth 1 to 4 to a loss of 10<sup>-881.51</sup> from a start with one path per "
    "class, and for two layers with biases from generic small and large starts to e^-500",
)  # fmt: skip
def margin_homogeneous_growth(settings: Context, log10_loss: float = LOG10_LOSS, k: int = 4) -> Evidence:
    """Along gradient flow of a homogeneous network the smoothed normalized margin grows once the
    data is fitted, and lies within log(n)/|θ|<sup>L</sup> below the margin.
    """
    flows = _flows(settings, log10_loss)
    falls = {flow.depth: deepest_fall(flow.margins.smoothed, flow.fitted) for flow in flows}
    gaps = {flow.depth: np.max(flow.margins.sandwich_gap()[flow.fitted]) for flow in flows}
    generic = [flow.fall for rows in _generic(settings.seeds[:3], k).values() for flow in rows]
    fall = max(falls.values())
    series = []
    for i, flow in enumerate(flows):
        fitted = np.flatnonzero(flow.fitted[:, 0])
        pick = fitted[:: max(1, len(fitted) // 200)]
        relative = flow.margins.smoothed[pick, 0] / flow.margins.smoothed[-1, 0]
        x = -flow.log_loss[pick, 0] / math.log(10)
        series.append(Series(f"L = {flow.depth}", x, relative, "averaged", shade=1.0 - 0.2 * i))
    axes = (Axis("log<sub>10</sub>(1/loss)", log=True), Axis("smoothed margin, relative to the last"))
    return Evidence(
        Check("depths 1 to 4, one path per class: deepest relative fall", fall, "<=", 1e-12),
        Check("depth 2 with biases, generic starts: deepest relative fall", max(generic), "<=", 1e-12),
        *(Check(f"L = {depth}: farthest outside the sandwich", gap, "<=", 1e-12) for depth, gap in gaps.items()),
        figure=Figure(
            "growth",
            "The smoothed normalized margin only grows",
            "After the data is fitted, relative to its last value; one seed of each depth.",
            (Lines(*axes, tuple(series)),),
        ),
        numbers={"fall": falls, "generic_fall": generic},
        finding=f"On {len(settings.seeds)} seeds and depths 1 to 4, over every step down to a loss of "
        f"10<sup>{math.ceil(log10_loss)}</sup>, the smoothed margin {_fell(fall)}; from generic starts, "
        "small and large, with both layers and biases trained and neurons sliding on their kinks, it "
        f"{_fell(max(generic))} down to e<sup>-500</sup>.",
        headlines=(Headline(f"10<sup>{math.ceil(log10_loss)}</sup>", "loss reached without underflow", "neutral"),),
    )


def _fell(deepest: float) -> str:
    return f"falls by {deepest:.0e} of itself at most" if deepest > 0 else "never falls"


@claim(
    "margin-direction",
    "Either the smoothed margin grows or the direction stands still; the direction converges",
    theme="Margins", source=_SOURCE, minutes=0.01, shares="homogeneous flows",
    statements=("itcs-either-or", "csml-either-or", "itcs-kkt", "csml-kkt", "itcs-kkt-late",),
    measured="over every step, the growth of log margin times that of log norm over L times the "
    "squared turn of the direction (at least 1 along the flow); and the turns of the direction "
    "between losses of e^-50, e^-200 and e^-500, two layers with biases, small and large starts",
)  # fmt: skip
def margin_direction(settings: Context, log10_loss: float = LOG10_LOSS, k: int = 4) -> Evidence:
    """After the fit, at almost every time either the smoothed normalized margin grows or the
    direction of the parameters does not move; and the direction converges.
    """
    least = min(turning(flow) for flow in _flows(settings, log10_loss))
    flows = _generic(settings.seeds[:3], k)
    turns = {start: np.array([flow.turns for flow in rows]) for start, rows in flows.items()}
    # Turns left at log(1/loss) = 50, 200 and none at 500.
    ratios = {start: each[:, 3] / (each[:, 2] - each[:, 3]) for start, each in turns.items()}
    roles: dict[str, Role] = {"small": "averaged", "large": "decoupled"}
    series = tuple(
        Series.over_seeds(f"{start} start", LOSS_DEPTHS[:-1], each[:, :-1], roles[start], "line+markers")
        for start, each in turns.items()
    )
    axes = Axis("log(1/loss)", log=True), Axis("angle to the end", "radians", log=True)
    return Evidence(
        Check("smallest growth of the margin over what the turn asks for", least, ">=", 0.999,
              note="1 is Lyu and Li's inequality; every step of depths 1 to 4"),
        *(Check(f"{start} start: turn from e^-200 to e^-500 over that from e^-50 to e^-200",
                values, "<=", 0.5) for start, values in ratios.items()),
        figure=Figure("direction", "The direction converges",
                      "The angle between the direction of all parameters at a loss and at e^-500; two "
                      "layers with biases on four clusters, from small and large initial weights.",
                      (Lines(*axes, series),)),
        numbers={"turning": least, "ratios": ratios},
        finding=f"In every step the smoothed margin grows by at least {least:.3f} times what the turn "
        f"of the direction asks for, so that it stands still only where the direction does; the turns "
        f"die out, each {1 / max(map(max, ratios.values())):.1f} times or more below the one before.",
    )  # fmt: skip


@claim(
    "margin-homogeneous-rates", "Loss and norm follow the rates of the theorem",
    theme="Margins", source=_SOURCE, minutes=0.01, shares="homogeneous flows",
    statements=("itcs-rates", "csml-rates"),
    measured="exponents of log t fitted over the last four fifths of log t: for depths 1 to 4 from a "
    "start with one path per class (700 decades of t), and for two layers with biases from generic "
    "small and large starts (170 decades)",
)  # fmt: skip
def margin_homogeneous_rates(settings: Context, log10_loss: float = LOG10_LOSS, k: int = 4) -> Evidence:
    """Loss of order 1/(t (log t)<sup>2-2/L</sup>), norm of order (log t)<sup>1/L</sup>."""
    flows = _flows(settings, log10_loss)
    depths = np.array([flow.depth for flow in flows], dtype=float)
    expected = {"norm": 1 / depths, "loss": 2 - 2 / depths}
    columns = [
        [rate_exponents(flow.log_times[:, i], flow.log_loss[:, i], flow.margins.norm[:, i]) for flow in flows]
        for i in range(len(settings.seeds))
    ]
    fitted = dict(zip(expected, np.moveaxis(np.array(columns), 2, 0), strict=True))
    # For L = 1 the exponent of the loss is 0, of which a tenth is nothing: there the error is absolute.
    off = {
        name: np.abs(fitted[name] - exact).max(axis=0) / np.where(exact, exact, 1.0) for name, exact in expected.items()
    }
    generic = np.array([flow.exponents for rows in _generic(settings.seeds[:3], k).values() for flow in rows])
    # L = 2: the norm like (log t)^(1/2), 1/(t loss) like log t.
    off_generic = np.abs(generic / [0.5, 1.0] - 1.0).max(axis=0)
    what = "relative error of the exponent"
    checks = [
        *(Check(f"L = {flow.depth}: {name}, {what}", off[name][i], "<=", 0.1)
          for i, flow in enumerate(flows) for name in off),
        *(Check(f"L = 2 with biases, generic starts: {name}, {what}", error, "<=", 0.1)
          for name, error in zip(off, off_generic, strict=True)),
    ]  # fmt: skip
    panels = tuple(
        Lines(
            Axis("depth L", ticks=NETWORK_DEPTHS), Axis(f"exponent of log t in the {label}"),
            (Series.over_seeds("fitted", depths, fitted[name], "averaged", "line+markers"),
             Series(formula, depths, expected[name], "reference", "dashed")),
            rules=(Rule(0.0),),
        )
        for name, label, formula in (("norm", "norm", "1/L"), ("loss", "1/(t loss)", "2 - 2/L"))
    )  # fmt: skip
    return Evidence(
        *checks,
        figure=Figure("rates", "Exponents of log t",
                      "Norm of order (log t)<sup>1/L</sup> and loss of order "
                      "1/(t (log t)<sup>2-2/L</sup>), fitted.", panels),
        numbers=fitted | {"generic": generic},
        finding="Over 700 decades of t, and over 170 from generic starts, the exponents are those of the "
        f"theorem, to {max(check.measured for check in checks):.1%}.",
    )  # fmt: skip


def random_deep(dimension: int, widths: Sequence[int], scale: float, seeds: Sequence[int]) -> Deep:
    """A batch of networks with He weights times `scale`, one for each seed; `widths` end in c."""
    sizes = (dimension, *widths)
    draws = [stream(seed, "deep-weights") for seed in seeds]
    return Deep(
        tuple(
            np.stack([scale * math.sqrt(2 / below) * d.standard_normal((here, below)) for d in draws])
            for below, here in pairwise(sizes)
        )
    )


def two_sided(
    x: Float[ndarray, "s n N"], y: Int[ndarray, "s n"], widths: Sequence[int], seeds: Sequence[int], scale: float = 0.5
) -> Deep:
    """A start with one path for each class, near the class average: no neuron hangs on a kink.

    Half of every hidden layer is fed by, and feeds, its own half with positive weights; the first
    layer is the mean of y_i x_i, with the sign of the half, plus noise. From a generic start deep
    flows stick to kinks of inner layers, where no explicit integrator follows them.
    """
    plain = random_deep(x.shape[-1], widths, scale, seeds)
    weights = list(plain.weights)
    if len(weights) == 1:
        return plain
    mean = np.mean(y[..., None] * x, axis=-2, keepdims=True)
    mean = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    sides = [np.repeat([1.0, -1.0], width // 2) for width in widths[:-1]]
    weights[0] = scale * sides[0][:, None] * mean + 0.5 * weights[0]
    for number in range(1, len(weights)):
        kept = sides[number - 1] if number == len(widths) - 1 else (sides[number][:, None] == sides[number - 1])
        weights[number] = np.abs(weights[number]) * kept
    return Deep(tuple(weights))
