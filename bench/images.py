"""Speed of the image half: minimal-norm curve, training throughput, heads on 50,000 x 512.

Each row is (name, measured, target, ok, note). Nothing is downloaded: digits, and made-up images of
CIFAR's shape, for time does not depend on what is in a picture.
"""

from __future__ import annotations

import time

import numpy as np

Row = tuple[str, str, str, bool, str]


def rows() -> list[Row]:
    found = [heads()]
    try:
        import torch  # noqa: F401
    except ImportError:
        missing = ("not run", "torch is not installed")
        return [*found, *((n, missing[0], "", True, missing[1]) for n in ("curve", "training"))]
    return [*curve(), throughput(), *found]


def curve(images: int = 100) -> list[Row]:
    """One minimal-norm pass against PGD-40 at 20 radii, in gradients and in accuracy."""
    from featavg.data.image_sets.loading import load
    from featavg.nets.torch.architecture import architecture
    from featavg.paper.images.curves import coarse_model, minimal_radii
    from featavg.robustness.curve import curve_of, pgd_curve
    from featavg.training.torch.module import train_module
    from featavg.training.torch.recipe import ImageRecipe

    task = load("digits")
    net = architecture("convnet", task, "fine", 16).build()
    train_module(net, task, "fine", ImageRecipe(epochs=10, batch=64, rate=0.05, crop=1))
    x, y = task.test.unit[:images], task.targets(task.test, "coarse")[:images]
    own = task.test.fine[:images]
    seconds = {}
    start = time.process_time()
    model = coarse_model(net, task, "fine", "probability").shaped(x)
    found = minimal_radii(model, x, y, "l2", 60)
    seconds["minimal"] = time.process_time() - start
    gradients = model.cost.gradients / images
    radii = np.linspace(0.0, 1.5 * float(np.median(found)), 21)[1:]
    start = time.process_time()
    model = coarse_model(net, task, "fine", "probability")
    pgd = pgd_curve(model, x, y, radii, own=own, steps=40)
    seconds["pgd"] = time.process_time() - start
    ours = curve_of(found, model.unit("l2"), radii)
    higher = float(np.max(ours.accuracy - pgd.accuracy))
    cheaper = seconds["pgd"] / seconds["minimal"]
    return [
        (
            "minimal-norm pass against PGD-40 at 20 radii",
            f"{cheaper:.1f}x cheaper",
            ">= 5x",
            cheaper >= 5.0,
            f"{seconds['minimal']:.2f} s against {seconds['pgd']:.2f} s, {images} digits, convnet; "
            f"{gradients:.0f} gradients an image against {40 * len(radii)}, less what "
            "stops early",
        ),
        (
            "its robust accuracy above PGD's, anywhere",
            f"{100 * higher:+.1f} points",
            "<= 0",
            higher <= 0.0,
            "largest difference over the 20 radii",
        ),
    ]


def throughput(images: int = 1024, width: int = 8, repeats: int = 3) -> Row:
    """Our loop against a bare one: the same network, batches of ready tensors, no bookkeeping."""
    import torch
    from torch.nn import functional

    from featavg.data.images import Images, ImageTask, partition
    from featavg.nets.torch.architecture import architecture
    from featavg.training.torch.module import train_module
    from featavg.training.torch.recipe import ImageRecipe

    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (images, 3, 32, 32)).astype(np.uint8)
    data = Images(pixels, np.arange(images) % 10)
    names = tuple(map(str, range(10)))
    task = ImageTask("made up", data, data, partition("halves", 10), names, ("a", "b"), flips=True)
    x = torch.from_numpy(data.unit).contiguous(memory_format=torch.channels_last)
    y = torch.from_numpy(data.fine)

    def bare() -> None:
        net = architecture("resnet18", task, "fine", width).build()
        net = net.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        for start in range(0, images, 128):
            loss = functional.cross_entropy(net(x[start : start + 128]), y[start : start + 128])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

    def ours() -> None:
        net = architecture("resnet18", task, "fine", width).build()
        train_module(net, task, "fine", ImageRecipe(epochs=1, batch=128, rate=0.1))

    # Turn by turn, and processor time: other programs on the machine then weigh on both alike.
    best = {"bare": np.inf, "ours": np.inf}
    for _ in range(repeats):
        for name, call in (("bare", bare), ("ours", ours)):
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    slower = best["ours"] / best["bare"] - 1.0
    return (
        "training throughput against a bare loop",
        f"{100 * slower:+.1f}% time",
        "<= +10%",
        slower <= 0.10,
        f"{images / best['ours']:.0f} images a second of processor time, ResNet-18 of width {width}, "
        "augmentation included",
    )


def heads(n: int = 50_000, d: int = 512, steps: int = 300) -> Row:
    """A grouped head on 50,000 x 512 features, full batch."""
    from featavg.training.heads import HeadRecipe, train_head

    rng = np.random.default_rng(0)
    classes = np.arange(n) % 10
    mu = np.abs(rng.standard_normal((10, d)))
    x = np.abs(mu[classes] + 0.5 * rng.standard_normal((n, d)))
    groups = (np.arange(10) < 5).astype(int)
    start = time.process_time()
    train_head(x, classes, groups, "fine", HeadRecipe(steps=steps), 0)
    seconds = time.process_time() - start
    weights = np.zeros((d, 30))
    start = time.process_time()
    for _ in range(10):
        x.T @ (x @ weights)
    products = (time.process_time() - start) / 10 * steps
    return (
        f"heads on {n} x {d}: {steps} full-batch steps over their two matrix products",
        f"{seconds / products:.1f}x",
        "<= 3x",
        seconds <= 3.0 * products,
        f"{seconds:.0f} s of processor time, float64, 10 groups of 3",
    )


if __name__ == "__main__":
    for row in rows():
        print(*row, sep=" | ")
