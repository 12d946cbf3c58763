"""Frozen features of a task: pixels, or what a network makes of them; computed once and kept on disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.data.streams import stream
from featavg.errors import InputError, torch_needed
from featavg.progress import Progress, part
from featavg.storage.cache import kept_arrays
from featavg.storage.reading import is_file, is_folder
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from torch import nn

    from featavg.paper.images.embedding import Embedding

NAMED = ("pixels", "efficientnet", "clip")


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSet:
    """Frozen features of training and test images, with their fine classes.

    Attributes:
        groups: the coarse class of each fine one.
        source: which network and data they come from.

    Returned by `fa.embed`, which has an example.
    """

    train: Float[ndarray, "n N"]
    train_classes: Int[ndarray, " n"]
    test: Float[ndarray, "t F"]
    test_classes: Int[ndarray, " t"]
    groups: Int[ndarray, " k"]
    source: str

    def __post_init__(self) -> None:
        if self.train.shape[1] != self.test.shape[1]:
            raise InputError(
                "test", f"has {self.test.shape[1]} features", "use one network for both"
            )
        for classes in (self.train_classes, self.test_classes):
            if classes.max() >= len(self.groups) or classes.min() < 0:
                raise InputError(
                    "classes", "do not match the partition", "give one entry per class"
                )

    @property
    def length(self) -> float:
        """The root mean square length of a training feature vector, the unit of radii."""
        return float(np.sqrt(np.mean(np.einsum("ij,ij->i", self.train, self.train))))

    def with_random_classes(self, seed: int) -> FeatureSet:
        """The training images with fine classes dealt out at random inside their coarse class.

        There are as many of each as before, and they say nothing: a control for what finer labels gain
        by being more of them.

        >>> from featavg.data.image_sets.loading import load_images
        >>> digits = embed("pixels", load_images("digits"))
        >>> dealt = digits.with_random_classes(seed=0)
        >>> np.array_equal(np.bincount(dealt.train_classes), np.bincount(digits.train_classes))
        True
        >>> bool(np.all(dealt.train_classes % 2 == digits.train_classes % 2))
        True
        """
        random, classes = stream(seed, "random-classes"), self.train_classes.copy()
        for group in np.unique(self.groups):
            members = self.groups[self.train_classes] == group
            classes[members] = random.permutation(classes[members])
        return replace(self, train_classes=classes)

    def first(self, images: int) -> FeatureSet:
        """With at most so many training images, the first ones."""
        some = slice(0, images)
        return replace(self, train=self.train[some], train_classes=self.train_classes[some])

    def __repr__(self) -> str:
        return (
            f"{self.source}: {self.train.shape[1]} features of {len(self.train)} training and "
            f"{len(self.test)} test images, {len(self.groups)} fine classes"
        )


def embed(
    source: str | Path | nn.Module,
    task: ImageTask,
    size: int = 0,
    mean: tuple[float, ...] = (0.0,),
    deviation: tuple[float, ...] = (1.0,),
    folder: str | Path | None = None,
    train: int | None = None,
    progress: Progress | None = None,
) -> FeatureSet:
    """The features of a task's images.

    Args:
        source: `pixels`; `efficientnet` or `clip` (packages of others); the folder of a network that
            `train_images` wrote or a file with the weights of a CIFAR ResNet (both: the activations
            before the last layer); or a module that turns a batch of images into a batch of vectors.
        size, mean, deviation: what a module of yours expects: images scaled to this height and
            width (0: as they are), then shifted and divided by channel.
        folder: keep the features there, and take them from there if they are the same.
        train: at most so many training images, the first ones.

    >>> import featavg as fa
    >>> fa.embed("pixels", fa.load_images("digits"))
    pixels of digits: 64 features of 1258 training and 539 test images, 10 fine classes
    """
    if isinstance(source, str) and source == "pixels":
        return pixels_of(task, train)
    torch_needed()
    from featavg.paper.images.embedding import of_module

    embedding: Embedding
    embedding = (
        of_module(source, size, mean, deviation)
        if not isinstance(source, str | Path)
        else _named(source)
    )
    return features_of(task, embedding, None if folder is None else Path(folder), train, progress)


def pixels_of(task: ImageTask, train: int | None = None) -> FeatureSet:
    """The pixels themselves, in [0, 1], as features: no network below a head."""
    some = task.train if train is None else task.train[slice(0, train)]
    flat = [part.unit.reshape(len(part), -1).astype(float) for part in (some, task.test)]
    return FeatureSet(
        flat[0], some.fine, flat[1], task.test.fine, task.groups, f"pixels of {task.name}"
    )


def _named(source: str | Path) -> Embedding:
    from featavg.nets.torch.pretrained import public_cifar_resnet
    from featavg.paper.images.embedding import clip, efficientnet_lite0, penultimate
    from featavg.training.torch.image_network import load_trained

    if str(source) == "efficientnet":
        return efficientnet_lite0()
    if str(source) == "clip":
        return clip()
    path = Path(source)
    if is_folder(path):
        return penultimate(load_trained(path).net, path.name)
    if is_file(path):
        return penultimate(public_cifar_resnet(path), path.stem)
    known = ", ".join(NAMED)
    raise InputError("features", f"is {str(source)!r}", f"give {known}, a folder or a weights file")


def features_of(
    task: ImageTask,
    embedding: Embedding,
    folder: Path | None = None,
    train: int | None = None,
    progress: Progress | None = None,
) -> FeatureSet:
    """The same for an `Embedding` made elsewhere."""
    some = task.train if train is None else task.train[slice(0, train)]
    parts = {"train": some, "test": task.test}
    # Of the images themselves only a few: what they are made of is known by their labels and name.
    name = fingerprint(
        [embedding(task.test.pixels[:4]).round(3), some.fine, task.test.fine],
        task.name,
        embedding.name,
    )

    def embedded() -> dict[str, ndarray]:
        return {
            name_of_part: embedding(
                images.pixels, progress=part(progress, i / 2, (i + 1) / 2)
            ).astype(np.float32)
            for i, (name_of_part, images) in enumerate(parts.items())
        }

    arrays = kept_arrays(folder, name, embedded)
    return FeatureSet(
        arrays["train"].astype(np.float64),
        some.fine,
        arrays["test"].astype(np.float64),
        task.test.fine,
        task.groups,
        f"{embedding.name} on {task.name}",
    )
