"""Homogeneous networks of depth 1 to 4 under gradient flow: margins, rates, and losses of 1e-900."""

from __future__ import annotations

import math

import numpy as np
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence, Headline
from featavg.experiments.margins.homogeneous_flow import (
    DEPTHS,
    Flow,
    decrease,
    flow,
)
from featavg.figures.figure import Axis, Figure, Lines, Rule, Series
from featavg.nets.deep import Deep

# Rates are asymptotic: they are fitted over the last four fifths of log t, some 700 decades of t.
FITTED_FROM = 0.2


def growth_claim(settings: ClaimSettings) -> Evidence:
    """Monotone smoothed margin, sandwich, and the depth of the loss."""
    checks, series = [], []
    for i, depth in enumerate(DEPTHS):
        settings.progress(i / len(DEPTHS), f"L = {depth}")
        ran = flow(depth, settings.seeds)
        gap = float(np.max(ran.margins.sandwich_gap()[ran.fitted]))
        rest = ran.margins.smoothed / ran.margins.smoothed[-1]
        checks += [
            Check(f"L = {depth}: deepest relative fall", decrease(rest, ran.fitted), "<=", 1e-12),
            Check(f"L = {depth}: farthest outside the sandwich", gap, "<=", 1e-12),
            Check(
                f"L = {depth}: largest final log10 loss",
                float(ran.log_loss[-1].max()) / math.log(10),
                "<=",
                -881.51,
            ),
        ]
        line = ran.fitted[:, 0]
        pick = np.flatnonzero(line)[:: max(1, int(line.sum()) // 200)]
        series.append(
            Series(
                f"L = {depth}",
                -ran.log_loss[pick, 0] / math.log(10),
                rest[pick, 0],
                "averaged",
                shade=1.0 - 0.2 * i,
            )
        )
    figure = Figure(
        "growth",
        "The smoothed normalized margin only grows",
        "After the data is fitted, relative to its last value; one seed of each depth.",
        (
            Lines(
                Axis("log<sub>10</sub>(1/loss)", log=True),
                Axis("smoothed margin, relative to the last"),
                tuple(series),
            ),
        ),
    )
    worst = max(check.measured for check in checks if "fall" in check.name)
    return Evidence(
        checks=tuple(checks),
        figures=(figure,),
        finding=f"On {len(settings.seeds)} seeds and depths 1 to 4 the deepest fall is {worst:.0e} "
        "of the margin, over every step down to a loss of 10<sup>-881</sup>.",
        headlines=(Headline("10<sup>-881</sup>", "loss reached without underflow", "neutral"),),
    )


def exponents(ran: Flow, seed: int) -> tuple[float, float]:
    """Fitted exponents of log t in the norm, and in 1/(t loss)."""
    log_time = ran.log_times[:, seed]
    late = log_time >= FITTED_FROM * log_time[-1]
    loglog = np.log(log_time[late])
    norm = np.polyfit(loglog, np.log(ran.margins.norm[late, seed]), 1)[0]
    loss = np.polyfit(loglog, -ran.log_loss[late, seed] - log_time[late], 1)[0]
    return float(norm), float(loss)


def rates_claim(settings: ClaimSettings) -> Evidence:
    """Fitted exponents of loss and norm."""
    checks, norms, losses = [], [], []
    for i, depth in enumerate(DEPTHS):
        settings.progress(i / len(DEPTHS), f"L = {depth}")
        ran = flow(depth, settings.seeds)
        found = np.array([exponents(ran, seed) for seed in range(len(settings.seeds))])
        expected = 2 - 2 / depth
        off_norm = float(np.abs(found[:, 0] * depth - 1.0).max())
        # For L = 1 the exponent is 0, of which a tenth is nothing: there the error is absolute.
        off_loss = float(np.abs(found[:, 1] - expected).max() / (expected or 1.0))
        checks += [
            Check(f"L = {depth}: norm, relative error of the exponent", off_norm, "<=", 0.1),
            Check(f"L = {depth}: loss, relative error of the exponent", off_loss, "<=", 0.1),
        ]
        norms.append(found[:, 0])
        losses.append(found[:, 1])
        decades = float((ran.log_times[-1].min() * (1 - FITTED_FROM)) / math.log(10))
        checks.append(Check(f"L = {depth}: decades of t in the fit", decades, ">=", 10))
    depths = np.asarray(DEPTHS, dtype=float)
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
        checks=tuple(checks),
        figures=(figure,),
        numbers={"norm": [n.tolist() for n in norms], "loss": [n.tolist() for n in losses]},
        finding="Over 700 decades of t the exponents are those of the theorem, to "
        f"{max(c.measured for c in checks if 'relative' in c.name):.1%}.",
    )


def _panel(name: str, depths: ndarray, found: ndarray, expected: ndarray, formula: str) -> Lines:
    return Lines(
        Axis("depth L", ticks=DEPTHS),
        Axis(f"exponent of log t in the {name}"),
        (
            Series.over_seeds("fitted", depths, found, "averaged", "line+markers"),
            Series(formula, depths, expected, "reference", "dashed"),
        ),
        rules=(Rule(0.0),),
    )


def final_net(ran: Flow, seed: int, step: int = -1) -> Deep:
    """The network of one seed after a step."""
    return Deep(tuple(w[step, seed] for w in ran.weights))


_SOURCE = "Talks, smoothed normalized margin (Lyu and Li 2020; Ji and Telgarsky 2020)"
CLAIMS = (
    Claim(
        id="margin-homogeneous-growth",
        title="The smoothed normalized margin never falls after the fit",
        theme="Margins",
        statement="Along gradient flow of a homogeneous network the smoothed normalized margin grows "
        "once the data is fitted, and lies within log(n)/|θ|<sup>L</sup> below the margin.",
        source=_SOURCE,
        measured="its deepest fall over all steps, and the sandwich at every step, for bias-free ReLU "
        "networks of depth 1 to 4 (both layers trained at depth 2), to a loss of 10<sup>-881.51</sup>, "
        "from a start with one path for each class (margin-kkt-residual has a generic start)",
        run=growth_claim,
        minutes=0.12,
    ),
    Claim(
        id="margin-homogeneous-rates",
        title="Loss and norm follow the rates of the theorem",
        theme="Margins",
        statement="Loss of order 1/(t (log t)<sup>2-2/L</sup>), norm of order (log t)<sup>1/L</sup>.",
        source=_SOURCE,
        measured="exponents of log t fitted over the last four fifths of log t, for depths 1 to 4",
        run=rates_claim,
        minutes=0.12,
    ),
)
