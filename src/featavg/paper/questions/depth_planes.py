"""The boundary of deep networks in a plane through three features, with an exact radius in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Figure
from featavg.figures.marks import Role
from featavg.figures.panels import Plane
from featavg.figures.result import Result
from featavg.paper.connections.plane_view import Shown, panel, through
from featavg.paper.questions.depth_networks import Architecture, D, K, networks
from featavg.progress import Progress, silent

SHAPES = (Architecture(2), Architecture(3), Architecture(4, True))


@dataclass(frozen=True, repr=False, eq=False)
class DepthBoundary(Result):
    """One plane for each network: the centre of a cluster, another of its class, and a rival's.

    Attributes:
        labels: "coarse" or "fine".
        shapes: the architectures.
        planes: their panels.
        radius: of the first centre, over sqrt(d), the length of a feature; NaN if it is decided
            wrongly.

    Returned by `fa.depth_boundary`, which has an example.
    """

    labels: str
    shapes: tuple[Architecture, ...]
    planes: tuple[Plane, ...]
    radius: tuple[float, ...]

    def figure(self) -> Figure:
        """The panels side by side."""
        what = "class" if self.labels == "coarse" else "cluster"
        return Figure(
            f"depth-boundary-{self.labels}",
            "The boundary in the plane of three features",
            f"Networks trained on {what} labels. The arrow is the exact minimal perturbation of a "
            "cluster's centre, projected into the plane; lengths are in units of √d.",
            self.planes,
        )

    def to_json(self) -> dict[str, Any]:
        """The radii; the pictures are in the figure."""
        names = [shape.name for shape in self.shapes]
        return {"labels": self.labels, "shapes": names, "radius": list(self.radius)}

    def summary(self) -> str:
        """A line for each network."""
        pairs = zip(self.shapes, self.radius, strict=True)
        lines = [f"  {shape.name:32} {radius:.3f} √d" for shape, radius in pairs]
        return "\n".join([f"radius of the centre of cluster 1, {self.labels} labels", *lines])


def depth_boundary(
    labels: str = "coarse",
    seed: int = 0,
    shapes: Sequence[Architecture] = SHAPES,
    *,
    progress: Progress = silent,
) -> DepthBoundary:
    """Train one network of each architecture and cut its boundary with a plane.

    The plane goes through the origin of the features' triangle: mu_1 and mu_2 of the class +1 and
    the first feature of the class -1.

    Args:
        labels: "coarse" or "fine".
        seed: of data and weights.
        shapes: one network each.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> fa.depth_boundary(shapes=(fa.Architecture(3),)).radius[0] > 0.1
    True
    """
    task = MultiCluster(k=K, d=D)
    features = task.features_in(K)
    first, second = np.flatnonzero(task.positive_clusters)[:2]
    rival = int(np.flatnonzero(~task.positive_clusters)[0])
    view = through(features[first], features[second], features[rival])
    planes, lengths = [], []
    for i, shape in enumerate(shapes):
        progress(i / len(shapes), shape.name)
        nets, _ = networks(shape, labels, (seed,))
        positive = task.positive_clusters if labels == "fine" else None
        role: Role = "averaged" if labels == "coarse" else "decoupled"
        shown = Shown(shape.name, nets[0], role, positive=positive)
        chosen = np.array([first, second, rival])
        planes.append(
            panel(
                task,
                (shown,),
                view,
                (-1.0, 2.0),
                ("towards another feature of the class, √d", "towards a rival's, √d"),
                shape.name,
                chosen,
                features[first],
            )
        )
        moved = shown.nearest(features[first], 1)
        lengths.append(math.nan if moved is None else float(np.linalg.norm(moved)) / math.sqrt(D))
    return DepthBoundary(labels, tuple(shapes), tuple(planes), tuple(lengths))
