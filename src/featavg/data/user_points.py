"""Points and matrices of the user's own, read from files and checked before anything is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy import ndarray

from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.machine import available_bytes
from featavg.storage.reading import ARRAY_LIMIT, read_arrays, read_json, read_text


def read_npz(path: Path, example: str, argument: str = "data") -> dict[str, ndarray]:
    """All arrays of a file by name.

    The sizes are read from the headers first: a file of kilobytes can unpack to more than the
    machine has. Objects are refused, because unpickling them could run code.

    Args:
        example: what the file should hold, as arguments of `numpy.savez`.
    """
    remedy = f"write it with numpy.savez(file, {example})"
    try:
        arrays = read_arrays(path, available_bytes() or ARRAY_LIMIT)
    except InputError as error:
        raise InputError(argument, f"({path}) {error.problem}", remedy) from None
    if set(arrays) == {""}:
        raise InputError(argument, f"({path}) is one array without a name", remedy)
    return arrays


@dataclass(frozen=True, eq=False)
class OwnPoints:
    """Labelled points and the task they come closest to.

    Attributes:
        x, clusters: the training points and the cluster of each.
        means: the features, measured: the mean of each cluster.
        task: the multi-cluster task with these means' Gram matrix and the clusters' shares.
        x_test, clusters_test: fresh points, if the file has any.
    """

    x: Float[ndarray, "n d"]
    clusters: Int[ndarray, " n"]
    means: Float[ndarray, "k d"]
    task: MultiCluster
    x_test: Float[ndarray, "t d"] | None = None
    clusters_test: Int[ndarray, " t"] | None = None


def own_points(path: Path, positive: int | Sequence[int] | ndarray | None = None) -> OwnPoints:
    """Read an npz file with `x` (n x d), `clusters` (n numbers 0..k-1) and perhaps more.

    Args:
        path: the file. It may also have `positive` (the positive clusters, as indices or as k truth
            values) and `x_test`, `clusters_test`.
        positive: the positive clusters, where the file does not say.
    """
    arrays = read_npz(path, "x=..., clusters=...")
    for name in ("x", "clusters"):
        if name not in arrays:
            raise _bad(path, f"has no array {name}", "save it with x and clusters")
    x, clusters = _points(path, arrays, "x"), _labels(path, arrays, "clusters", len(arrays["x"]))
    means, task = _nearest_task(path, x, clusters, _positive(path, arrays, positive))
    k = task.k
    if "x_test" not in arrays:
        return OwnPoints(x, clusters, means, task)
    x_test = _points(path, arrays, "x_test")
    if x_test.shape[1] != x.shape[1]:
        problem = f"has {x_test.shape[1]} columns in x_test and {x.shape[1]} in x"
        raise _bad(path, problem, "give both the same")
    clusters_test = _labels(path, arrays, "clusters_test", len(x_test), k)
    return OwnPoints(x, clusters, means, task, x_test, clusters_test)


def _nearest_task(
    path: Path | None, x: Float[ndarray, "n d"], clusters: Int[ndarray, " n"], positive: Any
) -> tuple[Float[ndarray, "k d"], MultiCluster]:
    """The means of the clusters, and the task that has them for features."""
    k = int(clusters.max()) + 1
    if k == 1:
        raise _bad(path, "has one cluster", "give at least two, one for each class")
    counts = np.bincount(clusters, minlength=k)
    if not counts.all():
        remedy = f"number the clusters 0..{k - 1} without a gap"
        raise _bad(path, f"has no point of cluster {int(np.argmin(counts))} in clusters", remedy)
    means = np.stack([x[clusters == j].mean(axis=0) for j in range(k)])
    lengths = np.linalg.norm(means, axis=1)
    if not lengths.all():
        problem = f"has a cluster ({int(np.argmin(lengths))}) whose points average to zero"
        raise _bad(path, problem, "a feature needs a direction, shift or split the cluster")
    gram = means @ means.T
    shares = (counts / counts.sum()).tolist()
    options = {"positive": positive, "probabilities": shares, "gram": (gram + gram.T) / 2}
    return means, MultiCluster(k=k, d=x.shape[1], **options)


def labelled_points(x: ndarray, y: Any, fine: Any = None) -> tuple[OwnPoints, Bool[ndarray, " n"] | None]:
    """Points with their classes and, if they are known, their clusters.

    Args:
        x: one row per point.
        y: the class of each point: -1 and 1, or 0 and 1.
        fine: the cluster of each point, 0..k-1, or -1 or NaN where only the class is known.

    Returns:
        The points, those without a cluster under one of their class, and which have one; None if
        there are no clusters but the two classes.
    """
    x = _points(None, {"x": np.asarray(x)}, "x")
    y = np.asarray(y)
    if y.shape != x.shape[:1] or set(np.unique(y)) not in ({-1, 1}, {0, 1}):
        remedy = f"give two classes as -1 and 1 (or 0 and 1), one for each of the {len(x)} points"
        problem = "is missing" if y.ndim == 0 else f"has shape {y.shape} and type {y.dtype}"
        raise InputError("y", problem, remedy)
    if fine is None:
        clusters = np.where(y > 0, 0, 1)
        means, task = _nearest_task(None, x, clusters, [True, False])
        return OwnPoints(x, clusters, means, task), None
    fine = np.asarray(fine)
    fine = np.where(np.isnan(fine), -1, fine) if fine.dtype.kind == "f" else fine
    if fine.shape == y.shape and np.all(fine == -1):
        raise InputError("fine", "is -1 everywhere", "leave it out, or give some clusters")
    known = fine != -1 if fine.shape == y.shape else np.ones(len(y), dtype=bool)
    given = fine[known] if fine.shape == y.shape else fine
    clusters = _labels(None, {"fine": given}, "fine", int(known.sum()))
    k = int(clusters.max()) + 1
    positive = np.array([bool(np.any(y[known][clusters == j] > 0)) for j in range(k)])
    if np.any(positive[clusters] != (y[known] > 0)):
        bad = int(clusters[positive[clusters] != (y[known] > 0)][0])
        raise InputError("fine", f"puts cluster {bad} into both classes", "make it finer")
    if len(set(y[known])) < 2:
        raise InputError("fine", "names clusters of one class alone", "give some of the other class, or leave it out")
    if not (counts := np.bincount(clusters)).all():
        remedy = f"number the clusters 0..{k - 1} without a gap"
        raise InputError("fine", f"names no point of cluster {int(np.argmin(counts))}", remedy)
    means, task = _nearest_task(None, x[known], clusters, positive)
    first = {sign: int(np.flatnonzero(positive == sign)[0]) for sign in (True, False)}
    whole = np.where(y > 0, first[True], first[False])
    whole[known] = clusters
    return OwnPoints(x, whole, means, task), known


def training_set(own: OwnPoints, neurons: int, seeds: Sequence[int]) -> TrainingSet:
    """The points with random directions; several seeds look at the same points."""
    normal = [stream(s, "weights").standard_normal((neurons, own.task.d)) for s in seeds]
    if len(seeds) == 1:
        return TrainingSet(own.task, tuple(seeds), own.x, own.clusters, normal[0], "ambient")
    x = np.broadcast_to(own.x, (len(seeds), *own.x.shape))
    clusters = np.broadcast_to(own.clusters, (len(seeds), len(own.clusters)))
    return TrainingSet(own.task, tuple(seeds), x, clusters, np.stack(normal), "ambient")


@public
def read_labelled(path: Path) -> tuple[Float[ndarray, "n d"], Int[ndarray, " n"]]:
    """Points `x` (n x d) and labels `y` (-1 and +1) from an npz file.

    Args:
        path: the file; arrays of objects in it are refused.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import featavg as fa
    >>> path = Path(tempfile.mkdtemp()) / "points.npz"
    >>> np.savez(path, x=np.eye(4), y=[1, 1, -1, -1])
    >>> x, y = fa.read_labelled(path)
    >>> x.shape, y.tolist()
    ((4, 4), [1, 1, -1, -1])
    """
    arrays = read_npz(path, "x=..., y=...")
    for name in ("x", "y"):
        if name not in arrays:
            raise _bad(path, f"has no array {name}", "save it with x and y")
    x, y = _points(path, arrays, "x"), arrays["y"]
    if y.shape != (len(x),) or not np.isin(y, (-1, 1)).all():
        problem = f"has y of shape {y.shape} and type {y.dtype}"
        raise _bad(path, problem, f"give -1 or +1 for each of the {len(x)} points")
    return x, y.astype(np.int64)


def read_matrix(path: Path, argument: str) -> Float[ndarray, "r c"]:
    """A matrix from a .npy, .json or .csv file."""
    try:
        if path.suffix == ".npy":
            values: Any = read_arrays(path)[""]
        elif path.suffix == ".json":
            values = read_json(path)
        elif path.suffix in (".csv", ".txt"):
            delimiter = "," if path.suffix == ".csv" else None
            # What follows a # is a comment, as np.savetxt writes its header.
            rows = (line.partition("#")[0] for line in read_text(path).split("\n"))
            values = [row.split(delimiter) for row in rows if row.strip()]
        else:
            remedy = "name a .npy, .json, .csv or .txt file"
            raise InputError(argument, f"({path}) has no ending that tells its format", remedy)
        matrix = np.asarray(values, dtype=float)
    except InputError as error:
        if error.argument != str(path):
            raise
        raise InputError(argument, f"({path}) {error.problem}", error.remedy) from None
    except (ValueError, TypeError, KeyError):
        problem = f"({path}) does not hold a matrix of numbers"
        raise InputError(argument, problem, "give rows of equal length") from None
    if matrix.ndim != 2:
        remedy = "give a matrix, one row for each feature"
        raise InputError(argument, f"({path}) has {matrix.ndim} axes", remedy)
    return matrix


def _points(path: Path | None, arrays: dict[str, ndarray], name: str) -> Float[ndarray, "n d"]:
    x = arrays[name]
    if x.ndim != 2 or 0 in x.shape or x.dtype.kind not in "fiub":
        problem = f"has {name} of shape {x.shape} and type {x.dtype}"
        raise _bad(path, problem, "give numbers, one row per point")
    x = np.ascontiguousarray(x, dtype=float)
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        problem = f"has NaN or infinity in row {int(np.argmin(finite))} of {name}"
        raise _bad(path, problem, f"repair or drop such rows ({int((~finite).sum())} of {len(x)})")
    return x


def _labels(
    path: Path | None, arrays: dict[str, ndarray], name: str, n: int, k: int | None = None
) -> Int[ndarray, " n"]:
    given = arrays.get(name, np.zeros(0))
    if given.shape != (n,) or given.dtype.kind not in "iuf" or np.any(given != np.round(given)):
        problem = f"has {name} of shape {given.shape} and type {given.dtype}"
        raise _bad(path, problem, f"give one whole number for each of the {n} points")
    # n points cannot have more than n clusters; said here, before anything is sized by k.
    if given.min() < 0 or given.max() >= (n if k is None else k):
        problem = f"has label {given.min() if given.min() < 0 else given.max()} in {name}"
        last = "without a gap" if k is None else f"up to {k - 1}, as in clusters"
        raise _bad(path, problem, f"number the clusters 0, 1, 2, ... {last}")
    return given.astype(np.int64)


def _positive(
    path: Path, arrays: dict[str, ndarray], given: int | Sequence[int] | ndarray | None
) -> int | Sequence[int] | ndarray | None:
    if given is not None or "positive" not in arrays:
        return given
    stored: Any = arrays["positive"]
    if stored.dtype.kind == "b" and stored.ndim == 1:
        return stored
    if stored.dtype.kind in "iu" and stored.ndim == 1:
        return [int(j) for j in stored]
    problem = f"has positive of shape {stored.shape} and type {stored.dtype}"
    raise _bad(path, problem, "give indices of clusters, or a truth value for each")


def _bad(path: Path | None, problem: str, remedy: str) -> InputError:
    if path is None:  # arrays, whose names the problems have
        return InputError("data", problem, remedy)
    return InputError("data", f"({path}) {problem}", remedy)
