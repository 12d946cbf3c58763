"""Which attack are the published CIFAR-10 curves? Units, steps, starts and labels of PGD (torch)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from featavg.data.images import ImageTask
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.paper.images.curve_result import ACCURACY, PUBLISHED_CURVES
from featavg.paper.images.curves import attacked_images, coarse_model
from featavg.progress import Progress
from featavg.robustness.attacks.pgd import pgd
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from torch import nn

# Published radii at which both are compared: each costs a PGD of its own.
RADII = (0.08, 0.24, 0.4, 0.56, 0.8)
PIXELS, DATA_UNIT, USUAL_UNIT = "pixels", "normalised", "normalised by 0.2"
# Deviations of CIFAR-10 that much code copies: those of pixels inside an image, by mistake for all pixels.
USUAL_DEVIATION = 0.2


@dataclass(frozen=True)
class PgdProtocol:
    """One way to run l2 PGD that "PGD" may stand for.

    Attributes:
        steps: gradients.
        reach: what all steps together cover, in radii; 2.5 is usual.
        random_start: begin at a random point of the ball instead of at the image.
        coarse_label: attack the ten-class network by the cross-entropy of the coarse label, that is of
            the summed probabilities, instead of by that of its own label.
        units: in which the radius is measured. In a unit of one deviation s a radius r is s r in pixels,
            and since steps are shares of the radius the attack is the same: only the axis is another.
    """

    name: str
    steps: int = 40
    reach: float = 2.5
    random_start: bool = False
    coarse_label: bool = False
    units: tuple[str, ...] = (PIXELS,)


# Fixed before the first run.
PROTOCOLS = (
    PgdProtocol("PGD-40, own loss", units=(PIXELS, DATA_UNIT, USUAL_UNIT)),
    PgdProtocol("10 steps", steps=10),
    PgdProtocol("random start", random_start=True),
    PgdProtocol("coarse label", coarse_label=True, units=(PIXELS, USUAL_UNIT)),
    PgdProtocol("steps that reach a quarter of the radius", steps=10, reach=0.25),
)


@dataclass(frozen=True)
class ProtocolRow:
    """Robust accuracy in percent at `RADII` under one protocol and unit, by labels.

    Attributes:
        scale: pixels in a unit.
    """

    protocol: str
    unit: str
    scale: float
    percent: Mapping[str, tuple[float, ...]]

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.protocol}, {self.unit}"

    def residual(self, labels: str) -> tuple[float, ...]:
        """Ours minus the published curve, in points."""
        paper = _published(labels)
        return tuple(float(a - b) for a, b in zip(self.percent[labels], paper, strict=True))

    @property
    def distance(self) -> float:
        """The largest distance from either published curve, in points."""
        return max(abs(r) for labels in self.percent for r in self.residual(labels))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        residuals = {labels: list(self.residual(labels)) for labels in self.percent}
        return asdict(self) | {"residual": residuals, "distance": self.distance}


@dataclass(frozen=True, repr=False)
class ProtocolStudy(Result):
    """All of them on one pair of networks.

    Attributes:
        clean: coarse accuracy in percent on the attacked images, by labels.
        images: how many.
    """

    rows: tuple[ProtocolRow, ...]
    clean: Mapping[str, float]
    images: int

    def nearest(self, *units: str, full_steps: bool = False) -> ProtocolRow:
        """The row that comes nearest to the published curves, among these units.

        Args:
            full_steps: leave out steps that cannot reach the radius.
        """
        short = {each.name for each in PROTOCOLS if each.reach < 1}
        some = [
            row
            for row in self.rows
            if (not units or row.unit in units) and not (full_steps and row.protocol in short)
        ]
        return min(some, key=lambda row: row.distance)

    def figure(self) -> Figure:
        """A panel per protocol and unit, ours beside the published curves."""
        return Figure(
            "published-protocols",
            "Which attack are the published CIFAR-10 curves?",
            f"Robust accuracy of the coarse decision of one pair of narrow ResNet-18s on {self.images} test "
            "images under PGD, run in several ways and its radius measured in several units, beside the "
            "published curves (grey; dashed: fine labels). The number is the largest distance in points.",
            tuple(_panel(row) for row in self.rows),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "radii": list(RADII),
            "images": self.images,
            "clean": dict(self.clean),
            "rows": [row.to_json() for row in self.rows],
            "published": {labels: list(_published(labels)) for labels in self.clean},
        }

    def summary(self) -> str:
        """A line for each row."""
        return "\n".join(
            f"{row.name:60} {row.distance:5.1f} points from the published curves at most"
            for row in self.rows
        )


def published_protocols(
    nets: Mapping[str, nn.Module],
    task: ImageTask,
    images: int = 200,
    folder: str | Path | None = None,
    progress: Progress | None = None,
) -> ProtocolStudy:
    """Attack a pair of CIFAR-10 networks by every protocol; finished parts are kept in `folder`.

    Args:
        nets: by labels, "coarse" and "fine".
        images: test images, drawn at random.
    """
    jobs = [(p, unit, labels) for p in PROTOCOLS for unit in p.units for labels in nets]
    percent: dict[tuple[str, str], dict[str, tuple[float, ...]]] = {}
    clean: dict[str, float] = {}
    scales = unit_scales(task)
    for i, (protocol, unit, labels) in enumerate(jobs):
        if progress is not None:
            progress(i / len(jobs), f"{protocol.name}, {unit}, {labels} labels")
        path = None if folder is None else Path(folder) / f"{_file(protocol, unit, labels)}.json"
        told = _part(nets[labels], task, protocol, scales[unit], labels, images, path)
        percent.setdefault((protocol.name, unit), {})[labels] = tuple(told["percent"])
        clean[labels] = told["clean"]
    rows = tuple(ProtocolRow(n, unit, scales[unit], each) for (n, unit), each in percent.items())
    return ProtocolStudy(rows, clean, images)


def unit_scales(task: ImageTask) -> dict[str, float]:
    """Pixels in one of each unit; the mean of the channels' deviations, which differ by 4%."""
    from featavg.nets.torch.architecture import statistics

    deviation = float(np.mean(statistics(task)[1]))
    return {PIXELS: 1.0, DATA_UNIT: deviation, USUAL_UNIT: USUAL_DEVIATION}


def _part(
    net: nn.Module,
    task: ImageTask,
    protocol: PgdProtocol,
    scale: float,
    labels: str,
    images: int,
    path: Path | None,
) -> dict[str, Any]:
    from featavg.training.torch.module import arrays_of

    key = fingerprint(list(arrays_of(net).values()), asdict(protocol), scale, images, RADII)

    def measured() -> dict[str, Any]:
        return _attacked(net, task, protocol, scale, labels, images)

    return kept_values(path, key, measured)


def _attacked(
    net: nn.Module,
    task: ImageTask,
    protocol: PgdProtocol,
    scale: float,
    labels: str,
    images: int,
) -> dict[str, Any]:
    """Robust accuracy in percent at each radius, by one PGD for each."""
    rows = attacked_images(task, images, seed=0)
    pixels = task.test.unit[rows]
    model = coarse_model(net, task, labels, "probability").shaped(pixels)
    x = model.rows(pixels)
    label = model.decision.labels(task.targets(task.test, "coarse")[rows])
    own = task.targets(task.test, labels)[rows]
    right = np.flatnonzero(model.margins(x, label) > 0)
    shares = []
    for radius in RADII:
        end = pgd(
            model,
            x[right],
            label[right],
            np.full(len(right), scale * radius),
            steps=protocol.steps,
            step_size=protocol.reach / protocol.steps,
            # With two classes the probability's margin and its cross-entropy point the same way.
            loss="margin" if protocol.coarse_label else "cross-entropy",
            own=own[right],
            random_start=protocol.random_start,
        )
        shares.append(100 * float(len(right) - end.flipped.sum()) / len(rows))
    return {"percent": shares, "clean": 100 * len(right) / len(rows)}


def _published(labels: str) -> tuple[float, ...]:
    paper = PUBLISHED_CURVES["cifar10"]
    by_radius = dict(zip(paper["radii"], paper[labels], strict=True))
    return tuple(by_radius[radius] for radius in RADII)


def _file(protocol: PgdProtocol, unit: str, labels: str) -> str:
    words = f"{protocol.name} {unit} {labels}".lower()
    return "-".join("".join(c if c.isalnum() else " " for c in words).split())


def _panel(row: ProtocolRow) -> Lines:
    ours = [
        Series(
            f"{'class' if labels == 'coarse' else 'fine'} labels",
            RADII,
            row.percent[labels],
            "averaged" if labels == "coarse" else "decoupled",
        )
        for labels in row.percent
    ]
    paper = [
        Series(
            f"paper, {'class' if labels == 'coarse' else 'fine'} labels",
            RADII,
            _published(labels),
            "published",
            "solid" if labels == "coarse" else "dashed",
        )
        for labels in row.percent
    ]
    title = f"{row.name}: {row.distance:.0f}"
    return Lines(Axis("radius", f"l2, {row.unit}"), ACCURACY, (*ours, *paper), title)
