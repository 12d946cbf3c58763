"""Constant against loss-based learning rate on the network of the margin table: full tier."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, torch_needed
from featavg.paper.margins.network.fit import fit
from featavg.paper.margins.network.run import MarginCNN, MarginSettings
from featavg.progress import Progress, part, silent
from featavg.training.controllers import Constant, LossBased

IMAGES, PASSES = 2000, 60


def compare_rates(
    task: ImageTask,
    passes: int,
    *,
    channels: tuple[int, ...] = (8, 16),
    hidden: int = 64,
    rate: float = 0.1,
    images: int | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> dict[str, Any]:
    """log10 losses and normalized margins after every pass that counts, from the same start.

    `rate` is the constant rate and the first one of the loss-based rule; (32, 64) channels and 1024 hidden
    neurons are the published ones.
    """
    if images is not None and not 0 < images <= len(task.train):
        raise InputError("images", f"is {images}", f"give 1 to {len(task.train)}")
    train = task.train if images is None else task.train[slice(0, images)]
    network = MarginCNN(task.shape[-1], channels, hidden, task.fine)
    named = task.name if images is None else f"{images} images of {task.name}"
    table: dict[str, Any] = {"data": named}
    rules: dict[str, Constant | LossBased] = {"constant": Constant(rate), "loss_based": LossBased(rate)}
    for i, (name, rule) in enumerate(rules.items()):
        settings = MarginSettings(network=network, seed=seed, controller=rule)
        watch = part(progress, i / 2, (i + 1) / 2)
        with TemporaryDirectory() as folder:
            run = fit(Path(folder), settings, train, epochs=passes, progress=watch)
        if not run.history:
            problem = f"is {rate:g}, and no pass from this start lowered the loss"
            raise InputError("rate", problem, "give a smaller one, or a wider network")
        table[name] = [entry["log10_loss"] for entry in run.history]
        table[f"{name}_margins"] = [entry["normalized_margin"] for entry in run.history]
        table["attempts"] = run.passes  # in the end those of the loss-based rule, rejected ones too
    return table


def _figure(table: dict[str, Any]) -> Figure:
    """Losses and normalized margins against the passes that count, as in the talks' figure."""
    panels = []
    for title, end in (("log<sub>10</sub> training loss", ""), ("normalized margin", "_margins")):
        steady, fast = table[f"constant{end}"], table[f"loss_based{end}"]
        series = (
            Series("constant rate", range(1, len(steady) + 1), steady, "averaged"),
            Series("loss-based rate", range(1, len(fast) + 1), fast, "decoupled"),
        )
        panels.append(Lines(Axis("passes that count"), Axis(title), series))
    caption = f"The network of the margin table on {table['data']}; SGD from the same start."
    return Figure("rates", "Constant and loss-based rates", caption, tuple(panels))


@claim(
    "margin-rate", "A constant rate hardly lowers a tiny loss, a loss-based rate goes on",
    theme="Margins", tier="full", minutes=18, needs=("torch", "mnist"), seeds=3,
    statements=("itcs-loss-based-rate", "csml-loss-based-rate"),
    source="Talks, experiments on the MNIST network (Lyu and Li 2020)",
    measured=f"training loss and normalized margin over {PASSES} passes that count under SGD with a "
    "constant rate of 0.1 and with the loss-based rule, the network of the margin table with 8 and 16 "
    f"channels and 64 hidden neurons on the first {IMAGES} images of MNIST (published: 32, 64 and "
    "1024 on all 60,000, a constant rate of 0.01, 10,000 passes)",
)  # fmt: skip
def margin_rate(
    run: Context,
    data: str = "mnist",
    passes: int = PASSES,
    images: int = IMAGES,
    channels: tuple[int, ...] = (8, 16),
    hidden: int = 64,
    rate: float = 0.1,
) -> Evidence:
    """With a constant learning rate the gradient vanishes with the loss and training stands nearly
    still; dividing the rate by the loss lets the loss fall on, and the normalized margin rise
    with it.
    """
    torch_needed()
    task, count = data_needed(data, run), len(run.seeds)
    tables = [
        compare_rates(task, passes, channels=channels, hidden=hidden, rate=rate, images=images, seed=seed,
                      progress=part(run.progress, i / count, (i + 1) / count))
        for i, seed in enumerate(run.seeds)
    ]  # fmt: skip
    names = "constant", "constant_margins", "loss_based", "loss_based_margins"
    constant, margins, low, fast = (np.array([table[name] for table in tables]) for name in names)
    low, fast, steady, late = low[:, -1], fast[:, -1], margins[:, -1], constant.shape[1] // 2
    # Digits had been run before: 6 powers of ten after 150 passes, 0.5 in the second half. The bounds
    # are those of that claim, and the margins of the talks' figure differ by a factor of six.
    return Evidence(
        Check("powers of ten between the losses at the end", constant[:, -1] - low, ">=", 3.0),
        Check("constant rate: powers of ten in the second half of the passes",
              constant[:, late] - constant[:, -1], "<=", 1.0, note="very slow, like 1/t"),
        Check("normalized margin at the end: loss-based minus constant, over the larger",
              (fast - steady) / np.maximum(abs(fast), abs(steady)), ">=", 0.0,
              note="as in the talks' figure: both grow, the loss-based one faster"),
        Check("constant rate: normalized margin at the end minus that half-way, over its size",
              (steady - margins[:, late]) / abs(steady), ">=", 0.0, role="note"),
        finding=f"After {len(tables[0]['loss_based'])} passes that count the loss is "
        f"10^{constant[:, -1].mean():.2f} under the constant rate and 10^{low.mean():.2f} under the "
        f"loss-based one ({np.mean([table['attempts'] for table in tables]):.0f} attempts), and the "
        f"normalized margin {steady.mean():.2e} and {fast.mean():.2e} (means of {count} runs).",
        numbers={"data": tables[0]["data"], "runs": dict(zip(run.seeds, tables, strict=True))},
        figure=_figure(tables[0]),
    )  # fmt: skip
