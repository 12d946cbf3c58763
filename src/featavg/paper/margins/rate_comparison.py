"""The talks' figure: the loss under a constant rate, and under one that is divided by the loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from featavg.data.image_sets.loading import load
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.paper.margins.network.fit import fit
from featavg.paper.margins.network.margin_cnn import MarginCNN
from featavg.paper.margins.network.run import MarginRun
from featavg.paper.margins.network.settings import MarginSettings
from featavg.progress import Progress, silent
from featavg.training.controllers.constant import Constant
from featavg.training.controllers.loss_based import LossBased


@dataclass(frozen=True, repr=False)
class RateComparison(Result):
    """log10 of the training loss after every pass that counts, under both rules.

    Attributes:
        data: the data set.
        constant, loss_based: log10 of the loss.
        attempts: passes that the loss-based rule made, undone ones included.
        constant_margins, loss_based_margins: the normalized margin after the same passes.

    Returned by `fa.compare_rates`, which has an example.
    """

    data: str
    constant: tuple[float, ...]
    loss_based: tuple[float, ...]
    attempts: int
    constant_margins: tuple[float, ...]
    loss_based_margins: tuple[float, ...]

    @property
    def margins(self) -> tuple[float, float]:
        """The normalized margin at the end, constant first."""
        return self.constant_margins[-1], self.loss_based_margins[-1]

    @property
    def decades(self) -> float:
        """How many powers of ten the loss-based rule is below the constant one at the end."""
        return self.constant[-1] - self.loss_based[-1]

    def figure(self) -> Figure:
        """Losses and normalized margins against the passes that count, as in the talks' figure."""
        panels = []
        for title, pair in (
            ("log<sub>10</sub> training loss", (self.constant, self.loss_based)),
            ("normalized margin", (self.constant_margins, self.loss_based_margins)),
        ):
            series = tuple(
                Series(name, list(range(1, len(values) + 1)), values, role)  # type: ignore[arg-type]
                for name, values, role in zip(
                    ("constant rate", "loss-based rate"),
                    pair,
                    ("averaged", "decoupled"),
                    strict=True,
                )
            )
            panels.append(Lines(Axis("passes that count"), Axis(title), series))
        caption = f"The network of the margin table on {self.data}; SGD from the same start."
        return Figure("rates", "Constant and loss-based rates", caption, tuple(panels))

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "data": self.data,
            "constant": list(self.constant),
            "loss_based": list(self.loss_based),
            "attempts": self.attempts,
            "constant_margins": list(self.constant_margins),
            "loss_based_margins": list(self.loss_based_margins),
        }

    def summary(self) -> str:
        """Where both are at the end."""
        return (
            f"After {len(self.loss_based)} passes that count the loss is 10^{self.constant[-1]:.2f} under "
            f"the constant rate and 10^{self.loss_based[-1]:.2f} under the loss-based one "
            f"({self.attempts} attempts), and the normalized margin {self.margins[0]:.2e} and "
            f"{self.margins[1]:.2e}."
        )


def compare_rates(
    data: str = "digits",
    passes: int = 150,
    *,
    channels: tuple[int, int] = (8, 16),
    hidden: int = 64,
    rate: float = 0.1,
    images: int | None = None,
    seed: int = 0,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> RateComparison:
    """Train the same network from the same start with a constant and with a loss-based rate.

    Args:
        data: "digits" or "mnist".
        passes: that count, for both.
        channels, hidden: of the network; (32, 64) and 1024 are the published ones.
        rate: the constant rate, and the first one of the loss-based rule.
        images: how many training images, the first ones; all unless given.
        seed: of weights and order.
        data_dir: the folder with data sets.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> fa.compare_rates(passes=2)
    After 2 passes that count the loss is 10^...
    """
    task = load(data, data_dir)
    if images is not None and not 0 < images <= len(task.train):
        raise InputError("images", f"is {images}", f"give 1 to {len(task.train)}")
    train = task.train if images is None else task.train[slice(0, images)]
    network = MarginCNN(task.shape[-1], channels, hidden, task.fine)
    runs: list[MarginRun] = []
    rules: tuple[Constant | LossBased, ...] = (Constant(rate), LossBased(rate))
    for i, controller in enumerate(rules):
        settings = MarginSettings(network=network, seed=seed, controller=controller)

        def tick(run: MarginRun, part: float, i: int = i) -> None:
            progress((i + run.epoch / passes) / 2, f"log10 loss {run.log10_loss:.2f}")

        with TemporaryDirectory() as folder:
            runs.append(fit(Path(folder), settings, train, epochs=passes, tick=tick))
    for run in runs:
        if not run.history:
            problem = f"is {rate:g}, and no pass from this start lowered the loss"
            raise InputError("rate", problem, "give a smaller one, or a wider network")
    (constant, loss_based), margins = (
        [tuple(float(e[name]) for e in run.history) for run in runs]
        for name in ("log10_loss", "normalized_margin")
    )
    named = data if images is None else f"{images} images of {data}"
    return RateComparison(named, constant, loss_based, runs[1].passes, margins[0], margins[1])
