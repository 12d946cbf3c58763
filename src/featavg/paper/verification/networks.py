"""The public networks and image sets: which files they are, and what these are read as.

Nothing of them is in this package. A user clones a repository into `networks/` of the data folder; a file
that is missing is a sentence with that command, and one without the sum in `files.sha256` is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from torch import nn

SDP = "henba1/SDP-CROWN_auto-verify"
CROWN = "Verified-Intelligence/alpha-beta-CROWN"
ROBUSTNESS = "ADA-research/NNV_JAIR_robustness_distributions"
MIP, CONVEX, PRELU = "vtjeng/MIPVerify_data", "locuslab/convex_adversarial", "hanchmin/pReLU_ICML24"


@cache
def published() -> dict[str, str]:
    """The sha256 of each file, by its path in `networks/`."""
    lines = Path(__file__).with_name("files.sha256").read_text(encoding="utf-8").splitlines()
    return {path: digest for digest, path in (line.split() for line in lines)}


@dataclass(frozen=True)
class PublicFile:
    """A file of a public repository."""

    repository: str
    path: str

    def found(self, run: Context) -> Path:
        """Where the user has put it, checked."""
        place = f"{self.repository.split('/')[1]}/{self.path}"
        networks = data_folder(run.data_dir) / "networks"
        path = networks / place
        if not path.exists():
            source, folder = f"https://github.com/{self.repository}", networks / place.split("/", maxsplit=1)[0]
            raise NotRun(f"{path} is not there: git clone --depth 1 {source} {folder}")
        if hashlib.sha256(read_bytes(path, ARRAY_LIMIT)).hexdigest() != published()[place]:
            raise InputError(str(path), "is not the file that was published", "get it again")
        return path


def _one(paths: Sequence[Path]) -> Deep:
    return load_network(paths[0])


@dataclass(frozen=True)
class PublicNetwork:
    """A network by its files, and how they are read: by default one that needs nothing else."""

    files: tuple[PublicFile, ...]
    read: Callable[[Sequence[Path]], Deep] = _one

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


def small_convolutional(file: PublicFile, channels: int, size: int, **normalisation: Any) -> PublicNetwork:
    """Two convolutions of 16 and 32 channels, 4 x 4 with stride 2, and two dense layers."""

    def read(paths: Sequence[Path]) -> Deep:
        net = convolutional_module(paths[0], channels, size)
        return load_network(net, shape=(channels, size, size), **normalisation)

    return PublicNetwork((file,), read)


def convolutional_module(path: Path, channels: int, size: int) -> nn.Sequential:
    """The same as a torch module, without the normalisation."""
    import torch
    from torch import nn

    net = nn.Sequential(
        nn.Conv2d(channels, 16, 4, 2, 1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * (size // 4) ** 2, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
    weights: Any = torch.load(path, map_location="cpu", weights_only=True)
    # A cascade of networks: the first is the network of the paper's table.
    weights = weights["state_dict"][0] if "state_dict" in weights else weights
    net.load_state_dict(dict(zip(net.state_dict(), weights.values(), strict=True)))
    return net.eval()


def _columns(paths: Sequence[Path]) -> Deep:
    """One hidden layer in four arrays: weights and biases, columns are neurons."""
    w1, b1, w2, b2 = (np.load(path, allow_pickle=False).astype(float) for path in paths)
    return Deep((w1.T, w2.T), (b1.ravel(), b2.ravel()))


def _sdp_images(name: str) -> PublicImages:
    return PublicImages(tuple(PublicFile(SDP, f"datasets/sdp/{name}/{array}_sdp.npy") for array in "Xy"))


SDP_MNIST, SDP_CIFAR, MNIST = _sdp_images("mnist"), _sdp_images("cifar"), PublicImages()
SDP_MLP = PublicNetwork((PublicFile(SDP, "models/mnist_mlp.pth"),))
RSL18A = PublicNetwork(
    tuple(PublicFile(MIP, f"weights/mnist/RSL18a/linf0.1/{k}.npy") for k in ("W1", "B1", "W2", "B2")), _columns
)
# By their own names; what those of ERAN call layers counts the last one.
ERAN = {
    name: PublicNetwork((PublicFile(CROWN, f"complete_verifier/models/eran/{name}_nat.pth"),))
    for name in ("mnist_6_100", "mnist_6_200", "mnist_9_100", "mnist_9_200")
}
FOMLAS = {
    name: PublicNetwork((PublicFile(ROBUSTNESS, f"networks_onnx/MNIST/fomlas/{name}.onnx"),))
    for name in ("mnist-net", "mnist-net_256x2", "mnist-net_256x4", "mnist-net_256x6", "mnist_relu_3_100")
}
CONV_SMALL = small_convolutional(PublicFile(SDP, "models/mnist_convsmall.pth"), 1, 28)
# The normalisation is theirs: 62% of their 200 images are then classified rightly.
CNN_A = small_convolutional(
    PublicFile(SDP, "models/cifar10_cnn_a.pth"), 3, 32, mean=(0.4914, 0.4824, 0.4467), std=(0.225,) * 3
)
L2_TRAINED = small_convolutional(
    PublicFile(CONVEX, "models_scaled_l2/cifar_small_36px.pth"), 3, 32, mean=(0.485, 0.456, 0.406), std=(0.225,) * 3
)
POWERS = tuple(PublicFile(PRELU, f"pReLU_pretrained_models/pReLU_{p}_pretrained.pt") for p in (1, 2, 3, 4))
