"""Shamir et al.: do minimal perturbations leave the manifold of the data?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.manifold import OnSubspace
from featavg.experiments.connections.on_manifold import Split, split
from featavg.figures.figure import Arrow, Axis, Contour, Figure, Lines, Note, Plane, Points, Series
from featavg.figures.marks import Role
from featavg.nets.readouts.registry import score
from featavg.nets.two_layer import TwoLayer
from featavg.training.train import train

PAPER = 1e-5
H = 3


@dataclass(frozen=True, eq=False)
class Dimpled:
    """A network trained on a subspace, and its test points' perturbations, split."""

    task: OnSubspace
    net: TwoLayer
    x: Float[ndarray, "n N"]
    y: ndarray
    split: Split
    positive: ndarray | None

    @property
    def off_share(self) -> float:
        """Median share of |u|^2 outside the subspace."""
        return float(np.nanmedian(self.split.off_share))

    @property
    def distances(self) -> tuple[float, float, float]:
        """Median distance to the boundary: nearest, inside the subspace, straight out of it."""
        right = self.split.exact.attack > 0
        kept = (self.split.exact.attack, self.split.on.attack, self.split.off_radii)
        exact, on, off = (float(np.median(v[right])) for v in kept)
        return exact, on, off


@lru_cache(maxsize=64)
def dimples(
    labels: str,
    sigma_w: float,
    seed: int,
    task: OnSubspace,
    n: int = 200,
    steps: int = 300,
    test: int = 16,
    m: int = 5,
) -> Dimpled:
    """Train on coarse or fine labels and split the exact minimal perturbations of test points."""
    neurons = 2 * m if labels == "coarse" else H * task.k
    data = task.draw(n, neurons, seed)
    run = train(data, labels=labels, m=m, h=H, sigma_w=sigma_w, steps=steps)
    points = task.inside.sample(test, seed)
    x = task.embed(points, neurons)
    positive = task.inside.positive_clusters if labels == "fine" else None
    found = split(run.net, x, points.y, task.basis(neurons), "max", positive)
    return Dimpled(task, run.net, x, points.y, found, positive)


def manifold(settings: ClaimSettings, k: int = 10, d: int = 3072, r: int = 100) -> Evidence:
    """Shares and distances against the size of the initial weights."""
    task = OnSubspace(k, d, r)
    talk = 1 / math.sqrt(d)
    sizes = (PAPER, 1e-3, 4e-3, talk)
    runs: dict[tuple[str, float], list[Dimpled]] = {}
    plans = [(labels, size) for labels in ("coarse", "fine") for size in sizes]
    for i, (labels, size) in enumerate(plans):
        settings.progress(i / len(plans), f"{labels} labels, initial weights {size:.2g}")
        seeds = settings.seeds if size in (PAPER, talk) or settings.full else settings.seeds[:1]
        runs[labels, size] = [dimples(labels, size, seed, task) for seed in seeds]
    share = {key: float(np.median([run.off_share for run in rows])) for key, rows in runs.items()}
    away = {
        key: tuple(float(v) for v in np.median([run.distances for run in rows], axis=0))
        for key, rows in runs.items()
    }
    gap = max(float(run.split.exact.gaps.max()) for rows in runs.values() for run in rows)
    coarse, fine = ("coarse", PAPER), ("fine", PAPER)
    big = ("coarse", talk)
    checks = (
        Check("averaged, σ<sub>w</sub> = 1/√d: share of |u|² off the manifold", share[big], ">=", 0.5),
        Check("averaged, σ<sub>w</sub> = 1/√d: distance off the manifold over distance on it",
              away[big][2] / away[big][1], "<=", 0.5),
        Check("averaged, σ<sub>w</sub> = 10<sup>−5</sup>: share of |u|² off the manifold", share[coarse],
              ">=", 0.5, note="the paper's initialisation"),
        Check("σ<sub>w</sub> = 10<sup>−5</sup>: averaged over decoupled radius",
              away[coarse][0] / away[fine][0], "<=", 0.6, note="both exact"),
        Check("largest gap between certificate and witness", gap, "<=", 1e-4, essential=False),
    )  # fmt: skip
    finding = (
        f"Dimples come from the initial weights, which nothing unlearns off the manifold: with "
        f"σ<sub>w</sub> = 1/√d, {share[big]:.0%} of an exact minimal perturbation leaves the manifold "
        f"and the boundary is {away[big][2]:.1f} away off it against {away[big][1]:.1f} on it; with "
        f"the paper's σ<sub>w</sub> = 10<sup>−5</sup> it is {share[coarse]:.0%}, and the averaged "
        f"network's radius of {away[coarse][0]:.1f} against the decoupled one's "
        f"{away[fine][0]:.1f} is a matter inside the manifold."
    )
    numbers = {
        f"{labels}_{size:.2g}": {
            "off_share": share[labels, size],
            "exact_on_off": away[labels, size],
        }
        for labels, size in plans
    }
    figures = (
        _curves(sizes, runs),
        _pictures(
            [runs[labels, size][0] for labels in ("coarse", "fine") for size in (PAPER, talk)]
        ),
    )
    return Evidence(checks, figures, numbers, finding)


def _curves(sizes: tuple[float, ...], runs: dict[tuple[str, float], list[Dimpled]]) -> Figure:
    roles: dict[str, Role] = {"coarse": "averaged", "fine": "decoupled"}
    names = {"coarse": "averaged", "fine": "decoupled"}
    shares, away = [], []
    for labels, role in roles.items():
        rows = [[run.off_share for run in runs[labels, size]] for size in sizes]
        low, middle, high = ([float(f(row)) for row in rows] for f in (np.min, np.median, np.max))
        shares.append(Series(names[labels], sizes, middle, role, "line+markers", low, high))
        found = np.array(
            [np.median([run.distances for run in runs[labels, size]], axis=0) for size in sizes]
        )
        found[~np.isfinite(found)] = np.nan
        away += [
            Series(f"{names[labels]}, on the manifold", sizes, found[:, 1], role, "line+markers"),
            Series(f"{names[labels]}, off the manifold", sizes, found[:, 2], role, "dashed"),
        ]
    axis = Axis("size of the initial weights σ<sub>w</sub>", log=True)
    return Figure(
        "shares",
        "How much of a minimal perturbation leaves the manifold?",
        "Left: the share of exact minimal perturbations that is orthogonal to the data's subspace "
        "grows from nothing to almost all with the initial weights. Right: the distance to the "
        "boundary along the subspace and straight out of it.",
        (
            Lines(axis, Axis("share of |u|² off the manifold", range=(-0.03, 1.03)), tuple(shares),
                  title="Off-manifold share"),
            Lines(axis, Axis("distance to the boundary", "l2", log=True), tuple(away),
                  title="Distance along each"),
        ),
    )  # fmt: skip


def _pictures(runs: list[Dimpled]) -> Figure:
    sizes = ("σ<sub>w</sub> = 10<sup>−5</sup>", "σ<sub>w</sub> = 1/√d")
    titles = [f"{name}, {size}" for name in ("averaged", "decoupled") for size in sizes]
    return Figure(
        "plane",
        "On the manifold or off it",
        "The plane through a test point (star) along its shortest perturbation on the manifold "
        "(horizontal) and straight out of it (vertical). With small initial weights the boundary "
        "stands upright and the nearest point is on the manifold; with large ones it lies along the "
        "manifold and the nearest point is straight out.",
        tuple(_plane(run, title) for run, title in zip(runs, titles, strict=True)),
    )


def _plane(run: Dimpled, title: str) -> Plane:
    r = run.task.r
    at = int(np.flatnonzero((run.y > 0) & (run.split.exact.attack > 0))[0])
    point = run.x[at]
    along = np.pad(run.split.on.witness[at], (0, run.x.shape[1] - r))
    along /= np.linalg.norm(along)
    moved = run.split.exact.witness[at] - point
    out = moved.copy()
    out[:r] = 0.0
    out = out / np.linalg.norm(out)
    unit = math.sqrt(run.task.d)
    a, b = np.linspace(-0.5, 1.7, 67), np.linspace(-0.9, 0.9, 55)
    ga, gb = np.meshgrid(a * unit, b * unit)
    grid = point + ga.reshape(-1, 1) * along + gb.reshape(-1, 1) * out
    z = score(run.net(grid), run.positive, "max").reshape(ga.shape)
    z = np.round(z / np.abs(z).max(), 4)
    own, other = _clouds(run, point[:r], along[:r])
    nearest = (float(moved @ along) / unit, float(moved @ out) / unit)
    length = float(np.linalg.norm(moved)) / unit
    return Plane(
        Axis("on the manifold, in √d"),
        Axis("off the manifold, in √d"),
        points=(
            Points("its cluster", own / unit, np.zeros(len(own)), "decoupled"),
            Points("a rival cluster", other / unit, np.zeros(len(other)), "averaged", "s"),
            Points("a test point", [0.0], [0.0], "neutral", "*", 13),
        ),
        contours=(Contour("boundary", a.tolist(), b.tolist(), z, "neutral", fill=True),),
        arrows=(Arrow((0.0, 0.0), nearest, ""),),
        notes=(Note(0.6, -0.82, f"|u| = {length:.2f} √d"),),
        title=title,
    )


def _clouds(
    run: Dimpled, point: Float[ndarray, " r"], along: Float[ndarray, " r"]
) -> tuple[Float[ndarray, " p"], Float[ndarray, " q"]]:
    """Where fresh points of the own cluster and of the rival ahead lie along a direction."""
    task = run.task.inside
    points = task.sample(20 * task.k, 1)
    features = task.features_in(run.task.r)
    home = np.argmax(features @ point)
    ahead = np.where(task.cluster_labels < 0, features @ along, -np.inf).argmax()
    places = (points.coordinates(run.task.r) - point) @ along
    return places[points.clusters == home], places[points.clusters == ahead]


CLAIMS = (
    Claim(
        id="connections-dimpled-manifold",
        title="Do minimal perturbations leave the manifold of the data?",
        theme="Connections",
        statement="The dimpled-manifold model: data lie near a low-dimensional manifold, the boundary "
        "clings to it with shallow dimples, and adversarial perturbations are short because they "
        "leave the manifold; feature averaging is offered as a theory of it.",
        source="Talks, 'Connection to dimpled manifold models'; Shamir, Melamed and BenShmuel 2021",
        measured="exact minimal perturbations of networks trained on ten clusters in a random "
        "100-dimensional subspace of R<sup>3072</sup>, split into parts on and off it, and the exact "
        "distance to the boundary along each, for initial weights from 10<sup>−5</sup> to 1/√d",
        run=manifold,
        minutes=0.07,
    ),
)
