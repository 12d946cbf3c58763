"""Handwritten digits, even against odd: scikit-learn's 1797 of 8 x 8 pixels and MNIST's 70,000 of 28 x 28."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from featavg.data.image_sets.archives import Archive, ImageSet, damaged, file_bytes

if TYPE_CHECKING:
    from featavg.data.images import Images, ImageTask


def _read_digits(files: Mapping[str, Path], seed: int) -> ImageTask:
    """70% of every digit for training."""
    from sklearn.datasets import load_digits

    from featavg.data.images import Images, ImageTask, partition, split

    digits = load_digits()
    pixels = (digits.images / 16.0).astype(np.float32)[:, None]
    train, test = split(Images(pixels, digits.target.astype(int)), 0.7, seed)
    names = tuple("0123456789")
    return ImageTask("digits", train, test, partition("parity", 10), names, ("even", "odd"))


DIGITS = ImageSet(
    name="digits",
    title="digits",
    read=_read_digits,
    presets={
        "digits": {
            "network": "convnet",
            "width": 16,
            "recipe": {"epochs": 20, "batch": 64, "rate": 0.05, "crop": 1},
            "minutes": 0.1,
            "about": "a small convolutional network: seconds",
        }
    },
)

_ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
# Of each file, unpacked and as it is downloaded.
_MD5 = {
    "train-images-idx3-ubyte": ("6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": ("a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": ("2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": ("27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"),
}
_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def _read_mnist(files: Mapping[str, Path], seed: int) -> ImageTask:
    """The published 60,000 for training and 10,000 for testing."""
    from featavg.data.images import Images, ImageTask, partition

    def images(part: str) -> Images:
        pixels = read_idx(files[f"{part}-images-idx3-ubyte"])[:, None]
        return Images(pixels, read_idx(files[f"{part}-labels-idx1-ubyte"]).astype(int))

    train, test = images("train"), images("t10k")
    names = tuple("0123456789")
    return ImageTask("mnist", train, test, partition("parity", 10), names, ("even", "odd"))


MNIST = ImageSet(
    name="mnist",
    title="MNIST",
    read=_read_mnist,
    folder="mnist",
    md5={name: whole for name, (whole, _) in _MD5.items()},
    sha256=_SHA256,
    archives=tuple(Archive(f"{_ADDRESS}{name}.gz", packed, (name,)) for name, (_, packed) in _MD5.items()),
    presets={
        "mnist": {
            "network": "resnet18",
            "width": 8,
            "recipe": {"epochs": 3, "batch": 128, "rate": 0.1, "crop": 0, "precision": "bfloat16"},
            "minutes": 2.0,
            "about": "a narrow ResNet-18: minutes",
        },
        "mnist-paper": {
            "network": "resnet18",
            "width": 64,
            "recipe": {"epochs": 20, "batch": 128, "rate": 0.1, "crop": 0},
            "minutes": 20.0,
            "about": "the paper's width, for a GPU",
        },
    },
)


IDX_BYTES = 0x08


def read_idx(path: Path) -> UInt8[ndarray, "..."]:
    """An idx file: two zero bytes, a type byte, the number of axes, the axes, then the bytes."""
    content = file_bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != IDX_BYTES:
        raise damaged(path, "does not begin like an idx file of bytes")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise damaged(path, "ends within its header")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != int(np.prod(shape)):
        raise damaged(path, f"holds {len(content) - start} values where its header says {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
