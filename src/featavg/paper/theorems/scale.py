"""Theorem 1 in its own regime at k = 5: 78,125 points in 9,765,625 dimensions, as a packed triangle.

The same run as `runs.theorem_run`, on a training set that is no longer a matrix. Single precision is
what makes it fit; what that costs is measured at k = 4 on the same numbers in both precisions, and what the
flow's own tolerance costs at the smallest k, which is shown at one that changes nothing. The tolerances were
written before it was run.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from jaxtyping import Float
from numpy import ndarray

import featavg
from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.machine import available_bytes, readable
from featavg.measures.accuracy import accuracy
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer, binary
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import run_folder
from featavg.paper.theorems.packed import PackedObjective, PackedSet, Precision, draw_packed, packed_bytes
from featavg.paper.theorems.runs import SAMPLES_POWER, SWEEP_TOLERANCE, theorem_recipe
from featavg.progress import Progress, part, silent
from featavg.storage.files import dumps, write
from featavg.storage.reading import read_json
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import Logistic

# At k = 3 lambda is 17.668 at 1e-3, 17.568 at 1e-4, and 17.563 at 1e-5.
TIGHT = 1e-5
USUAL_STEPS = 27  # of gradient flow to eta T = k^8, at every k: for estimates of the time left
# A fresh point has N coordinates: few at a time.
TESTS_TOGETHER = 200


@dataclass(frozen=True)
class ScaleRun:
    """One run of Theorem 1 on a packed set, in numbers."""

    k: int
    d: int
    n: int
    seed: int
    precision: str
    lam: float  # mean coefficient of the features of a neuron's class
    smallest: float
    largest: float
    across: float  # largest |coefficient| of a feature of the other class
    deviation: float  # sqrt(d) max_r |w_r - lambda sum mu/|mu|^2| / lambda at the end
    worst: float  # the largest sqrt(d) max_r |w_r - lambda sum mu/|mu|^2| of all times eta T >= 1
    bias: float  # largest |b|
    errors: int  # of `tests` fresh points
    tests: int
    steps: int
    seconds: float  # of drawing and training
    expected_bytes: int  # printed before the run
    peak_bytes: int  # the most the process held
    tolerance: float = SWEEP_TOLERANCE  # of the gradient flow


def theorem_scale(
    clusters: Sequence[int], seed: int = 0, store: Path | None = None, progress: Progress = silent
) -> tuple[list[ScaleRun], ScaleRun, ScaleRun]:
    """Runs each k in single precision, the last k but one in double precision too, the first k tightly too.

    Finished runs are kept in `store` and not repeated.
    """
    doubled = clusters[max(len(clusters) - 2, 0)]
    planned: list[tuple[int, Precision, float]] = [(k, "float32", SWEEP_TOLERANCE) for k in clusters]
    planned += [(doubled, "float64", SWEEP_TOLERANCE), (clusters[0], "float32", TIGHT)]
    # A step reads the triangle of n^2 / 2 numbers.
    ends_at = np.cumsum([float(k) ** (2 * SAMPLES_POWER) for k, *_ in planned])
    ends_at /= ends_at[-1]
    done = [
        _kept_or_run(*plan, seed, store, part(progress, start, end))
        for plan, start, end in zip(planned, [0.0, *ends_at], ends_at, strict=False)
    ]
    return done[:-2], done[-2], done[-1]


def _kept_or_run(
    k: int, precision: Precision, tolerance: float, seed: int, store: Path | None, progress: Progress
) -> ScaleRun:
    """A run, or what an earlier one of the same version left."""
    words = f"{featavg.__version__}-k{k}-seed{seed}-{precision}-{tolerance:g}"
    path = None if store is None else store / f"theorem-scale-{words}.json"
    if path is not None and path.exists():
        return ScaleRun(**read_json(path))
    task, n, neurons = MultiCluster(k=k, d=k**10), k**SAMPLES_POWER, 2 * k
    expected, start = packed_bytes(task, n, neurons), perf_counter()
    if expected > 1e9:
        print(f"k = {k}: n = {n:,}, up to {readable(expected)} of memory.", file=sys.stderr)
    data = draw_packed(task, n, neurons, seed)
    seconds = perf_counter() - start
    progress(0.0, f"k = {k}: {readable(data.x.nbytes)} drawn in {seconds:.0f} s")
    if precision == "float64":  # the same numbers, so that only the arithmetic differs
        x = data.x.astype("float64")
        data = PackedSet(data.task, seed, x, data.clusters, data.unit_weights)
    done = scale_run(data, expected, seconds, progress, tolerance=tolerance)
    if path is not None:
        write(path, dumps(asdict(done)))
    return done


def scale_run(
    data: PackedSet,
    expected: int,
    seconds: float = 0.0,
    progress: Progress = silent,
    tests: int = 2000,
    tolerance: float = SWEEP_TOLERANCE,
) -> ScaleRun:
    """Gradient flow on class labels up to eta T = k^8, and the numbers of `ScaleRun`."""
    task = data.task
    recipe = theorem_recipe("coarse", task.k, task.d, tolerance)
    biases = recipe.sigma_b * stream(data.seed, "biases").standard_normal(len(data.unit_weights))
    initial = binary(recipe.sigma_w * data.unit_weights, biases)
    start = perf_counter()
    done = run(
        PackedObjective(data.x, data.y, initial, Logistic()),
        (initial.weights, initial.biases),
        stepper=recipe.chosen_stepper,
        controller=recipe.chosen_controller,
        stop=Stop(recipe.steps, log_time=math.log(recipe.time)),
        save_at=SaveAt(per_decade=1),
        progress=lambda share, note: progress(min(share * recipe.steps / USUAL_STEPS, 1.0), note),
    )
    knows = neuron_signs(initial)[:, None] == task.cluster_labels[None, :]
    distances = []
    for save in np.flatnonzero(done.log_times >= 0):  # the times of the theorem
        net = done.at(int(save))
        assert isinstance(net, TwoLayer)
        lambdas = packed_coefficients(net, initial, data)
        lam = float(lambdas[knows].mean())
        ideal = lam * knows @ (data.features / task.d)
        off = np.linalg.norm(net.weights - ideal, axis=-1).max()
        distances.append(float(math.sqrt(task.d) * off))
    wrong = 0
    for first in range(0, tests, TESTS_TOGETHER):
        right = accuracy(net, task.sample(min(TESTS_TOGETHER, tests - first), data.seed + first))
        wrong += round((1 - right.value) * right.n)
    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, kilobytes on Linux
    return ScaleRun(
        k=task.k, d=task.d, n=len(data.clusters), seed=data.seed, precision=str(data.x.dtype),
        lam=lam, smallest=float(lambdas[knows].min()), largest=float(lambdas[knows].max()),
        across=float(np.abs(lambdas[~knows]).max()), deviation=distances[-1] / lam, worst=max(distances),
        bias=float(np.abs(net.biases).max()), errors=wrong, tests=tests, steps=int(done.steps[-1]),
        seconds=seconds + perf_counter() - start, expected_bytes=expected,
        peak_bytes=unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, tolerance=tolerance,
    )  # fmt: skip


def packed_coefficients(net: TwoLayer, initial: TwoLayer, data: PackedSet) -> Float[ndarray, "M k"]:
    """lambda of Lemma 1, as `measures.decomposition.projected_coefficients` has it of a matrix."""
    task = data.task
    moved = net.weights - initial.weights
    tail = data.x.coefficients(moved)
    noise = data.x.first(task.k) - task.alpha * task.features[data.clusters]
    rest = moved[:, : task.k] - tail @ noise
    lambdas: ndarray = np.linalg.solve(task.features.T, rest.T).T * np.diag(task.gram_matrix)
    return lambdas


def difference(one: ScaleRun, other: ScaleRun) -> float:
    """The largest relative difference of lambda and the distances between two runs."""
    names = ("lam", "smallest", "largest", "deviation", "worst")
    return max(abs(getattr(one, name) / getattr(other, name) - 1.0) for name in names)


def figure(runs: Sequence[ScaleRun]) -> Figure:
    """Deviation and coefficients against k."""
    k = [one.k for one in runs]
    spread = [max(one.largest / one.smallest - 1.0, 1e-12) for one in runs]
    lines = (
        Series("√d |w − ideal|", k, [one.worst for one in runs], "averaged"),
        Series("the same over λ", k, [one.deviation for one in runs], "averaged", "dotted"),
        Series("largest / smallest λ − 1", k, spread, "averaged", "dashed"),
    )
    horizontal = Axis("clusters k", ticks=k, tick_labels=tuple(map(str, k)))
    return Figure(
        "theorem-scale",
        "Theorem 1 in its own regime, up to 78,125 points in 9,765,625 dimensions",
        "Distance of the weights from the average, the worst neuron at the worst time from ηT = 1 on; "
        "the same in units of λ at the end; and the spread of the coefficients inside a class, for "
        "d = k¹⁰, n = k⁷; one seed each.",
        (Lines(horizontal, Axis("distance", log=True), lines),),
    )


@claim(
    "theorem-1-scale", "Theorem 1 in its own regime, up to ten million dimensions",
    theme="Theorem 1: averaging", source="arXiv 2410.10322, Theorem 1, parts 1 and 2",
    measured="√d times that distance at all times ηT from 1 to k⁸, k = 3, 4 and 5, by gradient flow on "
    "a packed triangle in single precision (12 GB at k = 5), k = 4 in double precision too; one seed",
    tier="full", minutes=25, seeds=1, statements=("notes-theorem-1", "abstract-proof",),
)  # fmt: skip
def scale(settings: Context, clusters: tuple[int, ...] = (3, 4, 5)) -> Evidence:
    """With n = k⁷ samples in d = k¹⁰ dimensions |w<sub>s,r</sub> − λ Σ<sub>j∈J<sub>s</sub></sub>
    μ<sub>j</sub>/|μ<sub>j</sub>|²| = o(d<sup>−1/2</sup>) for all T ≥ 1/η: at k = 5 closer than at
    k = 4, and the clean accuracy is perfect.
    """
    store = run_folder(settings)
    runs, twin, tight = theorem_scale(clusters, settings.seeds[0], store, settings.progress)
    last, before = runs[-1], runs[-2]
    rounding = difference(next(one for one in runs if one.k == twin.k), twin)
    flowing, runs = difference(runs[0], tight), [tight, *runs[1:]]
    return Evidence(
        Check(f"√d |w − ideal|, largest at any time: k = {last.k} over k = {before.k}",
              last.worst / before.worst, "<=", 0.8, role="main",
              note="o(1), absolute: it falls as k grows"),
        Check(f"√d |w − ideal| / λ, k = {last.k}", last.deviation, "<=", 0.06),
        Check(f"largest over smallest λ inside a class, k = {last.k}", last.largest / last.smallest, "<=", 1.02),
        Check(f"largest |bias|, k = {last.k}", last.bias, "<=", 0.001),
        Check(f"fresh points decided wrongly, of {last.tests:,}", last.errors, "<=", 0),
        Check(f"single against double precision at k = {twin.k}, largest relative difference",
              rounding, "<=", 1e-3),
        Check(f"flow's tolerance of {SWEEP_TOLERANCE:g} against {TIGHT:g} at k = {tight.k}, largest relative "
              "difference", flowing, "<=", 0.02, role="note"),
        Check("memory at the peak over what was said beforehand", last.peak_bytes / last.expected_bytes,
              "<=", 1.2, role="note"),
        figure=figure(runs),
        numbers={"runs": runs, "twin": twin, "precision_error": rounding, "tolerance_error": flowing,
                 "available_bytes": available_bytes()},
        finding=f"At k = {last.k}, with {last.n:,} points in {last.d:,} dimensions, √d |w − ideal| is at most "
        f"{last.worst:.2f} (k = {before.k}: {before.worst:.2f}), {last.deviation:.1%} of "
        f"λ = {last.lam:.1f}, in {last.steps} steps of gradient flow, {last.seconds / 60:.0f} min and "
        f"{readable(last.peak_bytes)} of memory. Single precision changes k = {twin.k} by {rounding:.0e}, and a "
        f"flow tolerance of {TIGHT:g} changes k = {tight.k} by {flowing:.1%}.",
        seconds=sum(one.seconds for one in (*runs, twin)),
    )  # fmt: skip
