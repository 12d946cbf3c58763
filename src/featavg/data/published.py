"""The published image data sets, read from a folder: MNIST, CIFAR-10, CIFAR-100 and digits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy import ndarray

from featavg.data.archives import FILES, checked
from featavg.data.formats import read_cifar, read_idx, read_names
from featavg.data.images import Images, ImageTask, partition
from featavg.data.streams import stream
from featavg.errors import InputError, one_of

FOLDER_VARIABLE = "FEATAVG_DATA"
CIFAR10_NAMES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)


def data_folder(given: Path | None = None) -> Path:
    """`given`, or $FEATAVG_DATA, or where pooch keeps downloads."""
    if given is not None:
        return given
    if os.environ.get(FOLDER_VARIABLE):
        return Path(os.environ[FOLDER_VARIABLE])
    import pooch

    return Path(pooch.os_cache("featavg"))


def load(name: str, folder: Path | None = None, seed: int = 0) -> ImageTask:
    """One of `TASKS`, from files that are checked by their published md5.

    Args:
        name: mnist, cifar10, cifar100 or digits.
        folder: see `data_folder`.
        seed: of the split into training and test images where none is published.
    """
    return TASKS[one_of("data", name, TASKS)](data_folder(folder), seed)


def _mnist(folder: Path, seed: int) -> ImageTask:
    paths = checked("mnist", folder)

    def images(part: str) -> Images:
        pixels = read_idx(paths[f"{part}-images-idx3-ubyte"])[:, None]
        return Images(pixels, read_idx(paths[f"{part}-labels-idx1-ubyte"]).astype(int))

    names = tuple("0123456789")
    return ImageTask(
        "mnist", images("train"), images("t10k"), partition("parity", 10), names, ("even", "odd")
    )


def _cifar10(folder: Path, seed: int) -> ImageTask:
    paths = checked("cifar10", folder)
    read = {name: read_cifar(path, 1) for name, path in paths.items()}
    test = read.pop("test_batch.bin")
    labels, pixels = (np.concatenate([pair[i] for pair in read.values()]) for i in (0, 1))
    return ImageTask(
        "cifar10",
        Images(pixels, labels[:, 0].astype(int)),
        Images(test[1], test[0][:, 0].astype(int)),
        partition("halves", 10),
        CIFAR10_NAMES,
        ("last five", "first five"),
        flips=True,
    )


def _cifar100(folder: Path, seed: int) -> ImageTask:
    """With its training part if that is there; otherwise the test part is split in two.

    The test part is small enough for embeddings, and it is all that some machines have.
    """
    paths = checked("cifar100", folder, optional=("train.bin",))
    labels, pixels = read_cifar(paths["test.bin"], 2)
    fine_names = read_names(folder / "cifar-100-binary" / "fine_label_names.txt")
    coarse_names = read_names(folder / "cifar-100-binary" / "coarse_label_names.txt")
    groups = _superclasses(labels)
    test = Images(pixels, labels[:, 1].astype(int))
    if "train.bin" in paths:
        labels, pixels = read_cifar(paths["train.bin"], 2)
        train = Images(pixels, labels[:, 1].astype(int))
    else:
        train, test = split(test, 0.5, seed)
    return ImageTask(
        "cifar100",
        train,
        test,
        groups,
        fine_names or tuple(map(str, range(100))),
        coarse_names or tuple(map(str, range(20))),
        flips=True,
    )


def _superclasses(labels: ndarray) -> ndarray:
    """The coarse class of each of the 100 fine ones, as the file has them."""
    groups = np.full(100, -1)
    groups[labels[:, 1]] = labels[:, 0]
    if not np.array_equal(groups[labels[:, 1]], labels[:, 0]) or groups.min() < 0:
        raise InputError("cifar100", "puts a class into two superclasses", "get the file again")
    return groups


def _digits(folder: Path, seed: int) -> ImageTask:
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = (found.images / 16.0).astype(np.float32)[:, None]
    train, test = split(Images(pixels, found.target.astype(int)), 0.7, seed)
    names = tuple("0123456789")
    return ImageTask("digits", train, test, partition("parity", 10), names, ("even", "odd"))


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


TASKS: dict[str, Callable[[Path, int], ImageTask]] = {
    "digits": _digits,
    "mnist": _mnist,
    "cifar10": _cifar10,
    "cifar100": _cifar100,
}
assert set(FILES) < set(TASKS)
