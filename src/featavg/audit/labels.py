"""Images and labels of an audit, checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.data.image_sets.loading import load_images
from featavg.data.images import check_bounds, partition
from featavg.data.npz import read_npz
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.robustness.models.model import checked_bounds
from featavg.storage.reading import is_file

LEAST_PER_SUBCLASS = 20


@dataclass(frozen=True, eq=False)
class AuditData:
    """What an audit looks at.

    Attributes:
        x: images (or points), floats inside the bounds.
        coarse: the class of each, 0..C-1.
        fine: the sub-class of each, 0..k-1; None where it is not known.
        groups: the class of each sub-class; None without sub-classes.
        rows: which of the given images these are; None for all.
    """

    x: ndarray
    coarse: Int[ndarray, " n"]
    fine: Int[ndarray, " n"] | None
    groups: Int[ndarray, " k"] | None
    rows: Int[ndarray, " n"] | None = None

    @property
    def classes(self) -> int:
        """The number of classes, C."""
        return int(self.coarse.max()) + 1

    def with_fine(self, fine: Int[ndarray, " n"]) -> AuditData:
        """The same images with sub-classes found elsewhere."""
        return AuditData(self.x, self.coarse, fine, nested(fine, self.coarse), self.rows)

    def rows_of(self, embedding: ndarray | None, n: int) -> ndarray | None:
        """Of an embedding of all n given images, the rows of these."""
        if embedding is None:
            return None
        rows = np.asarray(embedding)
        if rows.ndim != 2 or len(rows) != n or rows.dtype.kind not in "fiu":
            shape = f"has shape {rows.shape} and type {rows.dtype}"
            raise InputError(
                "embedding", shape, f"give a row of numbers for each of the {n} images"
            )
        if not np.all(np.isfinite(rows)):
            raise InputError(
                "embedding", "holds a number that is not finite", "give finite numbers"
            )
        return rows if self.rows is None else rows[self.rows]

    def sample(self, count: int, seed: int) -> AuditData:
        """At most `count` images, as many of every sub-class (or class) as can be had."""
        if count >= len(self.x):
            return self
        rows = balanced(self.coarse if self.fine is None else self.fine, count, seed)
        fine = None if self.fine is None else self.fine[rows]
        return AuditData(self.x[rows], self.coarse[rows], fine, self.groups, rows)


def audit_data(
    x: ndarray,
    coarse: ndarray,
    fine: ndarray | None,
    bounds: tuple[float, float] | None,
) -> AuditData:
    """Arrays as they are given, made one form: bytes become [0, 1], labels -1/+1 become 0/1."""
    x = np.asarray(x)
    if x.ndim < 2 or x.size == 0:
        raise InputError("x", f"has shape {x.shape}", "give images, n x channels x height x width")
    if x.dtype == np.uint8:
        x = x.astype(np.float32) / np.float32(255.0)
    x = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    if bounds is not None:
        checked_bounds(bounds)
        check_bounds(x, *bounds, name="x")
    elif not np.all(np.isfinite(x)):
        raise InputError("x", "holds a NaN or an infinity", "give finite points")
    classes = _labels(coarse, "coarse", len(x))
    if len(np.unique(classes)) < 2:
        raise InputError("coarse", "has one class only", "a decision is between two or more")
    if fine is None:
        return AuditData(x, classes, None, None)
    sub = _labels(fine, "fine", len(x))
    return AuditData(x, classes, sub, nested(sub, classes))


def partly_labelled(
    x: ndarray, coarse: ndarray, fine: ndarray, bounds: tuple[float, float] | None
) -> tuple[AuditData, Bool[ndarray, " n"]]:
    """The data, and which images carry their sub-class: -1 or NaN says that only the class is known.

    An image without a sub-class is given the first one of its class, to be masked by the second answer.
    """
    given = np.asarray(fine)
    known = ~np.isnan(given) if given.dtype.kind == "f" else np.ones(given.shape, dtype=bool)
    known &= given != -1
    if known.all() or known.shape != (len(np.asarray(x)),):
        return audit_data(x, coarse, fine, bounds), known
    data = audit_data(x, coarse, None, bounds)
    filled = np.where(known, given, 0)
    for j in np.unique(data.coarse):
        labelled = np.unique(given[known & (data.coarse == j)])
        if not len(labelled):
            raise InputError("fine", f"is -1 for all of class {j}", "label some images of each")
        filled[~known & (data.coarse == j)] = labelled[0]
    return data.with_fine(_labels(filled, "fine", len(data.x))), known


def _labels(given: ndarray, name: str, n: int) -> Int[ndarray, " n"]:
    labels = np.asarray(given)
    if labels.dtype.kind == "f" and np.all(np.abs(labels) < 2**53):
        labels = labels.astype(int) if np.all(labels == np.rint(labels)) else labels
    whole = labels.dtype.kind in "iub" and labels.shape == (n,)
    if not whole:
        shape = f"has shape {labels.shape} and type {labels.dtype}"
        raise InputError(name, shape, f"give one whole number for each of the {n} images")
    labels = labels.astype(int)
    if set(np.unique(labels).tolist()) == {-1, 1}:
        labels = (labels > 0).astype(int)
    # Nothing may be sized by a label before this: n images have at most n classes.
    if labels.min() < 0 or labels.max() >= n:
        worst = labels.min() if labels.min() < 0 else labels.max()
        raise InputError(name, f"holds {worst} for {n} images", "number classes 0, 1, 2, ...")
    counts = np.bincount(labels)
    if not counts.all():
        missing = int(np.argmin(counts))
        raise InputError(name, f"has no image of class {missing}", "number classes without a gap")
    return labels


def nested(fine: Int[ndarray, " n"], coarse: Int[ndarray, " n"]) -> Int[ndarray, " k"]:
    """The class of each sub-class; a sub-class in two classes is refused."""
    groups = np.full(int(fine.max()) + 1, -1)
    groups[fine] = coarse
    torn = np.flatnonzero(groups[fine] != coarse)
    if len(torn):
        which = int(fine[torn[0]])
        remedy = "give labels that are finer than the coarse ones"
        raise InputError("fine", f"puts sub-class {which} into two classes", remedy)
    counts = np.bincount(fine)
    if counts.min() < LEAST_PER_SUBCLASS:
        small = int(np.argmin(counts))
        raise InputError(
            "fine",
            f"has {counts[small]} images of sub-class {small}",
            f"give at least {LEAST_PER_SUBCLASS} of each, or merge it with another",
        )
    if not np.any(np.bincount(groups) > 1):
        raise InputError("fine", "has one sub-class per class", "give labels that are finer")
    return groups


def balanced(labels: Int[ndarray, " n"], count: int, seed: int) -> Int[ndarray, " m"]:
    """Rows in order, as many of every label as can be had, `count` in all."""
    rng = stream(seed, "audit sample")
    order = rng.permutation(len(labels))
    rank = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    return np.sort(order[np.argsort(rank[order], kind="stable")][:count])


@dataclass(frozen=True, eq=False)
class AuditImages:
    """Arguments of `audit` by the names they have there.

    Attributes:
        x: images, or points.
        coarse: the class of each.
        fine: the sub-class of each; None where it is not known.
        names: of the sub-classes; None where they have none.
    """

    x: ndarray
    coarse: ndarray
    fine: ndarray | None
    names: tuple[str, ...] | None


def audit_images(
    source: str, groups: str | None = None, data_dir: Path | None = None
) -> AuditImages:
    """Test images of what `load_images` knows; of an npz file with `x`, every image in it.

    Who gives `x` gives images to audit, and nobody else knows which ones the network was trained on.

    Args:
        groups: a partition of the sub-classes into classes, instead of the data's own.
    """
    path = Path(source)
    if path.suffix == ".npz" and is_file(path):
        arrays = read_npz(path, "x=..., coarse=..., fine=...")
        if "x" in arrays and "images" not in arrays:
            return _given(path, arrays, groups)
    task = load_images(source, groups, data_dir)
    coarse = task.targets(task.test, "coarse")
    return AuditImages(task.test.pixels, coarse, task.test.fine, task.fine_names)


def _given(path: Path, arrays: dict[str, ndarray], groups: str | None) -> AuditImages:
    x, coarse, fine = arrays["x"], arrays.get("coarse"), arrays.get("fine")
    if x.ndim == 3:
        x = x[:, None]  # grey images
    if groups is not None:
        if fine is None:
            raise InputError("groups", f"divide sub-classes that {path} has not", "add fine to it")
        sub = _labels(fine, "fine", len(x) if x.ndim else 0)
        coarse = partition(groups, int(sub.max()) + 1)[sub]
    if coarse is None:
        raise InputError("data", f"({path}) has no 'coarse'", "add it, or fine and --groups")
    return AuditImages(x, coarse, fine, None)
