"""CIFAR-100 in its binary files: 100 classes in 20 superclasses, 32 x 32 pixels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from featavg.data.image_sets.registry import Archive, ImageSet
from featavg.errors import InputError

if TYPE_CHECKING:
    from numpy import ndarray

    from featavg.data.images import ImageTask

TRAIN, TEST = "train.bin", "test.bin"
FINE, COARSE = "fine_label_names.txt", "coarse_label_names.txt"


def read(files: Mapping[str, Path], seed: int) -> ImageTask:
    """With its training part if that is there; otherwise the test part is split in two.

    The test part is small enough for embeddings, and it is all that some machines have.
    """
    from featavg.data.formats import read_cifar, read_names
    from featavg.data.images import Images, ImageTask, split

    labels, pixels = read_cifar(files[TEST], 2)
    groups = superclasses(labels)
    test = Images(pixels, labels[:, 1].astype(int))
    if TRAIN in files:
        labels, pixels = read_cifar(files[TRAIN], 2)
        train = Images(pixels, labels[:, 1].astype(int))
    else:
        train, test = split(test, 0.5, seed)
    fine = read_names(files[FINE]) if FINE in files else tuple(map(str, range(100)))
    coarse = read_names(files[COARSE]) if COARSE in files else tuple(map(str, range(20)))
    return ImageTask("cifar100", train, test, groups, fine, coarse, flips=True)


def superclasses(labels: ndarray) -> ndarray:
    """The coarse class of each of the 100 fine ones, as the file has them."""
    import numpy as np

    groups = np.full(100, -1)
    groups[labels[:, 1]] = labels[:, 0]
    if not np.array_equal(groups[labels[:, 1]], labels[:, 0]) or groups.min() < 0:
        raise InputError("cifar100", "puts a class into two superclasses", "get the file again")
    return groups


SET = ImageSet(
    name="cifar100",
    title="CIFAR-100",
    read=read,
    folder="cifar-100-binary",
    md5={
        TRAIN: "6172c7755cfe09b2fe270c85cebc1b15",
        TEST: "4499cfba6c016c1be1438163640a0898",
        # Only names; editing them changes no number.
        FINE: "",
        COARSE: "",
    },
    sha256={
        TRAIN: "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        TEST: "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
    optional=(TRAIN, FINE, COARSE),
    archives=(
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "03b5dce01913d631647c71ecec9e9cb8",
            (TRAIN, TEST, FINE, COARSE),
        ),
    ),
)
