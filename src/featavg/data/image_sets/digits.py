"""scikit-learn's digits: 1797 images of 8 x 8 pixels, even against odd. No download."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from featavg.data.image_sets.archives import ImageSet

if TYPE_CHECKING:
    from featavg.data.images import ImageTask


def read(files: Mapping[str, Path], seed: int) -> ImageTask:
    """70% of every digit for training."""
    import numpy as np
    from sklearn.datasets import load_digits

    from featavg.data.images import Images, ImageTask, partition, split

    digits = load_digits()
    pixels = (digits.images / 16.0).astype(np.float32)[:, None]
    train, test = split(Images(pixels, digits.target.astype(int)), 0.7, seed)
    names = tuple("0123456789")
    return ImageTask("digits", train, test, partition("parity", 10), names, ("even", "odd"))


SET = ImageSet(
    name="digits",
    title="digits",
    read=read,
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
