"""Min and Vidal (2024) on images: are higher powers of ReLU more robust, and to which attack?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.image_sets.loading import load
from featavg.data.images import ImageTask
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Role, Series
from featavg.figures.result import Result
from featavg.progress import Progress, part, silent
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.torch_model import torch_model
from featavg.storage.cache import kept_arrays
from featavg.training.checkpoint import fingerprint

if TYPE_CHECKING:
    import torch

# Robust accuracy in percent on MNIST, p = 1 and p = 4, as third-party notes give it.
PUBLISHED_POWERS: dict[tuple[str, float], tuple[float, float]] = {
    ("linf", 0.05): (51.2, 91.3),
    ("linf", 0.1): (4.0, 63.7),
    ("l2", 1.0): (30.1, 77.5),
    ("l2", 2.0): (0.7, 23.9),
}
NORMS = ("l2", "linf")
UNITS = {"l2": "l2, pixels in [0,1]", "linf": "l_inf, pixels in [0,1]"}


@dataclass(frozen=True)
class PowerReluRecipe:
    """How the networks are trained and attacked.

    Attributes:
        width: hidden neurons.
        epochs, batch, rate: of Adam on the cross-entropy.
        points: test images attacked.
        budget: gradients for each image and norm.

    >>> import featavg as fa
    >>> fa.PowerReluRecipe().width
    500
    """

    width: int = 500
    epochs: int = 10
    batch: int = 256
    rate: float = 1e-3
    points: int = 500
    budget: int = 100

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise InputError(name, f"is {value}", "give more than zero")


@dataclass(frozen=True, repr=False, eq=False)
class PowerReluImages(Result):
    """Accuracy and radii of every network.

    Attributes:
        data: the data set.
        powers, seeds: one network for each pair.
        accuracy: on all test images, by power and seed.
        radii: by norm, power and seed, of each attacked image; 0 where the image is misclassified.
            Upper bounds: what the attack found.

    Returned by `fa.power_relu_images`, which has an example.
    """

    data: str
    powers: tuple[float, ...]
    seeds: tuple[int, ...]
    accuracy: Float[ndarray, "p s"]
    radii: Mapping[str, Float[ndarray, "p s n"]]

    def robust(self, norm: str, radius: float) -> Float[ndarray, "p s"]:
        """The percentage of images that the attack needs more than `radius` for."""
        return np.asarray(100.0 * (self.radii[norm] > radius).mean(axis=-1))

    def figure(self) -> Figure:
        """Robust accuracy against the radius, in both norms, beside the published points."""
        panels = []
        for norm in NORMS:
            known = {r: pair for (n, r), pair in PUBLISHED_POWERS.items() if n == norm}
            grid = np.linspace(0.0, 1.5 * max(known), 40)
            rows = np.array([self.robust(norm, r) for r in grid])
            series = []
            for i, p in enumerate(self.powers):
                role: Role = "averaged" if p == 1 else "decoupled"
                series.append(Series.over_seeds(f"p = {p:g}", grid, rows[:, i].T, role))
                if p in (1.0, 4.0):
                    points = [pair[p == 4.0] for pair in known.values()]
                    label = f"published, p = {p:g}"
                    series.append(Series(label, list(known), points, "published", "markers"))
            axes = Axis("radius", UNITS[norm]), Axis("robust accuracy", "%", range=(0.0, 101.0))
            panels.append(Lines(*axes, tuple(series)))
        return Figure(
            "powers",
            f"Powers of ReLU on {self.data}",
            "Robust accuracy of networks of one hidden layer with relu^p, by the strongest attack on "
            "the decision; bands are seeds, points are published.",
            tuple(panels),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, the radius of each image to four digits."""
        return {
            "data": self.data,
            "powers": list(self.powers),
            "seeds": list(self.seeds),
            "accuracy": self.accuracy.tolist(),
            "radii": {norm: rows.round(4).tolist() for norm, rows in self.radii.items()},
            "published": {f"{n} {r:g}": pair for (n, r), pair in PUBLISHED_POWERS.items()},
        }

    def summary(self) -> str:
        """Clean accuracy and median radii."""
        rows = []
        for i, p in enumerate(self.powers):
            middle = {norm: np.median(self.radii[norm][i]) for norm in NORMS}
            rows.append(
                f"p = {p:g}: accuracy {self.accuracy[i].mean():.3f}, median radius "
                f"{middle['l2']:.2f} (l2) and {middle['linf']:.3f} (l_inf)"
            )
        return f"Powers of ReLU on {self.data}: " + "; ".join(rows)


def power_relu_images(
    data: str = "mnist",
    data_dir: Path | None = None,
    *,
    powers: Sequence[float] = (1.0, 4.0),
    recipe: PowerReluRecipe | None = None,
    seeds: Sequence[int] = (0,),
    folder: Path | None = None,
    progress: Progress = silent,
) -> PowerReluImages:
    """Train one hidden layer of relu^p on images for every power, and attack the classes in l2 and l_inf.

    Args:
        data: a set of images with classes, such as "mnist" or "digits".
        data_dir: the folder with data sets.
        powers: of the activation; 1 is the ReLU.
        recipe: the defaults of `PowerReluRecipe` unless given.
        seeds: of start and order.
        folder: where finished networks and radii are kept; a killed run goes on there.
        progress: called with the share done and a note.

    >>> import featavg as fa  # long
    >>> short = fa.PowerReluRecipe(width=20, epochs=1, points=5, budget=15)
    >>> fa.power_relu_images("digits", powers=(1.0,), recipe=short)
    Powers of ReLU on digits: p = 1: accuracy ...
    """
    if not powers or not seeds:
        raise InputError("powers", "or seeds are none", "give at least one of each")
    recipe, task = recipe or PowerReluRecipe(), load(data, data_dir)
    count = len(powers) * len(seeds)
    cells = []
    for i, (p, seed) in enumerate((p, seed) for p in powers for seed in seeds):
        share = part(progress, i / count, (i + 1) / count)
        key = fingerprint([task.train.pixels[:64], task.train.fine], asdict(recipe), p, seed)
        where = None if folder is None else folder / f"p{p:g}-seed{seed}"

        def cell(p: float = p, seed: int = seed, share: Progress = share) -> dict[str, ndarray]:
            return _cell(task, p, seed, recipe, share)

        cells.append(kept_arrays(where, key, cell))
    shape = len(powers), len(seeds)
    accuracy = np.array([one["accuracy"] for one in cells]).reshape(shape)
    radii = {norm: np.array([one[norm] for one in cells]).reshape(*shape, -1) for norm in NORMS}
    return PowerReluImages(data, tuple(powers), tuple(seeds), accuracy, radii)


def _cell(
    task: ImageTask, p: float, seed: int, recipe: PowerReluRecipe, progress: Progress
) -> dict[str, ndarray]:
    """One network: trained, tested, attacked."""
    net = _trained(task, p, seed, recipe, part(progress, 0.0, 0.5))
    classes = task.outputs("fine")
    model = torch_model(net, groups=range(classes), readout="max", batch=512)
    pixels, y = task.test.unit, task.test.fine
    outputs = model.shaped(pixels).outputs(pixels.reshape(len(y), -1))
    rows = stream(0, "attacked").permutation(len(y))[: recipe.points]
    radii = {}
    for i, norm in enumerate(NORMS):
        share = part(progress, 0.5 + 0.25 * i, 0.75 + 0.25 * i)
        found = attack_suite(
            model,
            pixels[rows],
            y[rows],
            norm,
            "multi-start-ddn",
            budget=recipe.budget,
            progress=share,
        )
        radii[norm] = found.radii
    return {"accuracy": np.array(np.mean(outputs.argmax(axis=1) == y)), **radii}


def _trained(
    task: ImageTask, p: float, seed: int, recipe: PowerReluRecipe, progress: Progress
) -> torch.nn.Module:
    import torch
    from torch.nn import functional

    from featavg.paper.connections.power_relu_module import PowerReLUNet
    from featavg.training.torch.batches import Batches

    centre = torch.from_numpy(task.train.unit.mean(axis=0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = PowerReLUNet(centre, task.outputs("fine"), recipe.width, p)
    adam = torch.optim.Adam(net.parameters(), lr=recipe.rate)
    batches = Batches(task.train.pixels, task.train.fine, recipe.batch, seed)
    for epoch in range(recipe.epochs):
        progress(epoch / recipe.epochs, f"p = {p:g}, epoch {epoch + 1} of {recipe.epochs}")
        for x, y in batches.epoch(epoch):
            loss = functional.cross_entropy(net(x), y)
            adam.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return net.eval()
