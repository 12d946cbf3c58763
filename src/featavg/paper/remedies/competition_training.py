r"""Competition on MNIST parity over the steps of training and the size of the start.

A maximum gives a point one neuron, so that training long enough to fit single points may undo what
competition won; and a neuron that starts far from every cluster is never pulled.

The tolerances were written after two seeds had been seen: with a start of 0.001 the maximum had 0.85 after
1,200 steps and 0.59 after 5,000 (the sum 0.43 and 0.39), with a start of 0.1 it had 0.95 after 1,200.
Nothing had been seen at 3,000 steps, nor any other seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from featavg.data.images import ImageTask
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, torch_needed
from featavg.paper.engine.tables import tabulate
from featavg.paper.remedies.competition import SOURCE
from featavg.paper.remedies.competition_images import EXACT_ALONE, judged, training

if TYPE_CHECKING:
    import xarray as xr

STARTS = (1e-3, 0.1)
KINDS = ("sum", "max")


def along(
    task: ImageTask, start: float, kind: str, seed: int, steps: tuple[int, ...], points: int
) -> dict[str, list[float]]:
    """Accuracy, radius in the box and exact radius at each number of steps of one run."""
    rows = [
        judged(task, kind, net, points)
        for net in training(task, kind, seed, steps=steps, start=start)
    ]
    return {name: [row[name] for row in rows] for name in ("accuracy", "box", "exact")}


def _row(one: xr.Dataset) -> str:
    each = zip(one["box"].values, one["accuracy"].values, strict=True)
    return ", ".join(f"{radius:.2f} ({100 * right:.1f}%)" for radius, right in each)


@claim(
    "competition-training", "Competition over the steps of training and the size of the start",
    theme="Open questions", source=SOURCE,
    measured="accuracy, attack radii and exact radii on MNIST parity, two layers on pixels, five seeds",
    tier="full", minutes=8, needs=("torch", "mnist"),
    statements=("summary-tradeoffs",),
)  # fmt: skip
def competition_training(
    run: Context, data: str = "mnist", steps: tuple[int, ...] = (300, 1200, 3000), points: int = 100
) -> Evidence:
    """On MNIST competition keeps a good part of its gain as training goes on, and a larger start costs
    it nothing there.
    """
    torch_needed()
    task = data_needed(data, run)
    table = tabulate(
        lambda start, kind, seed: along(task, start, kind, seed, steps, points),
        run.seeds, run.progress, ("step",), missing=EXACT_ALONE, start=STARTS, kind=KINDS,
    )  # fmt: skip
    box, right = table["box"], table["accuracy"]
    gain = (box.sel(kind="max") / box.sel(kind="sum")).values
    small, large = gain
    kept = (
        box.sel(kind="max", start=STARTS[0]).values[:, -1]
        / box.sel(kind="max", start=STARTS[0]).values[:, 1]
    )
    lost = (right.sel(kind="sum", start=STARTS[1]) - right.sel(kind="max", start=STARTS[1])).values
    means = table.mean("seed")
    radius = means["box"]
    lines = (
        Series("sum", steps, radius.sel(kind="sum", start=STARTS[0]).values, "averaged"),
        Series("max", steps, radius.sel(kind="max", start=STARTS[0]).values, "decoupled"),
        Series(
            "sum, large start",
            steps,
            radius.sel(kind="sum", start=STARTS[1]).values,
            "averaged",
            "dashed",
        ),
        Series(
            "max, large start",
            steps,
            radius.sel(kind="max", start=STARTS[1]).values,
            "decoupled",
            "dashed",
        ),
    )
    told = "; ".join(
        f"{kind}, start {start:g}: " + _row(means.sel(kind=kind, start=start))
        for start in STARTS
        for kind in KINDS
    )
    return Evidence(
        Check(
            f"radius of max over the sum's after {steps[-1]} steps, start {STARTS[0]:g}",
            small[:, -1],
            ">=",
            1.3,
            role="main",
        ),
        Check(f"the same, start {STARTS[1]:g}", large[:, -1], ">=", 1.3),
        Check(
            f"accuracy that max loses after {steps[-1]} steps, start {STARTS[1]:g}",
            lost[:, -1],
            "<=",
            0.02,
        ),
        Check(
            f"radius of max after {steps[-1]} steps over {steps[1]}, start {STARTS[0]:g}",
            kept,
            ">=",
            0.9,
            role="note",
        ),
        figure=Figure(
            "competition-training",
            "Competition over the steps of training",
            "Median radius that attacks find in the pixel box, MNIST parity, two layers on pixels.",
            (
                Lines(
                    Axis("steps of Adam", log=True),
                    Axis("median l2 radius, pixels in [0,1]"),
                    lines,
                ),
            ),
        ),
        numbers={name: table[name].values for name in table}
        | {"steps": steps, "starts": STARTS, "kinds": KINDS},
        finding=f"Median radius (accuracy) after {', '.join(map(str, steps))} steps: {told}.",
    )
