"""CIFAR-10 and CIFAR-100 in their binary files: 60,000 images of 32 x 32 pixels each.

The ten classes are divided into the first five and the last; the hundred are in 20 superclasses.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from featavg.data.image_sets.archives import Archive, ImageSet, damaged, file_bytes
from featavg.errors import InputError

if TYPE_CHECKING:
    from featavg.data.images import ImageTask

NAMES = (*("airplane", "automobile", "bird", "cat", "deer"), *("dog", "frog", "horse", "ship", "truck"))
_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
_SHA256 = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}


def _read_cifar10(files: Mapping[str, Path], seed: int) -> ImageTask:
    """The published 50,000 for training and 10,000 for testing."""
    from featavg.data.images import Images, ImageTask, partition

    batches = {name: read_cifar(path, 1) for name, path in files.items()}
    test_labels, test_pixels = batches.pop("test_batch.bin")
    labels, pixels = (np.concatenate([batch[i] for batch in batches.values()]) for i in (0, 1))
    return ImageTask(
        "cifar10",
        Images(pixels, labels[:, 0].astype(int)),
        Images(test_pixels, test_labels[:, 0].astype(int)),
        partition("halves", 10),
        NAMES,
        ("last five", "first five"),
        flips=True,
    )


CIFAR10 = ImageSet(
    name="cifar10",
    title="CIFAR-10",
    read=_read_cifar10,
    folder="cifar-10-batches-bin",
    md5=_MD5,
    sha256=_SHA256,
    archives=(
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", tuple(_MD5)
        ),
    ),
    presets={
        "cifar10": {
            "network": "resnet18",
            "width": 16,
            "recipe": {
                "epochs": 30,
                "batch": 128,
                "rate": 0.15,
                "small": 20,
                "small_share": 0.4,
                "precision": "bfloat16",
            },
            "minutes": 25.0,
            "about": "a narrow ResNet-18; the first 40% of the steps at 20 x 20 pixels",
        },
        # Single precision: without instructions for bfloat16 a CPU is ten times slower in it. Six
        # networks took about 9.5 minutes of one core each.
        "cifar10-quick": {
            "network": "resnet18",
            "width": 16,
            "recipe": {"epochs": 6, "batch": 128, "rate": 0.15, "small": 20, "small_share": 0.75},
            "minutes": 8.0,
            "about": "a narrow ResNet-18 for several seeds: six epochs, the first 75% at 20 x 20 pixels",
        },
        "cifar10-small": {
            "network": "resnet18",
            "width": 8,
            "recipe": {
                "epochs": 6,
                "batch": 128,
                "rate": 0.15,
                "small": 20,
                "small_share": 0.6,
                "precision": "bfloat16",
            },
            "minutes": 3.0,
            "about": "a very narrow ResNet-18: minutes, about 78% of ten classes",
        },
        "cifar10-paper": {
            "network": "resnet18",
            "width": 64,
            "recipe": {"epochs": 100, "batch": 128, "rate": 0.1},
            "minutes": 60.0,
            "about": "the paper's width, for a GPU",
        },
    },
)

TRAIN, TEST = "train.bin", "test.bin"
FINE, COARSE = "fine_label_names.txt", "coarse_label_names.txt"


def _read_cifar100(files: Mapping[str, Path], seed: int) -> ImageTask:
    """With its training part if that is there; otherwise the test part is split in two.

    The test part is small enough for embeddings, and it is all that some machines have.
    """
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
    groups = np.full(100, -1)
    groups[labels[:, 1]] = labels[:, 0]
    if not np.array_equal(groups[labels[:, 1]], labels[:, 0]) or groups.min() < 0:
        raise InputError("cifar100", "puts a class into two superclasses", "get the file again")
    return groups


CIFAR100 = ImageSet(
    name="cifar100",
    title="CIFAR-100",
    read=_read_cifar100,
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


def read_cifar(path: Path, label_bytes: int) -> tuple[UInt8[ndarray, "n b"], ndarray]:
    """Rows of label bytes (CIFAR-10: class; CIFAR-100: coarse, fine) and 3 x 32 x 32 pixels.

    Returns:
        the labels, and the pixels with the channel first.
    """
    content = file_bytes(path)
    width = label_bytes + 3072
    if not content or len(content) % width:
        raise damaged(path, f"holds {len(content)} bytes, no multiple of {width}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, width)
    return rows[:, :label_bytes], rows[:, label_bytes:].reshape(-1, 3, 32, 32)


def read_names(path: Path) -> tuple[str, ...]:
    """The names of classes, one per line."""
    return tuple(path.read_text(encoding="utf-8").split())
