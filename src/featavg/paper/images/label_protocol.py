"""What a cell of the table of labels is: data, network, training, labels and seed, and its protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from featavg.data.images import ImageTask
from featavg.errors import InputError, one_of

if TYPE_CHECKING:
    from featavg.training.torch.recipe import ImageRecipe

# By name: architecture, and its width (hidden neurons, or channels of the first convolution).
NETWORKS = {
    "two-layer": ("two-layer", 64),
    "narrow CNN": ("convnet", 4),
    "wide CNN": ("convnet", 16),
}
# A residual sum of two 1-Lipschitz maps is 2-Lipschitz: that training is not for it.
RESIDUAL = {"narrow ResNet-18": ("resnet18", 16)}
# What takes many minutes is trained by a preset, on all training images, and kept beside the table.
BY_PRESET = {("cifar10", "narrow ResNet-18", "cross-entropy"): "cifar10-quick"}
PRESET_TRAINED, PRESET_ATTACKED = 50_000, 200
KINDS = NETWORKS | RESIDUAL
TRAININGS = ("cross-entropy", "gradient penalty", "1-Lipschitz", "adversarial")
LABELS = ("coarse", "fine")


@dataclass(frozen=True)
class CellProtocol:
    """What is the same for every cell on one data set, whatever its labels.

    Attributes:
        train, test: at most so many images, the first ones.
        attacked: test images whose radius is looked for.
        epochs, batch, rate, crop: of `ImageRecipe`.
        radius: where robust accuracy is read, l2 in pixels in [0, 1].
        penalty: the strength of the gradient penalty.
        ball: the radius of adversarial training.
    """

    train: int
    test: int
    attacked: int
    epochs: int
    batch: int
    rate: float
    crop: int
    radius: float
    penalty: float
    ball: float

    def some_of(self, task: ImageTask) -> ImageTask:
        """The first images of a task, as many as are taken."""
        train, test = task.train[slice(0, self.train)], task.test[slice(0, self.test)]
        return replace(task, train=train, test=test)


# Fixed after one look at coarse labels alone (seed 99, not among those reported): penalty and ball cost
# a few points of accuracy at most, and a cell costs seconds to half a minute of one core.
PROTOCOLS = {
    "digits": CellProtocol(1437, 360, 150, 20, 64, 0.05, 0, 0.4, 0.3, 0.5),
    "mnist": CellProtocol(2000, 1000, 100, 6, 64, 0.05, 0, 0.75, 0.3, 1.0),
    "cifar10": CellProtocol(3000, 1000, 100, 6, 64, 0.05, 2, 0.2, 0.03, 0.25),
}


@dataclass(frozen=True)
class LabelCell:
    """Which cell: data, network, training, labels and seed."""

    data: str
    network: str
    training: str
    labels: str
    seed: int

    def __post_init__(self) -> None:
        one_of("data", self.data, PROTOCOLS)
        one_of("network", self.network, KINDS)
        one_of("training", self.training, TRAININGS)
        one_of("labels", self.labels, LABELS)
        if self.network in RESIDUAL and self.training == "1-Lipschitz":
            raise InputError(
                "trainings", f"has 1-Lipschitz for a {self.network}", "leave one of the two out"
            )

    @property
    def file(self) -> str:
        """Where it is kept."""
        words = (self.data, self.network, self.training, self.labels, f"seed{self.seed}")
        return "-".join(words).lower().replace(" ", "-") + ".json"

    @property
    def preset(self) -> str | None:
        """What its network is trained by, unless by the protocol of its data."""
        return BY_PRESET.get((self.data, self.network, self.training))

    @property
    def recipe(self) -> ImageRecipe:
        """How its network is trained."""
        from featavg.training.torch.recipe import ImageRecipe, image_preset

        if self.preset is not None:
            return replace(image_preset(self.preset).recipe, seed=self.seed)
        p = PROTOCOLS[self.data]
        return ImageRecipe(p.epochs, p.batch, p.rate, crop=p.crop, seed=self.seed)

    @property
    def protocol(self) -> CellProtocol:
        """How it is trained and attacked."""
        whole, how = PROTOCOLS[self.data], self.recipe
        if self.preset is None:
            return whole
        return replace(
            whole,
            train=PRESET_TRAINED,
            attacked=PRESET_ATTACKED,
            epochs=how.epochs,
            batch=how.batch,
            rate=how.rate,
            crop=how.crop,
        )
