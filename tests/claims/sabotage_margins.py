"""Truths of the margin claims, broken: each must cost its claim the verdict "holds"."""

from dataclasses import replace
from functools import cache

import numpy as np
from tests.claims.sabotage import Sabotage

from featavg.nets.ideal import biased_robust, feature_decoupling
from featavg.paper.margins import claim_homogeneous as homogeneous
from featavg.paper.margins import claim_kkt as kkt
from featavg.paper.margins import claim_rate as rate
from featavg.paper.margins import claim_table as table
from featavg.paper.margins import homogeneous_nets, kkt_robustness, kkt_runs, linear_classifiers
from featavg.paper.margins.mnist_margins import PUBLISHED_MARGINS, MarginRow, MarginTable


@cache
def _kept(k, seed, layers, start):
    return kkt_runs.kkt_run(k, seed, layers=layers, start=start)


def kept_run(k, seed, layers="first", start="small"):
    """A KKT run that is not forgotten: no sabotage here changes the flow itself."""
    return _kept(k, seed, layers, start)


def class_means(x, y, clock):
    return np.tile(y @ x, (len(clock), 1))


def shallow(monkeypatch):
    """Two layers, and a loss of e^-200."""
    flow = homogeneous_nets.homogeneous_flow
    monkeypatch.setattr(
        homogeneous, "homogeneous_flow", lambda depth, seeds: flow(depth, seeds, target=-200.0)
    )
    monkeypatch.setattr(homogeneous, "NETWORK_DEPTHS", (2,))
    monkeypatch.setattr(homogeneous, "kkt_run", kept_run)


def four_clusters(monkeypatch):
    """Four clusters, and the network of the theory alone."""
    plans = {"first layer, small start": ("first", "small")}
    monkeypatch.setattr(kkt, "K", 4)
    monkeypatch.setattr(kkt, "PLANS", plans)
    for module in (kkt, kkt_robustness):
        monkeypatch.setattr(module, "kkt_run", kept_run)
    honest = kkt_robustness.kkt_radius
    monkeypatch.setattr(
        kkt, "kkt_radius", lambda *plan, **options: honest(*plan, clusters=(4,), **options)
    )


def wrong_order(monkeypatch):
    """The margin of a network of order L, normalised as if it had order L + 1."""
    monkeypatch.setattr(
        homogeneous, "homogeneous_flow", lambda depth, seeds: _of_order(depth, seeds, depth + 1)
    )


def _of_order(depth, seeds, order):
    flow = homogeneous_nets.homogeneous_flow(depth, seeds, target=-200.0)
    scale = flow.margins.norm ** (order - depth)
    margins = replace(
        flow.margins,
        normalized=flow.margins.normalized / scale,
        smoothed=flow.margins.smoothed / scale,
        slack=flow.margins.slack / scale,
    )
    return replace(flow, margins=margins)


def one_layer_for_all(monkeypatch):
    """A linear model passed off as deep ones."""
    flow = homogeneous_nets.homogeneous_flow
    monkeypatch.setattr(
        homogeneous,
        "homogeneous_flow",
        lambda depth, seeds: replace(flow(1, seeds, target=-200.0), depth=depth),
    )


def stopped_early(monkeypatch):
    """The flow, left long before it is near its limit."""
    monkeypatch.setattr(kkt, "kkt_run", _stopped)


def _stopped(k, seed, **plan):
    run = kept_run(4, seed, **plan)
    return replace(run, residuals=(run.residuals[0],) * len(run.residuals))


def turning_on(monkeypatch):
    """A direction that turns on as it did: as much from e^-200 to e^-500 as from e^-50 to e^-200."""

    def run(k, seed, **plan):
        honest = kept_run(k, seed, **plan)
        return replace(honest, turns=np.arange(len(honest.turns), dtype=float)[::-1])

    monkeypatch.setattr(homogeneous, "kkt_run", run)


def other_networks(module, make):
    """KKT points replaced by a network that is none."""

    def sabotage(monkeypatch):
        def run(k, seed, **plan):
            honest = kept_run(4, seed)
            net = make(honest.task)
            return replace(honest, nets=(net,) * len(honest.nets))

        monkeypatch.setattr(module, "kkt_run", run)

    return sabotage


def table_of(margins):
    """The published rows with these margins in place of the published ones."""

    def patch(monkeypatch):
        rows = tuple(
            MarginRow(row.model, 10, row.log10_loss, margin, 1e-4, (1.0, 1.1, 0.9))
            for row, margin in zip(PUBLISHED_MARGINS[:3], margins, strict=True)
        )
        entry = {"epoch": 1, "log10_loss": -1.0, "smallest_margin": 1.0, "normalized_margin": 1e-6,
                 "product_margin": 1e-4}  # fmt: skip
        monkeypatch.setattr(
            table, "_trained", lambda *_, **__: MarginTable("mnist", rows, (entry,), {})
        )

    return patch


MARGINS = [row.normalized_margin for row in PUBLISHED_MARGINS[:3]]
as_published = table_of(MARGINS)
falling_table = table_of(MARGINS[::-1])


def loss_based_falls_by(decades):
    """The constant rate as measured by hand, the other one falling by so much in each pass."""

    def patch(monkeypatch):
        from featavg.paper.margins import rate_comparison
        from featavg.paper.margins.rate_comparison import RateComparison

        passes = np.arange(1, 101)
        constant = tuple((-np.log10(passes) - 1.0).tolist())
        grown = tuple((1e-5 * passes).tolist()), tuple((2e-5 * passes).tolist())
        result = RateComparison(
            "made up", constant, tuple((-decades * passes - 1.0).tolist()), 110, *grown
        )
        monkeypatch.setattr(rate, "data_needed", lambda *_: None)
        monkeypatch.setattr(rate_comparison, "compare_rates", lambda *_, **__: result)

    return patch


_BROKEN = {
    "margin-linear-flow": (
        "the flow ends in the difference of the class means",
        lambda m: m.setattr(linear_classifiers, "linear_flow", class_means),
    ),
    "margin-linear-path": (
        "so does the minimiser",
        lambda m: m.setattr(linear_classifiers, "penalty_path", class_means),
    ),
    "margin-homogeneous-growth": ("the order of homogeneity is wrong by one", wrong_order),
    "margin-direction": ("the order of homogeneity is wrong by one", wrong_order),
    "margin-homogeneous-rates": ("every network is a linear one", one_layer_for_all),
    "margin-kkt-residual": ("the flow is left at a loss of e^-2", stopped_early),
    "margin-kkt-averaging": (
        "the networks are decoupled",
        other_networks(kkt, lambda task: feature_decoupling(task, 60)),
    ),
    "margin-kkt-radius": (
        "the networks are the robust ones with biases",
        other_networks(kkt_robustness, biased_robust),
    ),
    "margin-lipschitz": (
        "the Lipschitz constant is half of what it is",
        lambda m: m.setattr(
            kkt, "lipschitz_radii", lambda *a: 2 * kkt_robustness.lipschitz_radii(*a)
        ),
    ),
    "margin-table": ("margins fall from row to row", falling_table),
    "margin-table-support": ("margins fall from row to row", falling_table),
    "margin-digits": ("margins fall from row to row", falling_table),
    "margin-rate": ("the loss-based rate is as slow", loss_based_falls_by(0.02)),
}
SMALL = {
    "margin-homogeneous-growth": shallow,
    "margin-homogeneous-rates": shallow,
    "margin-direction": shallow,
    "margin-kkt-residual": four_clusters,
    "margin-kkt-averaging": four_clusters,
    "margin-kkt-radius": four_clusters,
    "margin-lipschitz": four_clusters,
    "margin-table": as_published,
    "margin-table-support": as_published,
    "margin-digits": as_published,
    "margin-rate": loss_based_falls_by(0.2),
}
NEEDS = {"margin-rate": ("torch",)}


def _as_it_is(monkeypatch):
    """The claim is small enough."""


ROWS = (
    *(
        Sabotage(claim, what, mutate, SMALL.get(claim, _as_it_is), needs=NEEDS.get(claim, ()))
        for claim, (what, mutate) in _BROKEN.items()
    ),
    Sabotage("margin-direction", "the direction goes on turning", turning_on, shallow),
)
