"""Li et al. (2022): a line is right and never robust, a robust classifier exists but is huge."""

from __future__ import annotations

import numpy as np

from featavg.claims.ledger import Check, Claim, ClaimSettings, Evidence
from featavg.data.clusters import MultiCluster
from featavg.data.lattice import Lattice
from featavg.figures.figure import Axis, Circle, Contour, Figure, Lines, Plane, Points, Series
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.radii import radii

GAP, EPS = 0.05, 0.25
SIZES = (6, 8, 10, 12)


def linear(task: Lattice) -> TwoLayer:
    """f(x) = relu(x_d) - relu(-x_d), the last coordinate, as a network of two neurons."""
    last = np.eye(task.m + 1)[-1]
    return TwoLayer(np.stack([last, -last]), np.zeros(2), np.array([[1.0, -1.0]]))


def expressivity(
    settings: ClaimSettings, m: int = 10, gap: float = GAP, eps: float = EPS
) -> Evidence:
    """Clean and robust accuracy of both classifiers; how many samples the robust one needs."""
    clean, attacked, smallest, error = [], [], [], 0.0
    for i, seed in enumerate(settings.seeds):
        settings.progress(i / len(settings.seeds), f"seed {seed}")
        task = Lattice(m, gap, seed)
        line = linear(task)
        some = np.arange(0, 2**m, max(1, 2**m // 64))
        exact = radii(line, task.x[some], task.y[some], jobs=1)
        error = max(error, float(np.abs(exact.attack - gap).max()))
        clean.append(float(np.mean(task.y * line(task.x)[:, 0] > 0)))
        # The radius of a half-space is |f(x)| / |gradient| = |last coordinate|.
        attacked.append(float(np.mean(np.abs(task.x[:, -1]) > eps)))
        smallest.append(float(task.nearest_vertex_radii().min()))
    shares, curves = _samples(settings)
    needed = {d: _needed(shares, curve) for d, curve in curves.items()}
    checks = (
        Check("linear classifier: clean accuracy, worst seed", min(clean), ">=", 1.0),
        Check(f"linear classifier: robust accuracy at ε = {eps:g}, best seed", max(attacked), "<=", 0.0),
        Check(f"nearest vertex: smallest radius, all 2<sup>{m}</sup> points", min(smallest), ">=", 0.5,
              note="so clean and robust accuracy at ε are both 1"),
        Check("share of all vertices to be seen for robust accuracy 0.9, smallest", min(needed.values()),
              ">=", 0.75, note="at every dimension: the number is exponential in d"),
        Check("exact radius of the line minus the gap", error, "<=", 1e-6, essential=False),
    )  # fmt: skip
    finding = (
        f"The line is right on all points and robust at ε = {eps:g} on none: its exact radius is "
        f"{gap:g} everywhere. The nearest-vertex classifier has radius {min(smallest):.2f} or more on "
        f"all of them, but must have seen {min(needed.values()):.0%} to {max(needed.values()):.0%} of "
        f"the 2<sup>d−1</sup> vertices to be robust on nine points in ten, while ten clusters are "
        "learnt from tens of samples."
    )
    numbers = {
        "gap": gap,
        "eps": eps,
        "m": m,
        "linear_clean": clean,
        "linear_robust": attacked,
        "nearest_vertex_smallest_radius": smallest,
        "share_needed": {str(d): v for d, v in needed.items()},
    }
    return Evidence(checks, (_figure(shares, curves, gap, eps),), numbers, finding)


def _samples(settings: ClaimSettings) -> tuple[np.ndarray, dict[int, np.ndarray]]:
    """Median robust accuracy against samples as a share of all vertices, for each size."""
    shares = np.geomspace(0.01, 8.0, 25)
    curves = {}
    for m in SIZES:
        task = Lattice(m, GAP)
        runs = [
            [task.robust_share_from_samples(max(1, round(s * 2**m)), seed) for s in shares]
            for seed in settings.seeds
        ]
        curves[m + 1] = np.median(runs, axis=0)
    return shares, curves


def _needed(shares: np.ndarray, curve: np.ndarray) -> float:
    """The share of different vertices seen when robust accuracy reaches 0.9."""
    at = float(np.interp(0.9, curve, shares))
    return 1 - float(np.exp(-at))


def _figure(shares: np.ndarray, curves: dict[int, np.ndarray], gap: float, eps: float) -> Figure:
    return Figure(
        "expressivity",
        "A line that is right and never robust",
        "Left: four positions, whose labels show in a narrow last coordinate (drawn to scale). The "
        "linear boundary is right and cuts through every ball of radius ε; the tinted cells are "
        "robust, but each must be learnt by itself. "
        "Right: robust accuracy needs a constant share of exponentially many vertices, whereas the "
        "multi-cluster task needs each of its ten clusters once.",
        (_picture(gap, eps), _needs(shares, curves)),
    )


def _picture(gap: float, eps: float) -> Plane:
    labels = np.array([1, -1, -1, 1])
    at = np.arange(len(labels), dtype=float)
    x = np.linspace(-0.6, len(labels) - 0.4, 161)
    zigzag = np.interp(x, at, labels.astype(float))
    up, down = labels > 0, labels < 0
    return Plane(
        Axis("position v"),
        Axis("last coordinate", range=(-1.2, 1.2)),
        points=(
            Points("class +", at[up], gap * labels[up], "decoupled", size=7),
            Points("class −", at[down], gap * labels[down], "averaged", "s", 7),
        ),
        contours=(
            Contour("nearest vertex: right and robust", x.tolist(), [-1.2, 1.2], [zigzag] * 2,
                    "neutral", fill=True),
            Contour("linear: right, never robust", [-0.6, len(labels) - 0.4], [-1.2, 1.2],
                    [[-1.2, -1.2], [1.2, 1.2]], "reference"),
        ),
        circles=tuple(
            Circle((v, gap * s), eps, "ε" if v == 0 else "") for v, s in zip(at, labels, strict=True)
        ),
        title="Right and robust are two things",
    )  # fmt: skip


def _needs(shares: np.ndarray, curves: dict[int, np.ndarray]) -> Lines:
    task = MultiCluster(k=10, d=3072)
    series = [
        Series(f"cube, d = {d}", np.maximum(shares * 2 ** (d - 1), 1.0), curve, "averaged",
               shade=i / (len(curves) - 1))
        for i, (d, curve) in enumerate(curves.items())
    ]  # fmt: skip
    n = np.geomspace(1, 2000, 40)
    # A cluster that was never drawn is a coin's toss, the others are robust.
    clusters = 1 - 0.5 * (1 - 1 / task.k) ** n
    series.append(Series("ten clusters, any d", n, clusters, "decoupled"))
    return Lines(
        Axis("training samples", log=True),
        Axis("robust accuracy that can be had", range=(0.45, 1.02)),
        tuple(series),
        title="What samples can teach",
    )


CLAIMS = (
    Claim(
        id="connections-expressivity",
        title="A line with perfect clean and zero robust accuracy, where a robust classifier exists",
        theme="Connections",
        statement="There is a task on which a linear classifier is right everywhere and robust "
        "nowhere, and a robust classifier exists, but only in families whose size is exponential in "
        "the dimension; feature averaging, in contrast, happens with polynomially many samples.",
        source="Talk, 'Connection to lower bound examples'; Li et al. 2022",
        measured="exact radii of the line and of the nearest-vertex classifier on all points of a "
        f"cube in d = 11 with gap {GAP:g}, and the samples that robust accuracy 0.9 takes for d = 7 "
        "to 13",
        run=expressivity,
        minutes=0.01,
    ),
)
