"""Min and Vidal's public networks with powers of ReLU, 784-500-10 on MNIST."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from featavg.nets.deep import Deep
from featavg.paper.connections.min_vidal_mnist import FROM_PUBLISHED, PUBLISHED, power_relu_net
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import data_needed, run_folder, torch_needed
from featavg.paper.verification.decided import Row, decide, evidence
from featavg.paper.verification.networks import MNIST, POWERS, PublicNetwork
from featavg.progress import Progress, part
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model
from featavg.storage.cache import fingerprint, kept_arrays

if TYPE_CHECKING:
    import torch


def _weights(path: Any) -> dict[str, Any]:
    import torch

    found: Any = torch.load(path, map_location="cpu", weights_only=True)
    return {name: value.double().numpy() for name, value in found.items()}


def _plain(paths: Any) -> Deep:
    """The network of the first power, which is an ordinary one, its centre folded in."""
    w = _weights(paths[0])
    hidden = w["prelulayer.W"].T
    biases = -(hidden @ w["center"][0]), w["output_net.bias"]
    return Deep((hidden, w["output_net.weight"]), biases)


def public_power_net(path: Path, p: int) -> torch.nn.Module:
    """The published network with this power of ReLU."""
    import torch

    w = {name: torch.from_numpy(value) for name, value in _weights(path).items()}
    net = power_relu_net(w["center"], 10, w["prelulayer.W"].shape[1], float(p)).double()
    state = {"centre": w["center"].flatten(), "weights": w["prelulayer.W"].T}
    net.load_state_dict(state | {f"linear.{name}": w[f"output_net.{name}"] for name in ("weight", "bias")})
    return net.eval()


def _attacked(net: torch.nn.Module, pixels: ndarray, y: ndarray, budget: int, progress: Progress) -> dict[str, ndarray]:
    """The radii that the attack finds, zero where an image is misclassified."""
    model = torch_model(net, groups=range(10), readout="max", batch=512)
    found = attack_suite(model, pixels, y, "l2", "multi-start-ddn", budget=budget, progress=progress)
    return {"radii": found.radii}


@claim(
    "verification-prelu", "The public networks with powers of ReLU: what attacks leave, and what is certain",
    theme="Verification",
    source="Min and Vidal 2024, public weights; the published row as third-party notes give it",
    measured="robust accuracy at l2 radius 1.0 in the pixel box by the strongest attack on the first MNIST "
    "test images, for p = 1 to 4; for p = 1, a ReLU network, `fa.certify` too (a certificate for higher "
    "powers is not to be had: they are no piecewise linear functions)",
    tier="full", minutes=10, needs=("torch", "mnist"), seeds=1, runs=0,
)  # fmt: skip
def prelu(run: Context, images: int = 200, few: int = 10, budget: int = 100, seconds: float = 60.0) -> Evidence:
    """At l2 radius 1.0 attacks leave about the published 30.1% (p = 1) and 77.5% (p = 4); for p = 1 nothing
    that is certified is flipped by an attack.
    """
    torch_needed()
    test = data_needed("mnist", run).test
    pixels, y = test.unit[:images], test.fine[:images]
    robust, radii = [], []
    for p, file in enumerate(POWERS, start=1):
        net = public_power_net(file.found(run), p)
        share = part(run.progress, 0.15 * (p - 1), 0.15 * p)
        key = fingerprint([*(one.numpy() for one in net.state_dict().values()), pixels], p, budget)
        one = partial(_attacked, net, pixels, y, budget, share)
        kept = kept_arrays(run_folder(run) / "verification" / f"prelu-{p}", key, one)
        radii.append(kept["radii"])
        robust.append(100.0 * float(np.mean(radii[-1] > 1.0)))
    plain = PublicNetwork(POWERS[:1], _plain)
    rows = [Row("pReLU p = 1", plain, MNIST, few, 1.0, box, "30.1% left by attacks") for box in (False, True)]
    last = Context(run.seeds, run.full, run.data_dir, part(run.progress, 0.6, 1.0))
    decided = decide(rows, last, seconds)
    certain = decided[1]["certified"]
    attacked = int(np.sum(radii[0][:few] > 1.0))
    first, fourth = PUBLISHED["l2", 1.0]
    said = evidence(
        rows,
        decided,
        *(
            Check(f"p = {p}: robust accuracy at 1.0, %", robust[p - 1], "within",
                  (round(known - FROM_PUBLISHED, 1), round(known + FROM_PUBLISHED, 1)),
                  note=f"published: {known:g}")
            for p, known in ((1, first), (4, fourth))
        ),
        Check(f"p = 1, first {few} images: certified in the box", certain, "<=", attacked,
              note="as many as the attack leaves, at most"),
    )  # fmt: skip
    powers = ", ".join(f"{value:.1f} (p = {p})" for p, value in enumerate(robust, start=1))
    return Evidence(
        *said.checks,
        figures=said.figures,
        numbers={**said.numbers, "attacked": dict(zip("1234", robust, strict=True))},
        finding=f"Attacks with {budget} gradients leave, in percent of {images} images: {powers}. {said.finding}",
    )
