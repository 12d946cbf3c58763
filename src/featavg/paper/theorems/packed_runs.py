"""Theorem 1 in its own regime at k = 5: 78,125 points in 9,765,625 dimensions, as a packed triangle.

The same run as `theorem_runs.theorem_run`, on a training set that is no matrix any more. Single
precision is what makes it fit; what that costs is measured at k = 4 on the same numbers in both.
"""

from __future__ import annotations

import math
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

import featavg
from featavg.data.clusters import MultiCluster
from featavg.data.memory import readable
from featavg.data.streams import stream
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.measures.accuracy import accuracy
from featavg.measures.alignment import neuron_signs
from featavg.nets.two_layer import TwoLayer, binary
from featavg.paper.theorems.packed import PackedSet, Precision, draw_packed, packed_bytes
from featavg.paper.theorems.packed_objective import PackedObjective
from featavg.paper.theorems.theorem_runs import SAMPLES_POWER, SWEEP_TOLERANCE, theorem_recipe
from featavg.progress import Progress, part, silent
from featavg.storage.files import dumps, write
from featavg.storage.reading import read_json
from featavg.training.driver import SaveAt, Stop, run
from featavg.training.losses.logistic import Logistic

# A fresh point has N coordinates: few at a time.
USUAL_STEPS = 27  # of gradient flow to eta T = k^8, at every k: for estimates of the time left
TESTS_TOGETHER = 200


@dataclass(frozen=True)
class ScaleRun:
    """One run of Theorem 1 on a packed set, in numbers.

    Attributes:
        lam: mean coefficient of the features of a neuron's class; smallest, largest: of all.
        across: largest |coefficient| of a feature of the other class.
        deviation: sqrt(d) max_r |w_r - lambda sum mu/|mu|^2| / lambda at the end.
        worst: the largest sqrt(d) max_r |w_r - lambda sum mu/|mu|^2| of all times eta T >= 1.
        bias: largest |b|.
        errors, tests: fresh points decided wrongly, and of how many.
        steps: of the gradient flow.
        seconds: of drawing and training.
        expected_bytes, peak_bytes: what was printed beforehand, and the most the process held.
    """

    k: int
    d: int
    n: int
    seed: int
    precision: str
    lam: float
    smallest: float
    largest: float
    across: float
    deviation: float
    worst: float
    bias: float
    errors: int
    tests: int
    steps: int
    seconds: float
    expected_bytes: int
    peak_bytes: int


@dataclass(frozen=True, eq=False, repr=False)
class TheoremScale(Result):
    """Runs at growing k in single precision, and one of them in double precision beside it.

    Attributes:
        runs: in single precision, one for each k.
        twin: the run at the last k but one on the same numbers in double precision.

    Returned by `fa.theorem_scale`, which has an example.
    """

    runs: tuple[ScaleRun, ...]
    twin: ScaleRun

    @property
    def precision_error(self) -> float:
        """Largest relative difference that single precision makes to lambda and the distances."""
        single = next(run for run in self.runs if run.k == self.twin.k)
        names = ("lam", "smallest", "largest", "deviation", "worst")
        return max(abs(getattr(single, n) / getattr(self.twin, n) - 1.0) for n in names)

    def figure(self) -> Figure:
        """Deviation and coefficients against k."""
        k = [run.k for run in self.runs]
        axis = Axis("clusters k", ticks=k, tick_labels=tuple(map(str, k)))
        worst = Series("√d |w − ideal|", k, [r.worst for r in self.runs], "averaged")
        off = Series("the same over λ", k, [r.deviation for r in self.runs], "averaged", "dotted")
        spread = Series(
            "largest / smallest λ − 1",
            k,
            [max(r.largest / r.smallest - 1.0, 1e-12) for r in self.runs],
            "averaged",
            "dashed",
        )
        return Figure(
            "theorem-scale",
            "Theorem 1 in its own regime, up to 78,125 points in 9,765,625 dimensions",
            "Distance of the weights from the average, the worst neuron at the worst time from ηT = 1 on; "
            "the same in units of λ at the end; and the spread of the coefficients inside a class, for "
            "d = k¹⁰, n = k⁷; one seed each.",
            (Lines(axis, Axis("distance", log=True), (worst, off, spread)),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number."""
        return {
            "runs": [asdict(each) for each in self.runs],
            "twin": asdict(self.twin),
            "precision_error": self.precision_error,
        }

    def summary(self) -> str:
        """One line for each k."""
        lines = [
            "Theorem 1, packed in single precision: k, n, λ, √d |w − ideal|, seconds, peak memory"
        ]
        for r in self.runs:
            lines.append(
                f"  {r.k}  {r.n:>7,}  {r.lam:7.3f}  {r.worst:.4f}  {r.seconds:7.1f} s  "
                f"{readable(r.peak_bytes)}"
            )
        lines.append(
            f"  single against double precision at k = {self.twin.k}: {self.precision_error:.1e}"
        )
        return "\n".join(lines)


def theorem_scale(
    clusters: tuple[int, ...] = (3, 4, 5),
    seed: int = 0,
    store: str | Path | None = None,
    progress: Progress = silent,
) -> TheoremScale:
    """Run Theorem 1 at each k in single precision, and the last k but one in double precision too.

    Args:
        clusters: values of k, growing; k = 5 takes 12 GB and a quarter of an hour.
        seed: of the sample and the initialisation.
        store: folder for finished runs, which are then not done again.

    >>> import featavg as fa  # needs a minute
    >>> study = fa.theorem_scale(clusters=(3,))
    """
    doubled = clusters[max(len(clusters) - 2, 0)]
    planned: list[tuple[int, Precision]] = []
    for k in clusters:
        planned += [(k, "float32"), (k, "float64")] if k == doubled else [(k, "float32")]
    # A step reads the triangle of n^2 / 2 numbers.
    ends_at = np.cumsum([float(k) ** (2 * SAMPLES_POWER) for k, _ in planned])
    ends_at /= ends_at[-1]
    done = [
        _kept_or_run(k, seed, precision, store, part(progress, start, end))
        for (k, precision), start, end in zip(planned, [0.0, *ends_at], ends_at, strict=False)
    ]
    twin = done.pop(planned.index((doubled, "float64")))
    return TheoremScale(tuple(done), twin)


def _kept_or_run(
    k: int, seed: int, precision: Precision, store: str | Path | None, progress: Progress
) -> ScaleRun:
    """A run, or what an earlier one of the same version left."""
    name = f"theorem-scale-{featavg.__version__}-k{k}-seed{seed}-{precision}.json"
    path = None if store is None else Path(store) / name
    if path is not None and path.exists():
        return ScaleRun(**read_json(path))
    data, expected, seconds = drawn(k, seed)
    progress(0.0, f"k = {k}: {readable(data.x.nbytes)} drawn in {seconds:.0f} s")
    if precision == "float64":  # the same numbers, so that only the arithmetic differs
        x = data.x.astype("float64")
        data = PackedSet(data.task, seed, x, data.clusters, data.unit_weights)
    done = scale_run(data, expected, seconds, progress)
    if path is not None:
        write(path, dumps(asdict(done)))
    return done


def drawn(k: int, seed: int) -> tuple[PackedSet, int, float]:
    """The training set of the regime at k, the bytes that training will take, seconds of drawing.

    The bytes are said before anything is drawn, on the standard error stream.
    """
    task, n, neurons = MultiCluster(k=k, d=k**10), k**SAMPLES_POWER, 2 * k
    expected = packed_bytes(task, n, neurons)
    if expected > 1e9:
        print(f"k = {k}: n = {n:,}, up to {readable(expected)} of memory.", file=sys.stderr)
    start = perf_counter()
    return draw_packed(task, n, neurons, seed), expected, perf_counter() - start


def scale_run(
    data: PackedSet,
    expected: int,
    seconds: float = 0.0,
    progress: Progress = silent,
    tests: int = 2000,
) -> ScaleRun:
    """Gradient flow on class labels up to eta T = k^8, and the numbers of `ScaleRun`."""
    task = data.task
    recipe = theorem_recipe("coarse", task.k, task.d, SWEEP_TOLERANCE)
    biases = recipe.sigma_b * stream(data.seed, "biases").standard_normal(len(data.unit_weights))
    initial = binary(recipe.sigma_w * data.unit_weights, biases)
    objective = PackedObjective(data.x, data.y, initial, Logistic())
    start = perf_counter()
    done = run(
        objective,
        (initial.weights, initial.biases),
        stepper=recipe.chosen_stepper,
        controller=recipe.chosen_controller,
        stop=Stop(recipe.steps, log_time=math.log(recipe.time)),
        save_at=SaveAt(per_decade=1),
        progress=lambda share, note: progress(min(share * recipe.steps / USUAL_STEPS, 1.0), note),
    )
    knows = neuron_signs(initial)[:, None] == task.cluster_labels[None, :]
    distances = []
    for save in np.flatnonzero(done.log_times >= 0):  # the theorem speaks from eta T = 1 on
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
    return ScaleRun(
        task.k,
        task.d,
        len(data.clusters),
        data.seed,
        str(data.x.dtype),
        lam,
        float(lambdas[knows].min()),
        float(lambdas[knows].max()),
        float(np.abs(lambdas[~knows]).max()),
        distances[-1] / lam,
        max(distances),
        float(np.abs(net.biases).max()),
        wrong,
        tests,
        int(done.steps[-1]),
        seconds + perf_counter() - start,
        expected,
        # Kilobytes on Linux, bytes on macOS.
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        * (1 if sys.platform == "darwin" else 1024),
    )


def packed_coefficients(net: TwoLayer, initial: TwoLayer, data: PackedSet) -> Float[ndarray, "M k"]:
    """lambda of Lemma 1, as `measures.decomposition.projected_coefficients` has it of a matrix."""
    task = data.task
    moved = net.weights - initial.weights
    tail = data.x.coefficients(moved)
    noise = data.x.first(task.k) - task.alpha * task.features[data.clusters]
    rest = moved[:, : task.k] - tail @ noise
    lambdas: ndarray = np.linalg.solve(task.features.T, rest.T).T * np.diag(task.gram_matrix)
    return lambdas
