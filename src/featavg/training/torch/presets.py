"""How each data set is trained: presets for two cores, and the paper's size for a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from featavg.errors import InputError
from featavg.training.torch.fit import Recipe


@dataclass(frozen=True)
class Preset:
    """A network and a recipe, with minutes on two quiet cores (a GPU for `paper` ones)."""

    data: str
    network: str
    width: int
    recipe: Recipe
    minutes: float
    about: str


PRESETS = {
    "digits": Preset(
        "digits", "convnet", 16, Recipe(epochs=20, batch=64, rate=0.05, crop=1), 0.1, "seconds"
    ),
    "mnist": Preset(
        "mnist",
        "resnet18",
        8,
        Recipe(epochs=3, batch=128, rate=0.1, crop=0, precision="bfloat16"),
        2.0,
        "narrow ResNet-18, minutes",
    ),
    "cifar10": Preset(
        "cifar10",
        "resnet18",
        16,
        Recipe(epochs=30, batch=128, rate=0.15, small=20, small_share=0.4, precision="bfloat16"),
        25.0,
        "narrow ResNet-18; the first 40% of the steps at 20 x 20 pixels",
    ),
    "cifar10-small": Preset(
        "cifar10",
        "resnet18",
        8,
        Recipe(epochs=6, batch=128, rate=0.15, small=20, small_share=0.6, precision="bfloat16"),
        3.0,
        "a very narrow ResNet-18: minutes, about 78% of ten classes",
    ),
    "mnist-paper": Preset(
        "mnist", "resnet18", 64, Recipe(epochs=20, batch=128, rate=0.1, crop=0), 20.0, "for a GPU"
    ),
    "cifar10-paper": Preset(
        "cifar10", "resnet18", 64, Recipe(epochs=100, batch=128, rate=0.1), 60.0, "for a GPU"
    ),
}


def preset(name: str) -> Preset:
    """One of `PRESETS`."""
    if name not in PRESETS:
        raise InputError("preset", f"is {name!r}", f"choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
