"""Eight pictures of one pixel."""

import numpy as np

from featavg.data.image_sets.archives import Archive, ImageSet
from featavg.data.images import Images, ImageTask


def read(files, seed):
    """Made up, not read."""
    images = Images(np.arange(8, dtype=np.uint8).reshape(8, 1, 1, 1), np.arange(8) % 2)
    return ImageTask("toy", images, images, np.array([0, 1]), ("u", "v"), ("u", "v"))


SET = ImageSet(
    name="toy",
    title="Toy",
    read=read,
    folder="toy",
    md5={"a": "0" * 32},
    archives=(Archive("https://example.org/a.gz", "0" * 32, ("a",)),),
    presets={"toy": {"network": "convnet", "width": 4, "recipe": {"epochs": 1}, "minutes": 0.1, "about": "a toy"}},
)
