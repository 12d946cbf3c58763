"""Audit the public networks, and keep what the page `docs/public-networks.md` shows of each.

    python tools/record_audits.py DATA_FOLDER [NAME ...]

Each row is one `featavg audit` with its defaults, in a process of its own; a row that is not named stays as it
was. Where a file alone does not say what its network is, the row names a function of this file.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from featavg.paper.engine.claim import Context
from featavg.paper.verification import networks
from featavg.paper.verification.prelu import public_power_net

if TYPE_CHECKING:
    from torch import nn

TARGET = Path(__file__).resolve().parent.parent / "docs" / "audited.json"
FOLDER = "FEATAVG_DATA"


def main(data: str, *names: str) -> None:
    rows = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    os.environ[FOLDER] = str(Path(data).resolve())
    for name in names or ROWS:
        with TemporaryDirectory() as folder:
            words = [*ROWS[name](), "--out", folder, "--threads", "1"]
            begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            # This file is imported by the name that the row has: its folder is where the command starts.
            command = [sys.executable, "-m", "featavg", "audit", *words]
            subprocess.run(command, check=True, cwd=Path(__file__).parent)
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - begun
            found = json.loads((Path(folder) / "audit.json").read_text())
        rows[name] = described(found) | {"seconds": round(spent)}
        TARGET.write_text(json.dumps({one: rows[one] for one in ROWS if one in rows}, indent=1) + "\n")


def described(audit: dict[str, Any]) -> dict[str, Any]:
    """What the page shows of an audit."""
    layers = [one for one in audit["layers"] if one["layer"] == audit["layer"]]
    gain, budget = audit["predicted_gain"], audit["budget"]
    return {
        "data": f"{audit['about']['images']} images of {audit['about']['shape']}",
        "accuracy": audit["accuracy"]["value"],
        "verdict": audit["verdict"]["verdict"],
        "layer": audit["layer"],
        "shared": [layers[0][end] for end in ("value", "low", "high", "null")] if layers else None,
        "gain": None if gain is None else [gain[end] for end in ("value", "low", "high")],
        "budget": None if budget is None else budget["share"] or budget["refused"],
        "radius": audit["radii"]["median"],
    }


def _file(file: networks.PublicFile) -> str:
    return str(file.found(Context(data_dir=Path(os.environ[FOLDER]))))


def conv_small() -> nn.Module:
    return networks.convolutional_module(Path(_file(networks.CONV_SMALL.files[0])), 1, 28)


def cnn_a() -> nn.Module:
    return networks.convolutional_module(Path(_file(networks.CNN_A.files[0])), 3, 32)


def l2_trained() -> nn.Module:
    return networks.convolutional_module(Path(_file(networks.L2_TRAINED.files[0])), 3, 32)


def rsl18a() -> nn.Module:
    import torch

    net = networks.RSL18A.loaded(Context(data_dir=Path(os.environ[FOLDER])))
    layers: list[nn.Module] = [torch.nn.Flatten()]
    for weight, bias in zip(net.weights, net.biases or (), strict=True):
        layers += [torch.nn.Linear(*weight.shape[::-1]), torch.nn.ReLU()]
        layers[-2].load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    return torch.nn.Sequential(*layers[:-1])


def first_power() -> nn.Module:
    return public_power_net(Path(_file(networks.POWERS[0])), 1).float()


def fourth_power() -> nn.Module:
    return public_power_net(Path(_file(networks.POWERS[3])), 4).float()


def _made(factory: Callable[[], nn.Module], data: str, *flags: str) -> Callable[[], list[str]]:
    return lambda: [f"record_audits:{factory.__name__}", "--data", data, *flags]


def _resnet(name: str) -> Callable[[], list[str]]:
    return lambda: [f"{os.environ[FOLDER]}/weights/{name}.th", "--data", "cifar10"]


def _of(network: networks.PublicNetwork) -> Callable[[], list[str]]:
    return lambda: [_file(network.files[0]), "--data", "mnist"]


ROWS: dict[str, Callable[[], list[str]]] = {
    "ResNet-20, CIFAR-10": _resnet("resnet20-12fca82f"),
    "ResNet-32, CIFAR-10": _resnet("resnet32-d509ac18"),
    "CNN-A, CIFAR-10": _made(cnn_a, "cifar10", "--mean", "0.4914,0.4824,0.4467", "--std", "0.225,0.225,0.225"),
    "cifar_small_36px, CIFAR-10": _made(
        l2_trained, "cifar10", "--mean", "0.485,0.456,0.406", "--std", "0.225,0.225,0.225"
    ),
    "SDP-CROWN's 784-100-100-10, MNIST": _of(networks.SDP_MLP),
    "ConvSmall, MNIST": _made(conv_small, "mnist"),
    "RSL18a 784-500-10, MNIST": _made(rsl18a, "mnist"),
    "784-256-256-10 (ONNX), MNIST": _of(networks.FOMLAS["mnist-net_256x2"]),
    "784-512-512-10 (ONNX), MNIST": _of(networks.FOMLAS["mnist-net"]),
    "mnist_6_100, MNIST": _of(networks.ERAN["mnist_6_100"]),
    "mnist_9_200, MNIST": _of(networks.ERAN["mnist_9_200"]),
    "pReLU to the power 1, MNIST": _made(first_power, "mnist"),
    "pReLU to the power 4, MNIST": _made(fourth_power, "mnist"),
}


if __name__ == "__main__":
    main(*sys.argv[1:])
