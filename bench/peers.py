"""SDP-CROWN's MNIST network by the verifiers of others, on the images and machine on which `certify` is measured.

    git clone https://github.com/Verified-Intelligence/auto_LiRPA data/networks/auto_LiRPA     (commit a050a3d)
    PYTHONPATH=data/networks/auto_LiRPA python bench/peers.py alpha --data-dir data
    PYTHONPATH=data/networks/SDP-CROWN_auto-verify python bench/peers.py sdp --data-dir data
    python bench/peers.py featavg --data-dir data

Both packages are called auto_LiRPA, so each runs in a process of its own. Theirs is a lower bound of every
margin in the whole ball; an image is verified if all are positive. They need appdirs, graphviz and tqdm.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import process_time

import numpy as np

from featavg.paper.engine.claim import Context
from featavg.paper.verification.decided import Row, decide
from featavg.paper.verification.networks import SDP_MLP, SDP_MNIST

RADIUS = 1.0
# alpha-CROWN with the published number of steps; SDP-CROWN as its public configuration has it.
OPTIONS = {
    "alpha": {"iteration": 100},
    "sdp": {
        "iteration": 300,
        "lr_alpha": 0.5,
        "lr_lambda": 0.05,
        "early_stop_patience": 20,
        "fix_interm_bounds": False,
        "enable_opt_interm_bounds": True,
        "enable_SDP_crown": True,
    },
}


def bounds_positive(x: np.ndarray, y: int, module, options: dict) -> bool:
    """Whether every lower bound of a margin in the ball is positive."""
    import torch
    from auto_LiRPA import BoundedModule, BoundedTensor
    from auto_LiRPA.perturbations import PerturbationLpNorm

    image = torch.from_numpy(x[None]).float()
    bounded = BoundedModule(module, image, verbose=0)
    bounded.set_bound_opts({"optimize_bound_args": options})
    rivals = [j for j in range(10) if j != y]
    margins = torch.zeros(1, 9, 10)
    margins[0, :, y] = 1.0
    margins[0, range(9), rivals] = -1.0
    ball = BoundedTensor(image, PerturbationLpNorm(norm=2.0, eps=RADIUS))
    lower, _ = bounded.compute_bounds(x=(ball,), method="CROWN-Optimized", C=margins, bound_upper=False)
    return bool((lower > 0).all())


def main(method: str, images: int, data_dir: Path) -> None:
    run = Context(data_dir=data_dir)
    if method == "featavg":
        found = decide([Row("SDP-CROWN MLP", SDP_MLP, SDP_MNIST, images, RADIUS)], run, 60.0)[0]
        right, counts = images - found["misclassified"], f"{found['certified']}, flipped {found['flipped']}"
        spent = found["cpu_seconds_mean"] * images / right
        print(f"featavg: certified {counts} of {right} rightly classified images, {spent:.2f} CPU seconds each")
        return
    import torch

    torch.set_num_threads(1)
    net, (x, y) = SDP_MLP.loaded(run), SDP_MNIST.loaded(run)
    layers: list[torch.nn.Module] = []
    for weight, bias in zip(net.weights, net.biases or (), strict=True):
        layers += [torch.nn.Linear(*weight.shape[::-1]), torch.nn.ReLU()]
        layers[-2].load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)})
    module = torch.nn.Sequential(*layers[:-1]).eval()
    right = [i for i in range(images) if net(x[i : i + 1]).argmax() == y[i]]
    begun = process_time()
    verified = sum(bounds_positive(x[i], int(y[i]), module, OPTIONS[method]) for i in right)
    spent = (process_time() - begun) / len(right)
    print(f"{method}: verified {verified} of {len(right)} rightly classified images, {spent:.2f} CPU seconds each")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("method", choices=[*OPTIONS, "featavg"])
    parser.add_argument("--images", type=int, default=25, help="the first ones")
    parser.add_argument("--data-dir", type=Path, required=True)
    main(**vars(parser.parse_args()))
