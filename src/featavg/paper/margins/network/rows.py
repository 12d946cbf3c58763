"""The rows of the margin table that a run has reached, and the radii of the networks there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.images import Images
from featavg.paper.margins.network.fit import CHECKPOINT
from featavg.paper.margins.network.passes import module_of
from featavg.paper.margins.network.run import read_run
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model
from featavg.storage.cache import kept_values, note_saved
from featavg.storage.folders import folder_exists
from featavg.training.checkpoint import fingerprint

BUDGET = 60


class PublishedRow(NamedTuple):
    """One row of the published table (Lyu and Li 2020)."""

    model: int
    epochs: int
    log10_loss: float
    normalized_margin: float


PUBLISHED_MARGINS = (
    PublishedRow(1, 38, -10.04, 5.65e-5),
    PublishedRow(2, 75, -15.12, 9.50e-5),
    PublishedRow(3, 107, -20.07, 1.30e-4),
    PublishedRow(4, 935, -120.01, 4.61e-4),
    PublishedRow(5, 10000, -881.51, 1.18e-3),
)


@dataclass(frozen=True)
class MarginRow:
    """The network when its loss first fell below that of the published row `model`.

    `epoch` counts passes (or rounds over the support) that count; `radii` are the l2 radii that DDN
    finds for each test picture, pixels in [0,1].
    """

    model: int
    epoch: int
    log10_loss: float
    normalized_margin: float
    product_margin: float
    radii: tuple[float, ...]


@dataclass(frozen=True)
class MarginTable:
    """The rows that a run has reached, and the way there (an entry for some passes)."""

    data: str
    rows: tuple[MarginRow, ...]
    history: tuple[dict[str, Any], ...]
    settings: dict[str, Any]


def table_in(folder: Path, data: str, pictures: Images) -> MarginTable:
    """The rows that the run in `folder` has reached, attacked on `pictures`; radii are kept there."""
    rows = []
    for published in PUBLISHED_MARGINS:
        place = folder / f"row-{published.model}"
        if not folder_exists(place):
            continue
        run = read_run(place)

        def attacked(params: dict[str, ndarray] = run.params) -> dict[str, list[float]]:
            return {"radii": attack_radii(params, pictures, BUDGET).tolist()}

        key = fingerprint(list(run.params.values()), len(pictures), BUDGET)
        radii = kept_values(place.with_name(f"{place.name}-radii.json"), key, attacked)["radii"]
        names = "epoch", "log10_loss", "normalized_margin", "product_margin"
        entry = {name: run.history[-1][name] for name in names}
        rows.append(MarginRow(published.model, radii=tuple(radii), **entry))
    last = read_run(folder / CHECKPOINT)
    note_saved(last.seconds)
    # Enough for a curve; the run folder has every pass.
    thin = last.history[-1 :: -max(1, len(last.history) // 60)][::-1]
    return MarginTable(data, tuple(rows), tuple(thin), last.settings.plain())


def attack_radii(params: dict[str, ndarray], pictures: Images, budget: int) -> Float[ndarray, " n"]:
    """The l2 radius (pixels in [0,1]) that DDN finds for each picture; 0 where it is misclassified.

    The outputs of a network that was trained this long are in the hundreds; dividing them by their
    size changes no decision and keeps the attack's gradients alive.
    """
    import torch

    module = module_of(params)
    with torch.no_grad():
        size = float(module(torch.from_numpy(pictures.unit)).abs().mean())

    class Scaled(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            scaled: torch.Tensor = module(batch) / size
            return scaled

    model = torch_model(Scaled(), groups=np.arange(len(params["fc2.weight"])), batch=100)
    return attack_suite(model, pictures.unit, pictures.fine, "l2", ("ddn",), budget=budget).radii
