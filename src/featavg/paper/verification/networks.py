"""The public networks and image sets: where each file is, its sha256, and what it is read as.

Nothing of them is in this package. A user clones a repository into `networks/` of the data folder; a file
that is missing is a sentence with that command, one that differs is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.image_sets.loading import data_folder
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.loading.load import load_network
from featavg.paper.engine.claim import Context, NotRun
from featavg.paper.engine.requirements import data_needed, torch_needed
from featavg.storage.reading import ARRAY_LIMIT, read_bytes

SDP = "henba1/SDP-CROWN_auto-verify"
CROWN = "Verified-Intelligence/alpha-beta-CROWN"
ROBUSTNESS = "ADA-research/NNV_JAIR_robustness_distributions"
MIP, CONVEX, PRELU = ("vtjeng/MIPVerify_data", "locuslab/convex_adversarial", "hanchmin/pReLU_ICML24")


@dataclass(frozen=True)
class PublicFile:
    """A file of a public repository."""

    repository: str
    path: str
    sha256: str

    def found(self, run: Context) -> Path:
        """Where the user has put it, checked."""
        folder = data_folder(run.data_dir) / "networks" / self.repository.split("/")[1]
        path = folder / self.path
        if not path.exists():
            source = f"https://github.com/{self.repository}"
            raise NotRun(f"{path} is not there: git clone --depth 1 {source} {folder}")
        if hashlib.sha256(read_bytes(path, ARRAY_LIMIT)).hexdigest() != self.sha256:
            raise InputError(str(path), "is not the file that was published", "get it again")
        return path


@dataclass(frozen=True)
class PublicNetwork:
    """A network by its files, and how they are read."""

    files: tuple[PublicFile, ...]
    read: Callable[[Sequence[Path]], Deep]

    def loaded(self, run: Context) -> Deep:
        """The network, from checked files."""
        torch_needed()
        return self.read([file.found(run) for file in self.files])


@dataclass(frozen=True)
class PublicImages:
    """Images and labels: arrays of a repository, or MNIST's published test images from the first on."""

    files: tuple[PublicFile, ...] = ()

    def loaded(self, run: Context) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
        """Flat pixels, channel first, and classes."""
        if not self.files:
            test = data_needed("mnist", run).test
            return test.unit.reshape(len(test), -1).astype(float), np.asarray(test.fine, dtype=int)
        x, y = (np.load(file.found(run), allow_pickle=False) for file in self.files)
        pixels = np.moveaxis(x.astype(float), -1, 1).reshape(len(x), -1)
        return pixels, y.ravel().astype(int)


def dense(repository: str, path: str, sha256: str) -> PublicNetwork:
    """Of one file that needs nothing else: ONNX, or linear layers."""
    file = PublicFile(repository, path, sha256)
    return PublicNetwork((file,), lambda paths: load_network(paths[0]))


def small_convolutional(file: PublicFile, channels: int, size: int, **normalisation: Any) -> PublicNetwork:
    """Two convolutions of 16 and 32 channels, 4 x 4 with stride 2, and two dense layers."""

    def read(paths: Sequence[Path]) -> Deep:
        import torch
        from torch import nn

        layers = (
            nn.Conv2d(channels, 16, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 4, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (size // 4) ** 2, 100),
            nn.ReLU(),
            nn.Linear(100, 10),
        )
        weights: Any = torch.load(paths[0], map_location="cpu", weights_only=True)
        # A cascade of networks: the first is the network of the paper's table.
        weights = weights["state_dict"][0] if "state_dict" in weights else weights
        shape = (channels, size, size)
        return load_network(weights, nn.Sequential(*layers), shape=shape, **normalisation)

    return PublicNetwork((file,), read)


def arrays(*files: PublicFile) -> PublicNetwork:
    """One hidden layer in four arrays: weights and biases, columns are neurons."""

    def read(paths: Sequence[Path]) -> Deep:
        w1, b1, w2, b2 = (np.load(path, allow_pickle=False).astype(float) for path in paths)
        return Deep((w1.T, w2.T), (b1.ravel(), b2.ravel()))

    return PublicNetwork(files, read)
