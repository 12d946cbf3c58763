"""The margin table: the MNIST network at losses from 10^-10 to 10^-881, attacked at every row.

A network of L layers has two normalized margins: min q / |theta|^L, the one that the documents
define, and min q / prod_l |theta_l|, which does not change when one layer is scaled up and another
down. The authors' published code (github.com/vfleaking/max-margin, models/simple_sequential.py)
logs both and starts from He's initialisation; the table does not say which one it prints.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.image_sets.loading import load
from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.errors import InputError, whole
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role
from featavg.figures.result import Result
from featavg.paper.margins.network.fit import CHECKPOINT, fit
from featavg.paper.margins.network.margin_cnn import MarginCNN
from featavg.paper.margins.network.run import MarginRun, read_run
from featavg.paper.margins.network.settings import MarginSettings
from featavg.progress import Progress, part, silent
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model
from featavg.storage.cache import kept_values, note_saved
from featavg.storage.files import check_writable, write
from featavg.storage.folders import folder_exists
from featavg.storage.reading import read_json
from featavg.training.checkpoint import fingerprint

ABOUT = "about.json"
ATTACKED_PICTURES, BUDGET = 500, 60
RADII = (0.5, 1.0, 1.5, 2.0, 2.5)
_DEFINITIONS: tuple[tuple[str, str, Role], ...] = (
    ("over the product of layer norms", "product_margin", "averaged"),
    ("over |θ|<sup>4</sup>", "normalized_margin", "decoupled"),
)


@dataclass(frozen=True)
class PublishedRow:
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
    """The network when its loss first fell below a published one.

    Attributes:
        model: the published row.
        epoch: passes (or rounds over the support) that count.
        log10_loss: of the mean training loss.
        normalized_margin: min q / |theta|^4.
        product_margin: min q over the product of the layers' norms.
        radii: the l2 radius that DDN finds for each test picture (pixels in [0,1]); empty if the row
            was not attacked.
    """

    model: int
    epoch: int
    log10_loss: float
    normalized_margin: float
    product_margin: float
    radii: tuple[float, ...] = ()

    @property
    def published(self) -> PublishedRow:
        """The row that it is compared with."""
        return PUBLISHED_MARGINS[self.model - 1]

    def robust_accuracy(self, radius: float) -> float:
        """The share of test pictures whose radius is larger."""
        return float(np.mean(np.asarray(self.radii) > radius))


@dataclass(frozen=True, repr=False)
class MarginTable(Result):
    """The rows that a run has reached, and the way there (an entry for some passes).

    Returned by `fa.margin_table`, which has an example.
    """

    data: str
    rows: tuple[MarginRow, ...]
    history: tuple[dict[str, Any], ...]
    settings: dict[str, Any]

    def growth(self, before: int, after: int, seed: int = 0) -> tuple[float, float, float]:
        """The median over pictures of radius(row after) / radius(row before), and its 95% interval.

        Pictures that both rows classify rightly, paired; the interval is a bootstrap over them.
        """
        by_model = {row.model: np.asarray(row.radii) for row in self.rows}
        old, new = by_model[before], by_model[after]
        both = (old > 0) & (new > 0)
        ratio = new[both] / old[both]
        draws = stream(seed, "margin-bootstrap").integers(len(ratio), size=(1000, len(ratio)))
        low, high = np.quantile(np.median(ratio[draws], axis=1), [0.025, 0.975])
        return float(np.median(ratio)), float(low), float(high)

    def figure(self) -> Figure:
        """Both normalized margins against the loss, and the published rows."""
        fitted = [entry for entry in self.history if entry["smallest_margin"] > 0]
        depth = [-entry["log10_loss"] for entry in fitted]
        series = [
            Series(label, depth, [entry[name] for entry in fitted], role)
            for label, name, role in _DEFINITIONS
        ]
        if self.data == "mnist":
            shown = PUBLISHED_MARGINS[: max(3, len(self.rows))]
            x = [-row.log10_loss for row in shown]
            y = [row.normalized_margin for row in shown]
            series.append(Series("published", x, y, "published", "markers"))
        axes = Axis("log<sub>10</sub>(1/loss)"), Axis("normalized margin", log=True)
        return Figure(
            "margin-table",
            "Normalized margin against training loss",
            f"The network of the margin table on {self.data}: the smallest margin over the product "
            "of the layers' norms and over the fourth power of the norm.",
            (Lines(*axes, tuple(series)),),
        )

    def robustness_figure(self) -> Figure:
        """Robust accuracy of the rows that were attacked."""
        series = tuple(
            Series(f"row {row.model}", (0.0, *RADII),
                   [100 * row.robust_accuracy(radius) for radius in (0.0, *RADII)], "averaged",
                   "line+markers", shade=(row.model + 1) / (len(PUBLISHED_MARGINS) + 1))
            for row in self.rows if row.radii
        )  # fmt: skip
        axes = Axis("radius", "l2, pixels in [0,1]"), Axis("robust accuracy", "percent")
        caption = f"Minimal-norm l2 attack (DDN) on {ATTACKED_PICTURES} test images or fewer."
        return Figure("margin-robustness", "Robust accuracy of the checkpoints", caption,
                      (Lines(*axes, series),))  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Every number; the radii of every picture."""
        return {
            "data": self.data,
            "rows": [asdict(row) | {"radii": list(row.radii)} for row in self.rows],
            "history": list(self.history),
            "settings": self.settings,
        }

    def summary(self) -> str:
        """A line for every row, and where the run stands."""
        lines = [
            f"row {row.model}: log10 loss {row.log10_loss:.2f} after {row.epoch}, "
            f"min q/|theta|^4 {row.normalized_margin:.2e}, min q/product of norms "
            f"{row.product_margin:.2e} (published {row.published.normalized_margin:.2e})"
            for row in self.rows
        ]
        if self.history:
            last = self.history[-1]
            margin = last["normalized_margin"]
            end = "not homogeneous" if margin is None else f"min q/|theta|^4 {margin:.2e}"
            lines.append(f"now: log10 loss {last['log10_loss']:.2f} after {last['epoch']}, {end}")
        return "\n".join(lines) or "no pass counts yet"


def train_margin_network(
    folder: str | Path,
    data: str = "mnist",
    settings: MarginSettings | None = None,
    *,
    data_dir: Path | None = None,
    epochs: int = 10_000,
    until: float = -math.inf,
    workers: int = 1,
    progress: Progress = silent,
) -> MarginRun:
    """Train the network of the margin table, or go on with the run that `folder` holds.

    Args:
        folder: for checkpoints; a run that was killed goes on to the same bits.
        data: "mnist", or "digits" for a quick look.
        settings: the network, the rate and its rule; None goes on with what is there, or begins the
            published run (for other pictures, with a first layer of their size).
        data_dir: the folder with data sets.
        epochs: stop when so many passes count.
        until: stop at this log10 of the training loss.
        workers: attempts side by side; the numbers do not depend on it.
        progress: called with the share done and a note.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa  # long
    >>> from featavg.paper.margins.network.margin_cnn import MarginCNN
    >>> small = fa.MarginSettings(network=MarginCNN(size=8, channels=(4, 8), hidden=16))
    >>> fa.train_margin_network(Path(tempfile.mkdtemp()) / "run", "digits", small, epochs=2)
    MarginRun(... parameters, log10 loss 0.33 after 2 passes of which 2 count, all steps were taken)
    """
    place = check_writable(Path(folder))
    whole("workers", workers, least=1)
    task = load(data, data_dir)
    if task.shape[0] != 1:
        raise InputError("data", f"is {data}, pictures in colour", "give mnist or digits")
    size, classes = task.shape[-1], task.fine
    if settings is None:
        fitting = MarginSettings(network=MarginCNN(size, classes=classes))
        settings = _begun(place) or fitting
    if (settings.network.size, settings.network.classes) != (size, classes):
        problem = f"has a network for {settings.network.size} pixels a side"
        remedy = f"give MarginSettings(network=MarginCNN({size}, classes={classes}))"
        raise InputError("settings", problem, remedy)

    def tick(run: MarginRun, part: float) -> None:
        by_passes = (run.epoch + part) / epochs
        by_loss = _way_to(until, run) if -math.inf < until < 0 else 0.0
        note = f"pass {run.epoch + 1}, log10 loss {run.log10_loss:.2f}"
        progress(min(1.0, max(by_passes, by_loss, 0.0)), note)

    def begun() -> None:
        if not (place / ABOUT).exists():
            write(place / ABOUT, json.dumps({"data": data}) + "\n")

    return fit(
        place, settings, task.train, epochs=epochs, until=until, tick=tick, workers=workers,
        begun=begun,
    )  # fmt: skip


def _way_to(until: float, run: MarginRun) -> float:
    """The share of the way to a loss: SGD gains as much with every pass, an implicit step in proportion."""
    rule = run.settings.support
    if rule is None or rule.step != "implicit":
        return run.log10_loss / until
    return math.log1p(max(0.0, -run.log10_loss)) / math.log1p(-until)


def _begun(place: Path) -> MarginSettings | None:
    """The settings of the run that is there."""
    checkpoint = place / CHECKPOINT
    return read_run(checkpoint).settings if folder_exists(checkpoint) else None


def data_of_run(folder: str | Path) -> str:
    """The data set that a run was begun with."""
    path = Path(folder) / ABOUT
    if not path.exists():
        return "mnist"
    about = read_json(path)
    if not isinstance(about, dict) or not isinstance(about.get("data"), str):
        raise InputError(str(path), "names no data set", "give the folder of a run")
    return str(about["data"])


def margin_table(
    folder: str | Path, pictures: Images | None = None, progress: Progress = silent
) -> MarginTable:
    """The rows that the run in `folder` has reached; with `pictures`, attacked (and kept there).

    >>> import tempfile
    >>> from pathlib import Path
    >>> import featavg as fa  # long
    >>> from featavg.paper.margins.network.margin_cnn import MarginCNN
    >>> small = fa.MarginSettings(network=MarginCNN(size=8, channels=(4, 8), hidden=16))
    >>> folder = Path(tempfile.mkdtemp()) / "run"
    >>> done = fa.train_margin_network(folder, "digits", small, epochs=2)
    >>> fa.margin_table(folder)
    now: log10 loss 0.33 after 2, min q/|theta|^4 -2.40e-04
    """
    place = Path(folder)
    last = read_run(place / CHECKPOINT)
    rows = []
    for i, published in enumerate(PUBLISHED_MARGINS):
        saved = place / f"row-{published.model}"
        if not folder_exists(saved):
            continue
        run = read_run(saved)
        entry = run.history[-1]
        radii: Sequence[float] = ()
        if pictures is not None:
            watch = part(progress, i / len(PUBLISHED_MARGINS), (i + 1) / len(PUBLISHED_MARGINS))

            def attacked(
                params: dict[str, ndarray] = run.params, watch: Progress = watch
            ) -> dict[str, list[float]]:
                return {"radii": attack_radii(params, pictures, BUDGET, watch).tolist()}

            key = fingerprint(list(run.params.values()), len(pictures), BUDGET)
            path = place / f"row-{published.model}-radii.json"
            radii = kept_values(path, key, attacked)["radii"]
        rows.append(
            MarginRow(
                published.model,
                entry["epoch"],
                entry["log10_loss"],
                entry["normalized_margin"],
                entry["product_margin"],
                tuple(radii),
            )
        )
    note_saved(last.seconds)
    # Enough for a curve; the run folder has every pass.
    thin = last.history[-1 :: -max(1, len(last.history) // 60)][::-1]
    return MarginTable(data_of_run(place), tuple(rows), tuple(thin), last.settings.plain())


def attack_radii(
    params: Mapping[str, ndarray],
    pictures: Images,
    budget: int = BUDGET,
    progress: Progress | None = None,
) -> Float[ndarray, " n"]:
    """The l2 radius (pixels in [0,1]) that DDN finds for each picture; 0 where it is misclassified.

    The outputs of a network that was trained this long are in the hundreds; dividing them by their
    size changes no decision and keeps the attack's gradients alive.
    """
    import torch

    from featavg.paper.margins.network.margin_cnn import module_of

    module = module_of(params)
    x = pictures.unit
    with torch.no_grad():
        size = float(module(torch.from_numpy(x)).abs().mean())

    class Scaled(torch.nn.Module):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            scaled: torch.Tensor = module(batch) / size
            return scaled

    groups = np.arange(len(np.asarray(params["fc2.weight"])))
    model = torch_model(Scaled(), groups=groups, batch=100)
    attacked = attack_suite(
        model, x, pictures.fine, "l2", ("ddn",), budget=budget, progress=progress
    )
    return attacked.radii
