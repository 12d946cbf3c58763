"""Shah et al. (2020): a digit above a vehicle, and which of the two a network looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.image_sets.loading import load
from featavg.data.images import Images
from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.figures.result import Result
from featavg.paper.connections.block_shuffle import shuffled_auc
from featavg.paper.connections.numpy_sgd import Minibatch, train_minibatch
from featavg.progress import Progress, part, silent

# As published for deep networks: as it is, digits shuffled, vehicles shuffled.
PUBLISHED_AREAS = (1.000, 0.494, 1.000)
SHUFFLED_AREAS = ("as it is", "digits shuffled", "vehicles shuffled")
DIGITS, VEHICLES = (0, 1), (1, 9)  # zero and one; automobile and truck
SHAPE = 3, 64, 32  # a digit in a frame of zeros, three times the same channel, above a vehicle
NETWORKS = ("convolutional", "dense")
WIDTH = 8  # channels of the first stage of the ResNet-18
BATCH = {"convolutional": 128, "dense": 256}
EPOCHS = 2  # of the convolutional network
Scores = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


@dataclass(frozen=True, repr=False)
class PairedPictures(Result):
    """Areas under the ROC curve, a row for each seed: as it is, digits and vehicles shuffled.

    `network` is "convolutional" (a narrow ResNet-18) or "dense"; `accuracy` is of the test pictures.

    Returned by `fa.paired_pictures`, which has an example.
    """

    seeds: tuple[int, ...]
    aucs: Float[ndarray, "s 3"]
    accuracy: Float[ndarray, " s"]
    network: str = "convolutional"

    @property
    def mean(self) -> Float[ndarray, " 3"]:
        """The areas, averaged over the seeds."""
        return np.asarray(self.aucs.mean(axis=0))

    def figure(self) -> Figure:
        """The three areas beside the published ones."""
        low, high = self.aucs.min(axis=0), self.aucs.max(axis=0)
        bars = (
            Bar("measured", self.mean, "neutral", low, high),
            Bar("published", PUBLISHED_AREAS, "published"),
        )
        axis, coin = Axis("AUC", range=(0.0, 1.05)), (Rule(0.5, label="a coin"),)
        return Figure(
            "mnist-cifar",
            "A digit above a vehicle",
            f"AUC of a {self.network} network on pictures of a digit (0 or 1) above a vehicle "
            "(automobile or truck), as they are and with either half shuffled among the test "
            "pictures.",
            (Bars(SHUFFLED_AREAS, bars, axis, rules=coin),),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "network": self.network,
            "seeds": list(self.seeds),
            "aucs": self.aucs.tolist(),
            "accuracy": self.accuracy.tolist(),
            "published": PUBLISHED_AREAS,
        }

    def summary(self) -> str:
        """The mean areas."""
        parts = (
            f"{name} {value:.3f}" for name, value in zip(SHUFFLED_AREAS, self.mean, strict=True)
        )
        return (
            f"A digit above a vehicle, {self.network} network, mean AUC of {len(self.seeds)} seeds: "
            + ", ".join(parts)
        )


def paired_pictures(
    data_dir: Path | None = None,
    *,
    network: str = "convolutional",
    steps: int | None = None,
    seeds: Sequence[int] = (0,),
    progress: Progress = silent,
) -> PairedPictures:
    """Train a network on MNIST digits above CIFAR-10 vehicles, and shuffle either half.

    Args:
        data_dir: the folder with both data sets.
        network: "convolutional" (a ResNet-18 of width 8, which needs torch) or "dense" (two hidden
            layers of 100).
        steps: of SGD; unless given two epochs of batches of 128, or 600 batches of 256 (dense).
        seeds: one network each.
        progress: called with the share done and a note.

    >>> import featavg as fa  # needs mnist and cifar10
    >>> study = fa.paired_pictures("data", network="dense", steps=20)
    """
    one_of("network", network, NETWORKS)
    if steps is not None and steps < 1:
        raise InputError("steps", f"is {steps}", "give 1 or more")
    digits, vehicles = (load(name, data_dir) for name in ("mnist", "cifar10"))
    blocks: tuple[list[int], ...] = ([], *halves())
    rows, accuracy = [], []
    for i, seed in enumerate(seeds):
        share = part(progress, i / len(seeds), (i + 1) / len(seeds))
        share(0.0, f"seed {seed}")
        x, y = paired(digits.train, vehicles.train, seed)
        train = _convolutional if network == "convolutional" else _dense
        scores = train(x, y, steps, seed, share)
        test, labels = paired(digits.test, vehicles.test, seed)
        rows.append([shuffled_auc(scores, test, labels, b, None, seed) for b in blocks])
        accuracy.append(np.mean(scores(test) * labels > 0))
    return PairedPictures(tuple(seeds), np.array(rows), np.array(accuracy), network)


def halves() -> tuple[list[int], list[int]]:
    """The coordinates of the digit and of the vehicle in a flat picture."""
    upper = np.zeros(SHAPE, dtype=bool)
    upper[:, :32] = True
    return np.flatnonzero(upper).tolist(), np.flatnonzero(~upper).tolist()


def paired(
    digits: Images, vehicles: Images, seed: int
) -> tuple[Float[ndarray, "n d"], Int[ndarray, " n"]]:
    """A zero above an automobile (class -1), a one above a truck (class +1), paired at random."""
    rows, labels = [], []
    draw = stream(seed, "mnist-cifar")
    for sign, digit, vehicle in zip((-1, 1), DIGITS, VEHICLES, strict=True):
        first, second = (
            draw.permutation(np.flatnonzero(images.fine == kind))
            for images, kind in ((digits, digit), (vehicles, vehicle))
        )
        count = min(len(first), len(second))
        pictures = np.zeros((count, *SHAPE), dtype=np.float32)
        pictures[:, :, 2:30, 2:30] = digits[first[:count]].unit
        pictures[:, :, 32:] = vehicles[second[:count]].unit
        rows.append(pictures.reshape(count, -1))
        labels.append(np.full(count, sign))
    return np.concatenate(rows), np.concatenate(labels)


def _dense(
    x: Float[ndarray, "n d"],
    y: Int[ndarray, " n"],
    steps: int | None,
    seed: int,
    progress: Progress,
) -> Scores:
    """Two hidden layers of 100 on centred pixels; every pixel of the digit counts once."""
    kept = np.delete(np.arange(x.shape[1]), _repeated())
    mean = x[:, kept].mean(axis=0)
    recipe = Minibatch((100, 100), 0.05, 0.9, BATCH["dense"], 600 if steps is None else steps)
    net = train_minibatch((x[:, kept] - mean).astype(float), y, recipe, seed)
    return lambda z: net((z[:, kept] - mean).astype(float))[:, 0]


def _repeated() -> Int[ndarray, " c"]:
    """The coordinates of the digit's frame and of its second and third channel."""
    once = np.zeros(SHAPE, dtype=bool)
    once[0, 2:30, 2:30], once[:, 32:] = True, True
    return np.flatnonzero(~once)


def _convolutional(
    x: Float[ndarray, "n d"],
    y: Int[ndarray, " n"],
    steps: int | None,
    seed: int,
    progress: Progress,
) -> Scores:
    """A ResNet-18 of width 8 by SGD with momentum, no augmentation, on normalised pixels."""
    import torch
    from torch.nn import functional

    from featavg.nets.torch.image_nets import resnet18
    from featavg.nets.torch.inference import evaluating
    from featavg.training.torch.batches import Batches

    pictures = x.reshape(-1, *SHAPE)
    mean, deviation = (getattr(pictures, name)(axis=(0, 2, 3)).tolist() for name in ("mean", "std"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = resnet18(1, WIDTH, 3, mean, deviation)
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    batches = Batches(pictures, (y > 0).astype(int), BATCH["convolutional"], seed)
    total, done = EPOCHS * len(batches) if steps is None else steps, 0
    while done < total:
        for picture, label in batches.epoch(done // len(batches)):
            if done == total:
                break
            output = net(picture)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(output, label.to(output))
            sgd.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            sgd.step()
            done += 1
            progress(done / total, f"step {done} of {total}, loss {loss.item():.3f}")

    def scores(z: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        parts = torch.split(torch.from_numpy(z.reshape(-1, *SHAPE)), BATCH["convolutional"])
        with evaluating(net), torch.no_grad():
            return torch.cat([net(each)[:, 0] for each in parts]).double().numpy()

    return scores
