"""Images and labels of an audit, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int
from numpy import ndarray

from featavg.audit.inputs import balanced, numbered
from featavg.data.image_sets.loading import load_images
from featavg.data.images import check_bounds, partition
from featavg.data.user_points import read_npz
from featavg.errors import InputError
from featavg.robustness.models.model import checked_bounds
from featavg.storage.reading import is_file

# Images of a sub-class: for a cluster to be one, and for it to take part in the shared gradient.
LEAST_PER_SUBCLASS, LEAST_SHARED = 20, 5


@dataclass(frozen=True, eq=False)
class AuditData:
    """What an audit looks at.

    Attributes:
        x: images (or points), floats inside the bounds.
        coarse: the class of each, 0..C-1.
        fine: the sub-class of each, 0..k-1; None where it is not known.
        groups: the class of each sub-class; None without sub-classes.
        rows: which of the given images these are; None for all.
        is_divided: whether there are sub-classes, which few images leave unknown.
        words: the names of the classes, if they were given as words.
    """

    x: ndarray
    coarse: Int[ndarray, " n"]
    fine: Int[ndarray, " n"] | None
    groups: Int[ndarray, " k"] | None
    rows: Int[ndarray, " n"] | None = None
    is_divided: bool = True
    words: tuple[str, ...] | None = None

    @property
    def classes(self) -> int:
        """The number of classes, C."""
        return int(self.coarse.max()) + 1

    def with_fine(self, fine: Int[ndarray, " n"]) -> AuditData:
        """The same images with sub-classes found elsewhere."""
        return replace(self, fine=fine, groups=nested(fine, self.coarse))

    def undivided(self) -> AuditData:
        """The same images, each class its only sub-class."""
        return replace(self, fine=self.coarse, groups=np.arange(self.classes), is_divided=False)

    @property
    def divided(self) -> tuple[Int[ndarray, " n"], Int[ndarray, " k"]]:
        """`fine` and `groups`, once both are known."""
        assert self.fine is not None
        assert self.groups is not None
        return self.fine, self.groups

    @property
    def too_few(self) -> str:
        """Why the sub-classes of no class can be compared; empty where they can."""
        fine, groups = self.divided
        if not self.is_divided:
            smallest = int(np.bincount(fine).min())
            return (
                f"There are {smallest} images of a class, too few to find sub-classes in it: give "
                f"{2 * LEAST_PER_SUBCLASS} of each, or fine labels."
            )
        enough = np.bincount(fine, minlength=len(groups)) >= LEAST_SHARED
        if np.any(np.bincount(groups[enough]) > 1):
            return ""
        return f"No class has two sub-classes of {LEAST_SHARED} images: give more images of each."

    def rows_of(self, embedding: ndarray | None, n: int) -> ndarray | None:
        """Of an embedding of all n given images, the rows of these."""
        if embedding is None:
            return None
        rows = np.asarray(embedding)
        if rows.ndim != 2 or len(rows) != n or rows.dtype.kind not in "fiu":
            shape = f"has shape {rows.shape} and type {rows.dtype}"
            raise InputError("embedding", shape, f"give a row of numbers for each of the {n} images")
        if not np.all(np.isfinite(rows)):
            raise InputError("embedding", "holds a number that is not finite", "give finite numbers")
        return rows if self.rows is None else rows[self.rows]


def audit_data(
    x: ndarray,
    coarse: Any,
    fine: Any,
    bounds: tuple[float, float] | None,
    count: int | None = None,
    seed: int = 0,
    order: Mapping[str, int] | None = None,
) -> tuple[AuditData, tuple[str, ...] | None]:
    """At most `count` images, as many of every sub-class (or class) as can be had, and names of sub-classes.

    Arrays are made one form: bytes become [0, 1], labels -1/+1 become 0/1, words become numbers. Only
    what is audited is converted, so that a large array may stay on disk.

    Args:
        coarse: the class of each image, or a table from sub-class to class.
        order: the model's own numbers of words.
    """
    if x.ndim < 2 or x.size == 0:
        raise InputError("x", f"has shape {x.shape}", "give images, n x channels x height x width")
    if isinstance(coarse, Mapping):
        coarse = _by_table(fine, coarse)
    if coarse is None:
        raise InputError("coarse", "is missing", "give the class of each image")
    coarse, words = numbered(coarse, "coarse", order or {})
    fine, names = numbered(fine, "fine", order or {})
    classes = _labels(coarse, "coarse", len(x))
    if len(np.unique(classes)) < 2:
        raise InputError("coarse", "has one class only", "a decision is between two or more")
    sub = None if fine is None else _labels(fine, "fine", len(x))
    groups = None if sub is None else nested(sub, classes)
    rows = None
    if count is not None and count < len(x):
        rows = balanced(classes if sub is None else sub, count, seed)
        x, classes, sub = x[rows], classes[rows], None if sub is None else sub[rows]
    if x.dtype == np.uint8:
        x = x.astype(np.float32) / np.float32(255.0)
    x = x.astype(np.float64 if x.dtype == np.float64 else np.float32, copy=False)
    if bounds is not None:
        checked_bounds(bounds)
        check_bounds(x, *bounds, name="x")
    elif not np.all(np.isfinite(x)):
        raise InputError("x", "holds a NaN or an infinity", "give finite points")
    return AuditData(x, classes, sub, groups, rows, words=words), names


def _by_table(fine: Any, table: Mapping[Any, Any]) -> list[Any]:
    """The class of each image by its sub-class."""
    if fine is None:
        raise InputError("coarse", "is a table, and no sub-classes are given", "give fine too")
    given = np.asarray(fine).tolist()
    missing = sorted({str(each) for each in given if each not in table})
    if missing:
        problem = f"has no class for {', '.join(missing[:3])}"
        raise InputError("coarse", problem, "name the class of every sub-class")
    return [table[each] for each in given]


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
        return audit_data(np.asarray(x), coarse, fine, bounds)[0], known
    data, _ = audit_data(np.asarray(x), coarse, None, bounds)
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
    """The class of each sub-class, that of most of its images; others are counted and refused."""
    counts = np.zeros((int(fine.max()) + 1, int(coarse.max()) + 1), dtype=int)
    np.add.at(counts, (fine, coarse), 1)
    groups = counts.argmax(axis=1)
    torn = np.flatnonzero(groups[fine] != coarse)
    if len(torn):
        torn_ones = ", ".join(map(str, torn[:3])) + (", ..." if len(torn) > 3 else "")
        problem = (
            f"puts sub-class {fine[torn[0]]} into two classes: {len(torn)} of {len(fine)} images have "
            f"another class than most of their sub-class (images {torn_ones})"
        )
        raise InputError("fine", problem, "correct their labels, or leave them out")
    if not np.any(np.bincount(groups) > 1):
        raise InputError("fine", "has one sub-class per class", "give labels that are finer")
    return groups


@dataclass(frozen=True, eq=False)
class AuditImages:
    """Arguments of `audit` by the names they have there.

    Attributes:
        x: images, or points.
        coarse: the class of each.
        fine: the sub-class of each; None where it is not known.
        names: of the sub-classes; None where they have none.
        groups: the class of each sub-class; None where it is not known.
    """

    x: ndarray
    coarse: ndarray
    fine: ndarray | None
    names: tuple[str, ...] | None
    groups: ndarray | None = None


def audit_images(source: str, groups: str | None = None, data_dir: Path | None = None) -> AuditImages:
    """Test images of what `load_images` knows; of an npz file with `x`, every image in it.

    With `x`, these are the images to audit: only the caller knows which ones the network was trained on.

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
    return AuditImages(task.test.pixels, coarse, task.test.fine, task.fine_names, task.groups)


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
