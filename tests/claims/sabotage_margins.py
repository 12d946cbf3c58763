"""Truths of the margin claims, broken: each must cost its claim the verdict "holds"."""

from dataclasses import replace
from functools import cache

import numpy as np
from tests.claims.sabotage import Sabotage, setting

from featavg.nets.two_layer import biased_robust, feature_decoupling
from featavg.paper.margins import homogeneous, kkt, kkt_flow, linear, rate, table
from featavg.paper.margins.table import PUBLISHED_MARGINS, MarginRow, MarginTable


@cache
def _kept(seed, layers, start):
    return kkt_flow.kkt_flow(4, seed, layers, start)


def kept_flow(k, seed, layers="first", start="small"):
    """A flow to a KKT point on four clusters, not forgotten: no sabotage here changes the flow."""
    return _kept(seed, layers, start)


def class_means(x, y, clock):
    return np.tile(y @ x, (len(clock), 1))


def shallow(monkeypatch):
    """Two layers, and a loss of 1e-87."""
    monkeypatch.setattr(homogeneous, "_flows", lambda run, _: [homogeneous.homogeneous_flow(2, run.seeds, -87.0)])
    monkeypatch.setattr(homogeneous, "kkt_flow", kept_flow)


def four_clusters(monkeypatch):
    """Four clusters, and the network of the theory alone."""
    monkeypatch.setattr(kkt, "PLANS", {"first layer, small start": ("first", "small")})
    monkeypatch.setattr(kkt, "kkt_flow", kept_flow)


def wrong_order(monkeypatch):
    """The margin of a network of order L, normalised as if it had order L + 1."""
    honest = homogeneous.margins
    monkeypatch.setattr(homogeneous, "margins", lambda *a: honest(*a[:-1], a[-1] + 1))


def one_layer_for_all(monkeypatch):
    """A linear model passed off as deep ones."""
    flow = homogeneous.homogeneous_flow
    monkeypatch.setattr(
        homogeneous,
        "homogeneous_flow",
        lambda depth, seeds, log10_loss: replace(flow(1, seeds, log10_loss), depth=depth),
    )


def flows_with(module, change):
    """Flows to KKT points with something changed."""

    def sabotage(monkeypatch):
        def flow(*plan):
            honest = kept_flow(*plan)
            return replace(honest, **change(honest))

        monkeypatch.setattr(module, "kkt_flow", flow)

    return sabotage


stopped_early = flows_with(kkt, lambda flow: {"residuals": flow.residuals[:1] * 5})
# As much from e^-200 to e^-500 as from e^-50 to e^-200.
turning_on = flows_with(homogeneous, lambda flow: {"turns": np.arange(5.0)[::-1]})


def table_of(margins):
    """The published rows with these margins in place of the published ones."""

    def patch(monkeypatch):
        rows = tuple(
            MarginRow(row.model, 10, row.log10_loss, margin, 1e-4, (1.0, 1.1, 0.9))
            for row, margin in zip(PUBLISHED_MARGINS[:3], margins, strict=True)
        )
        entry = {"epoch": 1, "log10_loss": -1.0, "smallest_margin": 1.0, "normalized_margin": 1e-6,
                 "product_margin": 1e-4}  # fmt: skip
        monkeypatch.setattr(table, "_trained", lambda *_, **__: MarginTable("mnist", rows, (entry,), {}))

    return patch


honest_bound = kkt.lipschitz_bound
MARGINS = [row.normalized_margin for row in PUBLISHED_MARGINS[:3]]
as_published = table_of(MARGINS)
falling_table = table_of(MARGINS[::-1])


def loss_based_falls_by(decades):
    """The constant rate as measured by hand, the other one falling by so much in each pass."""

    def patch(monkeypatch):
        passes = np.arange(1, 101)
        made_up = {
            "data": "made up",
            "constant": -np.log10(passes) - 1.0,
            "loss_based": -decades * passes - 1.0,
            "attempts": 110,
            "constant_margins": 1e-5 * passes,
            "loss_based_margins": 2e-5 * passes,
        }
        monkeypatch.setattr(rate, "data_needed", lambda *_: None)
        monkeypatch.setattr(rate, "compare_rates", lambda *_, **__: made_up)

    return patch


robust_flows = flows_with(kkt, lambda flow: {"nets": (biased_robust(flow.task),) * 5})
decoupled_flows = flows_with(kkt, lambda flow: {"nets": (feature_decoupling(flow.task, 60),) * 5})
half_as_steep = setting(kkt, lipschitz_bound=lambda net: 0.5 * honest_bound(net))
TABLES = "margin-table, margin-table-support, margin-digits"
ROWS = (
    Sabotage("margin-linear-flow", "the flow ends in the difference of the class means",
             setting(linear, linear_flow=class_means)),
    Sabotage("margin-linear-path", "so does the minimiser", setting(linear, penalty_path=class_means)),
    Sabotage("margin-homogeneous-growth, margin-direction", "the order of homogeneity is wrong by one", wrong_order,
             shallow),
    Sabotage("margin-homogeneous-rates", "every network is a linear one", one_layer_for_all, shallow),
    Sabotage("margin-direction", "the direction goes on turning", turning_on, shallow),
    Sabotage("margin-kkt-residual", "the flow is left at a loss of e^-2", stopped_early, four_clusters),
    Sabotage("margin-kkt-averaging", "the networks are decoupled", decoupled_flows, four_clusters),
    Sabotage("margin-kkt-radius", "the networks are the robust ones with biases", robust_flows, four_clusters),
    Sabotage("margin-lipschitz", "the Lipschitz constant is half of what it is", half_as_steep, four_clusters),
    Sabotage(TABLES, "margins fall from row to row", falling_table, as_published),
    Sabotage("margin-rate", "the loss-based rate is as slow", loss_based_falls_by(0.02), loss_based_falls_by(0.2),
             needs=("torch",)),
)  # fmt: skip
