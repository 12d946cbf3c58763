"""How a network is trained on images: the recipe, and for each data set the preset that suits it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from featavg.boundary.public import check_fields
from featavg.errors import InputError, finite, one_of
from featavg.registry import IMAGE_SETS

PRECISIONS = ("float32", "bfloat16")
# For the user's own images, of unknown size and number.
FALLBACK = "digits"


@dataclass(frozen=True)
class ImageRecipe:
    """How to train: SGD with Nesterov momentum, the rate up to `rate` and down to zero again.

    Attributes:
        epochs: passes over the training images.
        batch: images per step.
        rate: the peak of the learning rate, reached after `warmup` of all steps.
        decay: weight decay, on the weights of convolutions and linear layers only.
        crop: the largest shift, in pixels.
        small: if not 0, the first `small_share` of all steps sees images scaled to this many pixels:
            twice the speed at 20 instead of 32, for next to no accuracy.
        precision: bfloat16 is autocast, about twice as fast on CPUs that have it; on others float32 is
            used instead, and said.

    >>> import featavg as fa
    >>> fa.ImageRecipe(epochs=2).batch
    128
    """

    epochs: int = 16
    batch: int = 128
    rate: float = 0.15
    warmup: float = 0.25
    momentum: float = 0.9
    decay: float = 5e-4
    crop: int = 4
    small: int = 0
    small_share: float = 0.5
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        one_of("precision", self.precision, PRECISIONS)
        for name in ("epochs", "batch", "rate"):
            finite(name, getattr(self, name), above=0)
        for name in ("crop", "small", "seed", "decay"):
            if not getattr(self, name) >= 0:
                raise InputError(name, f"is {getattr(self, name)}", "give zero or more")
        if not 0.0 < self.warmup < 1.0:
            raise InputError("warmup", f"is {self.warmup}", "give a share between 0 and 1")
        finite("momentum", self.momentum, least=0, below=1)

    def rate_at(self, share: float) -> float:
        """The rate when `share` of all steps is done: a straight line up, half a cosine down."""
        if share < self.warmup:
            return self.rate * max(share / self.warmup, 0.01)
        return self.rate * 0.5 * (1.0 + math.cos(math.pi * (share - self.warmup) / (1 - self.warmup)))


@dataclass(frozen=True)
class ImagePreset:
    """A network and a recipe, with minutes on two quiet cores (a GPU for `paper` ones).

    Returned by `image_presets`, which has an example.
    """

    name: str
    data: str
    network: str
    width: int
    recipe: ImageRecipe
    minutes: float
    about: str


def image_presets() -> dict[str, ImagePreset]:
    """The presets that the data sets register, by name.

    >>> import featavg as fa
    >>> image_presets()["digits"].network
    'convnet'
    """
    return {
        name: ImagePreset(name, each.name, **({**values, "recipe": ImageRecipe(**values["recipe"])}))
        for each in IMAGE_SETS.values()
        for name, values in each.presets.items()
    }


def image_preset(name: str) -> ImagePreset:
    """One of them, or a sentence that lists them."""
    presets = image_presets()
    return presets[one_of("preset", name, presets)]


def network_name(preset: str, labels: str, seed: int = 0) -> str:
    """The folder of a trained network: every experiment finds the same network under it.

    >>> network_name("mnist", "fine"), network_name("mnist", "fine", seed=2)
    ('mnist-fine', 'mnist-fine-seed2')
    """
    return f"{preset}-{labels}" + (f"-seed{seed}" if seed else "")


def preset_for(data: str) -> ImagePreset:
    """The preset that has the name of the data set, else that of a small network."""
    return image_presets().get(data) or image_preset(FALLBACK)
