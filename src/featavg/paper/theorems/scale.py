"""Theorem 1 in its own regime at k = 5: 78,125 points in 9,765,625 dimensions, as a packed triangle.

The same run as `runs.theorem_run`, on a training set that is no longer a matrix. Behind its first columns a
compressed sample is lower triangular (see `compress`), so half of its matrix is zeros: 49 GB for n = 78,125 points,
12 as a triangle in float32. Blocks of rows that end at their last entry hold it nearly without loss, and both
products of a training step go through them one by one.

What single precision costs is measured at k = 4 on the same numbers in both precisions, and what the
flow's own tolerance costs at the smallest k, which is shown at one that changes nothing. The tolerances were
written before it was run.
"""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.linalg import solve_triangular

import featavg
from featavg.data.clusters import MultiCluster, Sample
from featavg.data.compress import fill_bartlett
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.machine import available_bytes, readable, require
from featavg.measures.accuracy import accuracy
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer, binary
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import run_folder
from featavg.paper.theorems.runs import SAMPLES_POWER, SWEEP_TOLERANCE, theorem_recipe
from featavg.progress import Progress, part, silent
from featavg.storage.files import dumps, write
from featavg.storage.reading import read_json
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses import Logistic
from featavg.training.objectives import TwoLayerEvaluation
from featavg.training.parts import Loss, Params

# Rows in a block: large enough for BLAS, small enough to waste little above the diagonal.
ROWS = 512
Precision = Literal["float32", "float64"]


@dataclass(frozen=True, eq=False)
class PackedTriangle:
    """n rows that are lower triangular behind their first `before` columns.

    Each block of rows ends at the diagonal entry of its last row. Products are computed in the
    precision of the blocks and added up in float64.
    """

    blocks: tuple[Float[ndarray, "_ _"], ...]
    before: int

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """The row after the last of each block."""
        return tuple(int(end) for end in np.cumsum([len(block) for block in self.blocks]))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), as of the whole matrix."""
        return self.ends[-1], self.before + self.ends[-1]

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The precision of the blocks."""
        return self.blocks[0].dtype

    def astype(self, precision: Precision) -> PackedTriangle:
        """The same numbers in another precision."""
        return PackedTriangle(tuple(b.astype(precision) for b in self.blocks), self.before)

    def _parts(self) -> Iterator[tuple[ndarray, int, int]]:
        for block, end in zip(self.blocks, self.ends, strict=True):
            yield block, end - len(block), end

    def times(self, weights: Float[ndarray, "M N"]) -> Float[ndarray, "n M"]:
        """The products X W^T with some weights."""
        scale = float(np.abs(weights).max()) or 1.0
        given = np.ascontiguousarray((weights / scale).T, dtype=self.dtype)
        products = np.empty((self.shape[0], len(weights)))
        for block, start, end in self._parts():
            products[start:end] = block @ given[: block.shape[1]]
        return products * scale

    def gathered(self, slopes: Float[ndarray, "n M"]) -> Float[ndarray, "M N"]:
        """The sums S^T X over the points."""
        # Slopes shrink with the loss, far below what single precision can hold: relative to the largest.
        scale = float(np.abs(slopes).max()) or 1.0
        given = np.ascontiguousarray((slopes / scale).T, dtype=self.dtype)
        total = np.zeros((slopes.shape[1], self.shape[1]))
        for block, start, end in self._parts():
            total[:, : block.shape[1]] += given[:, start:end] @ block
        return total * scale

    def coefficients(self, vectors: Float[ndarray, "M N"]) -> Float[ndarray, "M n"]:
        """c with c X = v behind the first columns: one solve with the triangle, from its end."""
        left = vectors[:, self.before :].copy()
        solved = np.zeros_like(left)
        for block, start, end in reversed(list(self._parts())):
            square = block[:, self.before + start :].astype(np.float64)
            part = solve_triangular(square, left[:, start:end].T, lower=True, trans="T").T
            solved[:, start:end] = part
            front = block[:, self.before : self.before + start]
            left[:, :start] -= part.astype(self.dtype) @ front
        return solved

    def first(self, columns: int) -> Float[ndarray, "n columns"]:
        """The first columns, which are full."""
        return np.concatenate([block[:, :columns] for block in self.blocks]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PackedSet:
    """A compressed training set as a packed triangle; `TrainingSet` is the same as a matrix."""

    task: MultiCluster
    seed: int
    x: PackedTriangle
    clusters: Int[ndarray, " n"]
    unit_weights: Float[ndarray, "M N"]  # standard normal, zero behind the first columns

    @property
    def y(self) -> Int[ndarray, " n"]:
        """The class of each point, +1 or -1."""
        return self.task.cluster_labels[self.clusters]

    @property
    def features(self) -> Float[ndarray, "k N"]:
        """The features in the same coordinates."""
        return self.task.features_in(self.x.shape[1])


def packed_bytes(task: MultiCluster, n: int, neurons: int, precision: Precision = "float32") -> int:
    """Bytes that training on a packed set takes at its peak, from its shapes alone.

    The triangle, what blocks hold above it, and a dozen arrays of the size of the weights and of the
    pre-activations in float64 (states, stages of the stepper, gradients).
    """
    before, size = task.k + neurons, np.dtype(precision).itemsize
    triangle = size * (n * before + n * (n + 1) // 2 + n * ROWS // 2)
    return int(triangle + 8 * 16 * neurons * (2 * n + before))


def draw_packed(task: MultiCluster, n: int, neurons: int, seed: int, precision: Precision = "float32") -> PackedSet:
    """A training set with the law of `draw(..., coordinates="compressed")`, from other draws.

    >>> data = draw_packed(MultiCluster(k=4, d=10**6), n=600, neurons=4, seed=0)
    >>> data.x.shape, [len(block) for block in data.x.blocks]
    ((600, 608), [512, 88])
    """
    require(packed_bytes(task, n, neurons, precision), "n", "lower n, or use single precision")
    before = task.k + neurons
    weights = np.zeros((neurons, before + n))
    fill_bartlett(weights, task.k, task.d, stream(seed, "weights"))
    clusters = Sample(task, n, seed, purpose="train").clusters
    random = stream(seed, "packed-noise")
    lengths = np.sqrt(random.chisquare(task.d - before - np.arange(n, dtype=float)))
    blocks = []
    for start in range(0, n, ROWS):
        end = min(start + ROWS, n)
        block = np.empty((end - start, before + end), dtype=precision)
        random.standard_normal(out=block, dtype=precision)
        square = block[:, before + start :]
        square[...] = np.tril(square, -1)
        np.fill_diagonal(square, lengths[start:end])
        block *= task.sigma
        block[:, : task.k] += task.alpha * task.features[clusters[start:end]]
        blocks.append(block)
    return PackedSet(task, seed, PackedTriangle(tuple(blocks), before), clusters, weights)


@dataclass(frozen=True, eq=False)
class PackedObjective:
    """`TwoLayerObjective` for points that are held as a triangle; one network, not a batch."""

    blocks: PackedTriangle
    targets: Int[ndarray, " n"]
    net: TwoLayer
    loss: Loss
    trainable: Sequence[str] = ("weights", "biases")

    def __post_init__(self) -> None:
        points, columns = self.blocks.shape
        if self.targets.shape != (points,):
            raise InputError("targets", f"have shape {self.targets.shape}", "give one per point")
        if self.net.batch or columns != self.net.dimension:
            raise InputError("net", f"reads {self.net.dimension}", f"the points have {columns}")
        self.loss.check_targets(self.targets, self.net.outputs)

    @property
    def data(self) -> Sequence[ndarray]:
        """The blocks and the targets."""
        return (*self.blocks.blocks, self.targets)

    def net_with(self, params: Params) -> TwoLayer:
        """The network that has these trainable arrays."""
        return self.net.with_arrays(dict(zip(self.trainable, params, strict=True)))

    def evaluate(self, params: Params) -> TwoLayerEvaluation:
        """Forward pass."""
        net = self.net_with(params)
        z = self.blocks.times(net.weights) + net.biases
        outputs = np.maximum(z, 0.0) @ net.head.T
        return TwoLayerEvaluation(self, net, z, self.loss(outputs, self.targets))


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
    horizontal = Axis("clusters k", ticks=k)
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
