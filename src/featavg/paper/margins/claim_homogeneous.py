"""Homogeneous networks of depth 1 to 4 under gradient flow: margins, rates, and losses of 1e-900."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.figures.figure import Axis, Figure, Lines, Role, Rule, Series
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.margins.homogeneous_nets import NETWORK_DEPTHS, HomogeneousFlow, homogeneous_flow
from featavg.paper.margins.kkt_runs import kkt_run

# Clusters of the run from a generic start; few, because every seed is a run of seconds.
K = 4


def _flows(settings: Context) -> list[HomogeneousFlow]:
    flows = []
    for i, depth in enumerate(NETWORK_DEPTHS):
        settings.progress(i / len(NETWORK_DEPTHS), f"L = {depth}")
        flows.append(homogeneous_flow(depth, settings.seeds))
    return flows


_SOURCE = "Talks, smoothed normalized margin (Lyu and Li 2020; Ji and Telgarsky 2020)"


@claim(
    "margin-homogeneous-growth",
    "The smoothed normalized margin never falls after the fit",
    theme="Margins",
    source=_SOURCE,
    measured="its deepest fall over all steps, and the sandwich at every step, for bias-free ReLU "
    "networks of depth 1 to 4 to a loss of 10<sup>-881.51</sup> from a start with one path per "
    "class, and for two layers with biases from generic small and large starts to e^-500",
    minutes=0.3,
    statements=("itcs-monotone", "csml-monotone", "itcs-sandwich"),
    shares="homogeneous flows",
)
def growth_claim(settings: Context) -> Evidence:
    """Along gradient flow of a homogeneous network the smoothed normalized margin grows once the
    data is fitted, and lies within log(n)/|θ|<sup>L</sup> below the margin.
    """
    flows = _flows(settings)
    generic = [
        kkt_run(K, seed, layers="both", start=start).fall
        for seed in settings.seeds[:3]
        for start in ("small", "large")
    ]
    fall = max(flow.fall for flow in flows)
    checks = (
        Check("depths 1 to 4, one path per class: deepest relative fall", fall, "<=", 1e-12),
        Check(
            "depth 2 with biases, generic starts: deepest relative fall", max(generic), "<=", 1e-12
        ),
        *(
            Check(
                f"L = {flow.depth}: farthest outside the sandwich", flow.sandwich_gap, "<=", 1e-12
            )
            for flow in flows
        ),
    )
    axes = (
        Axis("log<sub>10</sub>(1/loss)", log=True),
        Axis("smoothed margin, relative to the last"),
    )
    series = tuple(flow.growth_series(shade=1.0 - 0.2 * i) for i, flow in enumerate(flows))
    figure = Figure(
        "growth",
        "The smoothed normalized margin only grows",
        "After the data is fitted, relative to its last value; one seed of each depth.",
        (Lines(*axes, series),),
    )
    return Evidence(
        *checks,
        figure=figure,
        numbers={"fall": {str(f.depth): f.fall for f in flows}, "generic_fall": generic},
        finding=f"On {len(settings.seeds)} seeds and depths 1 to 4, over every step down to a loss of "
        f"10<sup>-881</sup>, the smoothed margin {_fell(fall)}; from generic starts, small and large, with "
        "both layers and biases trained and neurons sliding on their kinks, it "
        f"{_fell(max(generic))} down to e<sup>-500</sup>.",
        headlines=(Headline("10<sup>-881</sup>", "loss reached without underflow", "neutral"),),
    )


def _fell(deepest: float) -> str:
    return f"falls by {deepest:.0e} of itself at most" if deepest > 0 else "never falls"


@claim(
    "margin-direction",
    "Either the smoothed margin grows or the direction stands still; the direction converges",
    theme="Margins",
    source=_SOURCE,
    measured="over every step, the growth of log margin times that of log norm over L times the "
    "squared turn of the direction (at least 1 along the flow); and the turns of the direction "
    "between losses of e^-50, e^-200 and e^-500, two layers with biases, small and large starts",
    minutes=0.3,
    statements=("itcs-either-or", "csml-either-or", "itcs-kkt", "csml-kkt"),
    shares="homogeneous flows",
)
def direction_claim(settings: Context) -> Evidence:
    """After the fit, at almost every time either the smoothed normalized margin grows or the
    direction of the parameters does not move; and the direction converges.
    """
    flows = _flows(settings)
    turning = min(flow.turning() for flow in flows)
    runs = {
        start: [kkt_run(K, seed, layers="both", start=start) for seed in settings.seeds[:3]]
        for start in ("small", "large")
    }
    # Turns left at log(1/loss) = 50, 200 and none at 500.
    ratios = {
        start: [float(run.turns[3] / (run.turns[2] - run.turns[3])) for run in rows]
        for start, rows in runs.items()
    }
    roles: tuple[Role, ...] = ("averaged", "decoupled")
    series = tuple(
        Series.over_seeds(
            f"{start} start",
            rows[0].depths[:-1],
            np.array([run.turns[:-1] for run in rows]),
            role,
            "line+markers",
        )
        for (start, rows), role in zip(runs.items(), roles, strict=True)
    )
    figure = Figure(
        "direction",
        "The direction converges",
        "The angle between the direction of all parameters at a loss and at e^-500; two layers with "
        "biases on four clusters, from small and large initial weights.",
        (
            Lines(
                Axis("log(1/loss)", log=True), Axis("angle to the end", "radians", log=True), series
            ),
        ),
    )
    return Evidence(
        Check(
            "smallest growth of the margin over what the turn asks for",
            turning,
            ">=",
            0.999,
            note="1 is Lyu and Li's inequality; every step of depths 1 to 4",
        ),
        *(
            Check(
                f"{start} start: turn from e^-200 to e^-500 over that from e^-50 to e^-200",
                values,
                "<=",
                0.5,
            )
            for start, values in ratios.items()
        ),
        figure=figure,
        numbers={"turning": turning, "ratios": ratios},
        finding=f"In every step the smoothed margin grows by at least {turning:.3f} times what the turn "
        f"of the direction asks for, so that it stands still only where the direction does; the turns "
        f"die out, each {1 / max(map(max, ratios.values())):.1f} times or more below the one before.",
    )


@claim(
    "margin-homogeneous-rates",
    "Loss and norm follow the rates of the theorem",
    theme="Margins",
    source=_SOURCE,
    measured="exponents of log t fitted over the last four fifths of log t: for depths 1 to 4 from a "
    "start with one path per class (700 decades of t), and for two layers with biases from generic "
    "small and large starts (170 decades)",
    minutes=0.2,
    statements=("itcs-rates", "csml-rates"),
    shares="homogeneous flows",
)
def rates_claim(settings: Context) -> Evidence:
    """Loss of order 1/(t (log t)<sup>2-2/L</sup>), norm of order (log t)<sup>1/L</sup>."""
    checks, norms, losses = [], [], []
    for flow in _flows(settings):
        depth = flow.depth
        fitted = np.array([flow.exponents(seed) for seed in range(len(settings.seeds))])
        expected = 2 - 2 / depth
        off_norm = float(np.abs(fitted[:, 0] * depth - 1.0).max())
        # For L = 1 the exponent is 0, of which a tenth is nothing: there the error is absolute.
        off_loss = float(np.abs(fitted[:, 1] - expected).max() / (expected or 1.0))
        checks += [
            Check(f"L = {depth}: norm, relative error of the exponent", off_norm, "<=", 0.1),
            Check(f"L = {depth}: loss, relative error of the exponent", off_loss, "<=", 0.1),
        ]
        norms.append(fitted[:, 0])
        losses.append(fitted[:, 1])
    generic = np.array(
        [
            kkt_run(K, seed, layers="both", start=start).exponents
            for seed in settings.seeds[:2]
            for start in ("small", "large")
        ]
    )
    # L = 2: the norm like (log t)^(1/2), 1/(t loss) like log t.
    for i, (name, expected) in enumerate((("norm", 0.5), ("loss", 1.0))):
        off = float(np.abs(generic[:, i] / expected - 1.0).max())
        checks.append(
            Check(
                f"L = 2 with biases, generic starts: {name}, relative error of the exponent",
                off,
                "<=",
                0.1,
            )
        )
    depths = np.asarray(NETWORK_DEPTHS, dtype=float)
    figure = Figure(
        "rates",
        "Exponents of log t",
        "Norm of order (log t)<sup>1/L</sup> and loss of order 1/(t (log t)<sup>2-2/L</sup>), fitted.",
        (
            _panel("norm", depths, np.array(norms).T, 1 / depths, "1/L"),
            _panel("1/(t loss)", depths, np.array(losses).T, 2 - 2 / depths, "2 - 2/L"),
        ),
    )
    return Evidence(
        *tuple(checks),
        figure=figure,
        numbers={
            "norm": [n.tolist() for n in norms],
            "loss": [n.tolist() for n in losses],
            "generic": generic.tolist(),
        },
        finding="Over 700 decades of t, and over 170 from generic starts, the exponents are those of the "
        "theorem, to "
        f"{max(float(check.measured) for check in checks):.1%}.",
    )


def _panel(
    name: str,
    depths: Float[ndarray, " q"],
    fitted: Float[ndarray, "s q"],
    expected: Float[ndarray, " q"],
    formula: str,
) -> Lines:
    return Lines(
        Axis("depth L", ticks=NETWORK_DEPTHS),
        Axis(f"exponent of log t in the {name}"),
        (
            Series.over_seeds("fitted", depths, fitted, "averaged", "line+markers"),
            Series(formula, depths, expected, "reference", "dashed"),
        ),
        rules=(Rule(0.0),),
    )
