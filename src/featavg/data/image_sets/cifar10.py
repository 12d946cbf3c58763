"""CIFAR-10 in its binary files: 60,000 images of 32 x 32 pixels, first five classes against last."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from featavg.data.image_sets.archives import Archive, ImageSet

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


def read(files: Mapping[str, Path], seed: int) -> ImageTask:
    """The published 50,000 for training and 10,000 for testing."""
    import numpy as np

    from featavg.data.formats import read_cifar
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


SET = ImageSet(
    name="cifar10",
    title="CIFAR-10",
    read=read,
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
