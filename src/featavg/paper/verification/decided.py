"""Images of a public network decided one by one, with what each cost, and the table of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.nets.deep import Deep
from featavg.paper.engine.claim import Check, Context, Evidence
from featavg.paper.engine.requirements import run_folder
from featavg.paper.verification.networks import PublicImages, PublicNetwork
from featavg.progress import Progress, part
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.budget import Budget
from featavg.storage.cache import kept_values
from featavg.training.checkpoint import fingerprint

# A certificate is accepted at the radius up to rounding; a witness may be that much further.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Row:
    """A line of the table: a network, its images, a radius, a threat model, and what is published.

    Attributes:
        images: the number of images, from the first on.
        box: whether flips must be in the pixel box [0, 1].
        published: in percent: "verified" with its threat model, "attacked" robust accuracy.
    """

    name: str
    network: PublicNetwork
    data: PublicImages
    images: int
    radius: float
    box: bool
    published: str = "nothing"

    @property
    def threat(self) -> str:
        """The threat model in words."""
        return "ball in the box" if self.box else "ball"


def decide(rows: Sequence[Row], run: Context, seconds: float) -> list[dict[str, Any]]:
    """Every row's counts and costs; finished images are kept, so that a killed run goes on."""
    count = len(rows)
    return [_row(row, run, seconds, part(run.progress, i / count, (i + 1) / count)) for i, row in enumerate(rows)]


def _row(row: Row, run: Context, seconds: float, progress: Progress) -> dict[str, Any]:
    net, (x, y) = row.network.loaded(run), row.data.loaded(run)
    folder = run_folder(run) / "verification" / f"{row.name}-{row.radius:g}-{row.threat}"
    images: list[dict[str, Any]] = []
    for j in range(row.images):
        progress(j / row.images, f"{row.name}, {row.threat}: image {j + 1} of {row.images}")
        key = fingerprint([*net.arrays().values(), x[j]], int(y[j]), row.radius, row.box, seconds)
        one = partial(_image, net, x[j : j + 1], y[j : j + 1], row, seconds)
        images.append(kept_values(folder / f"{j}.json", key, one))
    counts = Counter(one["status"] for one in images)
    spent = [one["seconds"] for one in images]
    return {
        "network": row.name,
        "files": [f"{file.repository}: {file.path}" for file in row.network.files],
        "image_set": [f"{f.repository}: {f.path}" for f in row.data.files] or ["MNIST, test"],
        "neurons": sum(net.widths[:-1]),
        "images": len(images),
        "radius": row.radius,
        "threat": row.threat,
        "published": row.published,
        **{status.value: counts[status.value] for status in Certificate},
        "cpu_seconds_mean": float(np.mean(spent)),
        "cpu_seconds_most": float(np.max(spent)),
        "cpu_seconds_open": [one["seconds"] for one in images if one["status"] == "open"],
        "broken_witnesses": sum(one["broken"] for one in images),
    }


def _image(net: Deep, x: ndarray, y: ndarray, row: Row, seconds: float) -> dict[str, Any]:
    """One image; what took longer than the seconds of CPU counts as open."""
    begun = process_time()
    bounds = (0.0, 1.0) if row.box else None
    answer = certify(net, x, y, radius=row.radius, bounds=bounds, budget=Budget(seconds=seconds), jobs=1)
    spent = process_time() - begun
    status, broken = answer.status[0], False
    if status is Certificate.FLIPPED:
        to = answer.witness[0]
        outputs = net(to[None])[0]
        rival = np.delete(outputs, y[0]).max()
        length = float(np.linalg.norm(to - x[0]))
        outside = row.box and (to.min() < 0.0 or to.max() > 1.0)
        broken = bool(outputs[y[0]] > rival or length > row.radius * (1 + ROUNDING) or outside)
    late = spent > 1.2 * seconds and status in (Certificate.CERTIFIED, Certificate.FLIPPED)
    told = Certificate.OPEN if late else status
    return {"status": told.value, "broken": broken, "seconds": spent}


def evidence(found: Sequence[Mapping[str, Any]], *checks: Check) -> Evidence:
    """The checks with that of the witnesses, the table, its sentence and its figure."""
    broken = sum(one["broken_witnesses"] for one in found)
    said = "; ".join(
        f"{one['network']} at {one['radius']:g} ({one['threat']}): of {one['images']} images "
        f"{one['certified']} certified, {one['flipped']} flipped, {one['misclassified']} misclassified, "
        f"{one['open']} open, {one['cpu_seconds_mean']:.2f} CPU seconds an image and "
        f"{one['cpu_seconds_most']:.1f} at most (published: {one['published']})"
        for one in found
    )
    return Evidence(
        *checks,
        Check("witnesses that do not flip, or leave the ball or the box", broken, "<=", 0),
        figure=_figure(found),
        numbers={"rows": [dict(one) for one in found]},
        finding=f"{said}.",
    )


def open_images(found: Mapping[str, Any], most: float) -> Check:
    """At most so many images open."""
    name = f"{found['network']} at {found['radius']:g}, {found['threat']}: open of {found['images']}"
    return Check(name, found["open"], "<=", most)


def _figure(found: Sequence[Mapping[str, Any]]) -> Figure:
    roles = {"certified": "decoupled", "open": "neutral", "flipped": "averaged"}
    shares = {k: [100.0 * one[k] / one["images"] for one in found] for k in roles}
    return Figure(
        "images",
        "Public networks, image by image",
        "Share of the images that are certified, open and flipped; the rest is misclassified.",
        (
            Bars(
                tuple(f"{one['network']}, {one['threat']}" for one in found),
                tuple(Bar(k, shares[k], role) for k, role in roles.items()),  # type: ignore[arg-type]
                Axis("images", "%", range=(0.0, 100.0)),
            ),
        ),
    )
