"""Images with fine labels and a partition of them into coarse ones: the tasks on real data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.public import check_fields
from featavg.data.streams import stream
from featavg.errors import InputError, one_of

LABELS = ("coarse", "fine")


@dataclass(frozen=True, eq=False)
class Images:
    """n images with their fine labels.

    Attributes:
        pixels: bytes, or floats in [0, 1]; channel first.
        fine: the class of each image, 0..k-1.

    >>> import numpy as np
    >>> import featavg as fa
    >>> grey = fa.Images(np.zeros((3, 1, 8, 8)), np.array([0, 1, 2]))
    >>> len(grey), grey.unit.dtype
    (3, dtype('float32'))
    """

    pixels: ndarray
    fine: Int[ndarray, " n"]

    def __post_init__(self) -> None:
        check_fields(self)
        if self.pixels.ndim != 4 or not self.pixels.size:
            problem = f"have shape {self.pixels.shape}"
            raise InputError("pixels", problem, "give n x channels x height x width")
        if self.fine.shape != self.pixels.shape[:1]:
            raise InputError("labels", f"have shape {self.fine.shape}", "give one per image")
        if self.pixels.dtype != np.uint8:
            check_bounds(self.pixels)

    def __len__(self) -> int:
        return len(self.fine)

    def __getitem__(self, index: slice | Int[ndarray, " m"]) -> Images:
        return Images(self.pixels[index], self.fine[index])

    @property
    def unit(self) -> Float[ndarray, "n c h w"]:
        """The pixels in [0, 1], float32."""
        if self.pixels.dtype == np.uint8:
            return self.pixels.astype(np.float32) / np.float32(255.0)
        return self.pixels.astype(np.float32)


def check_bounds(pixels: ndarray, low: float = 0.0, high: float = 1.0, name: str = "images") -> None:
    """Refuse pixels outside the bounds that a radius is stated in."""
    if not np.all(np.isfinite(pixels)) or pixels.min() < low or pixels.max() > high:
        numbers = pixels[np.isfinite(pixels)]
        reach = f"{numbers.min():g} to {numbers.max():g}" if numbers.size else "NaN"
        problem = f"{'lie' if name == 'images' else 'lies'} outside [{low:g}, {high:g}] ({reach})"
        raise InputError(name, problem, "give bytes, or scale them first")


@dataclass(frozen=True, eq=False)
class ImageTask:
    """A data set with its partition.

    Attributes:
        name: of the data set.
        train, test: the images.
        groups: the coarse class of each fine class; of two, 1 is the positive one.
        fine_names, coarse_names: for tables and figures.
        flips: whether a mirrored image is still of its class (a digit's is not).

    Returned by `fa.load_images` and `fa.discover_labels`, which have examples.
    """

    name: str
    train: Images
    test: Images
    groups: Int[ndarray, " k"]
    fine_names: tuple[str, ...]
    coarse_names: tuple[str, ...]
    flips: bool = False

    def __post_init__(self) -> None:
        for part in (self.train, self.test):
            low, high = int(part.fine.min()), int(part.fine.max())
            if low < 0 or high >= len(self.groups):
                raise InputError(
                    "labels",
                    f"run from {low} to {high} where the partition has {len(self.groups)} classes",
                    "give the partition one entry for each class",
                )
        if not np.array_equal(np.unique(self.groups), np.arange(self.groups.max() + 1)):
            raise InputError("partition", "leaves a class empty", "number coarse classes 0, 1, ...")
        if self.groups.max() < 1:
            raise InputError("partition", "puts all in one class", "give two or more")

    @property
    def positive(self) -> ndarray:
        """J+ as a mask over the fine classes, for partitions into two."""
        if self.groups.max() != 1:
            raise InputError("partition", f"has {self.coarse} classes", "give a partition into two")
        return self.groups == 1

    @property
    def fine(self) -> int:
        """How many fine classes there are."""
        return len(self.groups)

    @property
    def coarse(self) -> int:
        """How many coarse classes there are."""
        return int(self.groups.max()) + 1

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        c, h, w = self.train.pixels.shape[1:]
        return c, h, w

    def targets(self, images: Images, labels: str) -> Int[ndarray, " n"]:
        """The coarse or the fine classes of some images."""
        one_of("labels", labels, LABELS)
        return self.groups[images.fine] if labels == "coarse" else images.fine

    def outputs(self, labels: str) -> int:
        """How many outputs a network with these labels has."""
        return self.coarse if one_of("labels", labels, LABELS) == "coarse" else self.fine

    def __repr__(self) -> str:
        channels, height, width = self.shape
        return (
            f"{self.name}: {len(self.train)} training and {len(self.test)} test images of "
            f"{channels} x {height} x {width}, {self.fine} fine classes in {self.coarse} coarse ones "
            f"({', '.join(self.coarse_names)})"
        )

    def with_partition(self, text: str) -> ImageTask:
        """The same images under another partition, see `partition`."""
        groups = partition(text, self.fine)
        names = tuple("+".join(_names_of(self.fine_names, groups == g)) for g in np.unique(groups))
        return replace(self, groups=groups, coarse_names=names)


def partition(text: str, classes: int) -> Int[ndarray, " k"]:
    """A partition written down: `parity`, `halves`, or coarse classes as `0,1,2/3,4,5`.

    `halves` is first half against last half, the first being positive; of two written classes the
    first is the positive one too.

    >>> partition("halves", 4), partition("0,2/1,3", 4)
    (array([1, 1, 0, 0]), array([1, 0, 1, 0]))
    """
    if text == "parity":
        return np.arange(classes) % 2
    if text == "halves":
        return (np.arange(classes) < classes // 2).astype(int)
    try:
        parts = [[int(word) for word in part.split(",")] for part in text.split("/")]
    except ValueError as error:
        remedy = "write parity, halves, or classes as 0,1,2/3,4,5"
        raise InputError("groups", f"is {text!r}", remedy) from error
    listed = sorted(j for part in parts for j in part)
    if listed != list(range(classes)):
        problem = f"{text!r} does not name each class once"
        raise InputError("groups", problem, f"name 0 to {classes - 1}")
    order = reversed(range(len(parts))) if len(parts) == 2 else range(len(parts))
    groups = np.empty(classes, dtype=int)
    for number, part in zip(order, parts, strict=True):
        groups[part] = number
    return groups


def split(images: Images, share: float, seed: int) -> tuple[Images, Images]:
    """A training share and the rest, the same share of every class."""
    rng = stream(seed, "split")
    first = np.zeros(len(images), dtype=bool)
    for j in np.unique(images.fine):
        members = rng.permutation(np.flatnonzero(images.fine == j))
        first[members[: round(share * len(members))]] = True
    if first.all() or not first.any():
        raise InputError("share", f"is {share}", "leave images for training and for testing")
    return images[np.flatnonzero(first)], images[np.flatnonzero(~first)]


def _names_of(names: Sequence[str], mask: ndarray) -> list[str]:
    return [name for name, inside in zip(names, mask, strict=True) if inside]


def as_json(task: ImageTask) -> Mapping[str, object]:
    """What identifies the task in a result file."""
    return {
        "data": task.name,
        "train": len(task.train),
        "test": len(task.test),
        "shape": list(task.shape),
        "groups": task.groups.tolist(),
        "fine": list(task.fine_names),
        "coarse": list(task.coarse_names),
    }
