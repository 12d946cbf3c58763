"""Shah et al. (2020): networks rely on the simplest feature alone, and ignore equally good ones.

Slab data has coordinates that each give the label away, some simply, some not. A *linear* coordinate
has the sign of the label, with a margin. A *k-slab* coordinate lies in one of k slabs whose labels
alternate, the middle one negative: the more slabs, the more pieces a classifier of that coordinate
needs. Coordinates are drawn independently given the label, and the whole is turned by a random
rotation, so that no coordinate can be read off alone.

On which of them does a classifier rely? Permute the values of some coordinates among the test points,
which keeps their distribution and destroys what they say about the label: the area under the ROC curve
falls to 0.5 if the classifier relies on them, and stays if it ignores them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.stats import rankdata

from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Bar, Bars, Figure, Rule
from featavg.nets.deep import Deep
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.progress import Progress, silent

SOURCE = "Talks, 'Connection to simplicity bias'; Shah et al. 2020, sections 3 and 4"
STATEMENTS = ("itcs-simplicity", "csml-simplicity")
LINEAR, TEST = 1, 20_000
# The chance of the slab nearest to the middle among those of its label. Shah et al. chose these so
# that a slab coordinate carries no linear signal beyond its symmetry.
_INNER = {3: (1.0, 1.0), 5: (0.75, 1.0), 7: (0.5, 0.875)}  # (negative, positive)
# Slabs of the first coordinate and of the others, margin, noise.
TASKS = {
    "lms-3": (LINEAR, 3, 0.1, 0.0),
    "lms-5": (LINEAR, 5, 0.1, 0.0),
    "lms-7": (LINEAR, 7, 0.05, 0.0),
    "noisy-lms-7": (LINEAR, 7, 0.05, 0.1),
    "ms-5-7": (5, 7, 0.05, 0.0),
    "slabs-5": (5, 5, 0.1, 0.0),
}
# AUC of the paper's networks on LMS-5: as it is, linear block shuffled, slab blocks shuffled.
PUBLISHED_AREAS = (1.000, 0.507, 1.000)
HARD = {"d": 20, "n": 40_000, "steps": 2500, "lr": 0.1}


@dataclass(frozen=True, eq=False)
class Slabs:
    """A task with one coordinate for each entry of `blocks`: how many slabs it has, 1 if it is linear.

    Args:
        blocks: LMS-5 in d dimensions is (1, 5, 5, ...), MS-(5,7) is (5, 7, 7, ...).
        margin: half of the gap between neighbouring slabs; all coordinates fill [-1, 1].
        noise: the share of points whose linear coordinates fall into the margin, without a label.
    """

    blocks: Sequence[int]
    margin: float = 0.1
    noise: float = 0.0

    def __post_init__(self) -> None:
        wrong = [k for k in self.blocks if k != LINEAR and k not in _INNER]
        if wrong or len(self.blocks) < 2:
            remedy = "give 1, 3, 5 or 7, two or more"
            raise InputError("blocks", f"are {tuple(self.blocks)}", remedy)
        if not 0 < self.margin < 1 / max(2, *(k - 1 for k in self.blocks)):
            raise InputError("margin", f"is {self.margin}", "leave room for every slab")
        if not 0 <= self.noise <= 1:
            raise InputError("noise", f"is {self.noise}", "give a share of the points")

    @property
    def simple(self) -> list[int]:
        """The coordinates with the fewest slabs."""
        return [i for i, k in enumerate(self.blocks) if k == min(self.blocks)]

    @property
    def complex(self) -> list[int]:
        """The coordinates with more slabs than the simplest."""
        return [i for i, k in enumerate(self.blocks) if k != min(self.blocks)]

    def rotation(self, seed: int) -> Float[ndarray, "d d"]:
        """The rotation of `seed`: points are coordinates @ rotation."""
        d = len(self.blocks)
        q, r = np.linalg.qr(stream(seed, "slab-rotation").standard_normal((d, d)))
        return np.asarray(q * np.sign(np.diag(r)))

    def sample(self, n: int, seed: int, purpose: str = "train") -> tuple[Float[ndarray, "n d"], Int[ndarray, " n"]]:
        """n points before rotation, and their labels, -1 or +1."""
        if n < 2:
            raise InputError("n", f"is {n}", "draw at least two points")
        draw = stream(seed, f"slabs-{purpose}")
        y = draw.choice([-1, 1], size=n)
        columns = [self._coordinate(k, y, draw) for k in self.blocks]
        return np.stack(columns, axis=1), y

    def _coordinate(self, k: int, y: Int[ndarray, " n"], draw: np.random.Generator) -> Float[ndarray, " n"]:
        if k == LINEAR:
            z = y * draw.uniform(self.margin, 1.0, len(y))
            lost = draw.random(len(y)) < self.noise
            return np.where(lost, draw.uniform(-self.margin, self.margin, len(y)), z)
        # Slabs are numbered from the middle: 0, 1, ..., (k-1)/2; even ones are negative.
        width = (2.0 - 2.0 * (k - 1) * self.margin) / k
        inner = draw.random(len(y)) < np.where(y < 0, _INNER[k][0], _INNER[k][1])
        first = np.where(y < 0, 0, 1)
        ring = np.where(inner, first, first + 2)
        ring = np.minimum(ring, np.where((k - 1) // 2 >= first + 2, first + 2, first))
        start = np.where(ring == 0, 0.0, (ring - 0.5) * width + 2.0 * ring * self.margin)
        span = np.where(ring == 0, 0.5 * width, width)
        return draw.choice([-1.0, 1.0], size=len(y)) * (start + span * draw.random(len(y)))


def slab_task(name: str, d: int) -> Slabs:
    """A task of `TASKS` in d dimensions.

    >>> slab_task("ms-5-7", 4).blocks
    (5, 7, 7, 7)
    """
    first, others, margin, noise = TASKS[one_of("task", name, TASKS)]
    return Slabs((first, *[others] * (d - 1)), margin, noise)


def auc(scores: Float[ndarray, " n"], y: Int[ndarray, " n"]) -> float:
    """P(score of a positive > score of a negative), ties counted half.

    >>> auc(np.array([0.1, 0.4, 0.35, 0.8]), np.array([-1, -1, 1, 1]))
    0.75
    """
    ranks = rankdata(scores)
    up = y > 0
    positives, negatives = int(up.sum()), int((~up).sum())
    above = ranks[up].sum() - positives * (positives + 1) / 2
    return float(above / (positives * negatives))


def shuffled_auc(
    classifier: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]],
    coordinates: Float[ndarray, "n d"],
    y: Int[ndarray, " n"],
    block: Sequence[int],
    rotation: Float[ndarray, "d d"] | None,
    seed: int,
) -> float:
    """The AUC after the coordinates of `block` have been permuted among the points, as one block.

    Points are coordinates @ rotation; `rotation` is None if they were not turned.
    """
    moved = coordinates.copy()
    order = stream(seed, "block-shuffle").permutation(len(y))
    moved[:, list(block)] = coordinates[order][:, list(block)]
    return auc(classifier(moved if rotation is None else moved @ rotation), y)


@dataclass(frozen=True)
class Minibatch:
    """Plain SGD on the logistic loss, PyTorch's default initialisation of linear layers.

    At most `steps`, fewer if the loss of an epoch's worth of steps falls below `target`.
    """

    widths: Sequence[int] = (100,)
    lr: float = 0.3
    momentum: float = 0.0
    batch: int = 256
    steps: int = 3000
    target: float = 0.0

    def __post_init__(self) -> None:
        for name in ("lr", "batch", "steps"):
            if not getattr(self, name) > 0:
                raise InputError(name, f"is {getattr(self, name)}", "give a positive number")
        if not 0 <= self.momentum < 1:
            raise InputError("momentum", f"is {self.momentum}", "give a share in [0, 1)")


def train_minibatch(
    x: Float[ndarray, "n d"], y: Int[ndarray, " n"], recipe: Minibatch, seed: int, progress: Progress | None = None
) -> Deep:
    """Train a network with one output on labels -1 and +1.

    Single precision: the data are noise to the last digits anyway, and it is twice as fast.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(500, 3))
    >>> net = train_minibatch(x, np.where(x[:, 0] > 0, 1, -1), Minibatch((20,), steps=300), 0)
    >>> bool(np.mean((net(x)[:, 0] > 0) == (x[:, 0] > 0)) > 0.95)
    True
    """
    draw = stream(seed, "minibatch")
    sizes = (x.shape[1], *recipe.widths, 1)
    weights, biases = [], []
    for below, here in pairwise(sizes):
        bound = below**-0.5
        weights.append(draw.uniform(-bound, bound, (here, below)).astype(np.float32))
        biases.append(draw.uniform(-bound, bound, here).astype(np.float32))
    moments = [np.zeros_like(a) for a in (*weights, *biases)]
    data, labels = x.astype(np.float32), y.astype(np.float32)
    each = max(1, len(x) // recipe.batch)
    recent: list[float] = []
    order = draw.permutation(len(x))
    for step in range(recipe.steps):
        at = step % each
        if at == 0:
            order = draw.permutation(len(x))
            if recent and float(np.mean(recent)) < recipe.target:
                break
            recent = []
        rows = order[at * recipe.batch : (at + 1) * recipe.batch]
        recent.append(_step(data[rows], labels[rows], weights, biases, moments, recipe))
        if progress is not None and step % 200 == 0:
            progress(step / recipe.steps, f"loss {recent[-1]:.4f}")
    return Deep(tuple(w.astype(float) for w in weights), tuple(b.astype(float) for b in biases))


def _step(
    x: Float[ndarray, "b d"],
    y: Float[ndarray, " b"],
    weights: list[ndarray],
    biases: list[ndarray],
    moments: list[ndarray],
    recipe: Minibatch,
) -> float:
    """One step in place; returns the loss of the batch before it."""
    hidden = [x]
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        hidden.append(np.maximum(hidden[-1] @ w.T + b, 0.0))
    q = y * (hidden[-1] @ weights[-1].T + biases[-1])[:, 0]
    loss = float(np.logaddexp(0.0, -q).mean())
    slope = (-y / (1.0 + np.exp(np.minimum(q, 60.0))) / len(y))[:, None]
    count = len(weights)
    for layer in range(count - 1, -1, -1):
        steps = slope.T @ hidden[layer], slope.sum(axis=0)
        if layer:
            slope = (slope @ weights[layer]) * (hidden[layer] > 0)
        for at, step, array in ((layer, steps[0], weights[layer]), (count + layer, steps[1], biases[layer])):
            moments[at] = recipe.momentum * moments[at] + step
            np.subtract(array, recipe.lr * moments[at], out=array)
    return loss


def slab_reliance(
    name: str,
    seeds: Sequence[int],
    progress: Progress = silent,
    *,
    d: int = 50,
    n: int = 20_000,
    widths: Sequence[int] = (100, 100),
    steps: int = 800,
    lr: float = 0.3,
    momentum: float = 0.9,
) -> xr.Dataset:
    """Train a dense network on a slab task; its AUCs as it is, and with the simplest or all others shuffled."""
    recipe = Minibatch(tuple(widths), lr, momentum, 256, steps)
    rows = []
    for i, seed in enumerate(seeds):
        progress(i / len(seeds), f"{name}, seed {seed}")
        rows.append(_one(slab_task(name, d), seed, n, recipe))
    aucs, accuracy, fitted = (np.array(column) for column in zip(*rows, strict=True))
    variables = {
        "auc": (("seed", "shuffled"), aucs),
        "accuracy": ("seed", accuracy),
        "train_accuracy": ("seed", fitted),
    }
    return xr.Dataset(variables, {"seed": list(seeds), "shuffled": ["none", "simplest", "others"]})


def _one(task: Slabs, seed: int, n: int, recipe: Minibatch) -> tuple[list[float], float, float]:
    """The areas, the test accuracy and the training accuracy of one seed."""
    coordinates, y = task.sample(n, seed)
    turn = task.rotation(seed)
    net = train_minibatch(coordinates @ turn, y, recipe, seed)

    def classify(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return net(x)[:, 0]

    fresh, labels = task.sample(TEST, seed, "test")
    blocks: tuple[list[int], ...] = ([], task.simple, task.complex)
    aucs = [shuffled_auc(classify, fresh, labels, block, turn, seed) for block in blocks]
    accuracy = float(np.mean(classify(fresh @ turn) * labels > 0))
    return aucs, accuracy, float(np.mean(classify(coordinates @ turn) * y > 0))


def area_checks(
    table: xr.Dataset,
    names: Sequence[str],
    published: Sequence[float],
    widths: Sequence[float] = (0.02, 0.02, 0.02),
    **role: Any,
) -> list[Check]:
    """Mean AUCs against the published ones."""
    return [
        Check(
            name,
            row.mean(),
            "within",
            (round(known - width, 3), round(known + width, 3)),
            note=f"published: {known:.3f}; seeds {row.min():.3f} to {row.max():.3f}",
            **role,
        )
        for name, known, width, row in zip(names, published, widths, table["auc"].values.T, strict=True)
    ]


def area_panel(names: Sequence[str], *bars: Bar) -> Bars:
    """AUCs as bars, with the line of a coin."""
    coin = (Rule(0.5, label="a coin"),)
    return Bars(tuple(names), bars, Axis("AUC", range=(0.0, 1.05)), rules=coin)


def area_bars(table: xr.Dataset, published: Sequence[float]) -> tuple[Bar, Bar]:
    """Mean AUCs with the range over seeds, beside the published ones."""
    low, mean, high = (how(table["auc"].values, axis=0) for how in (np.min, np.mean, np.max))
    return Bar("measured", mean, "neutral", low, high), Bar("published", published, "published")


@claim(
    "connections-simplicity-lms5", "Simplicity bias on LMS-5: only the linear feature is used",
    theme="Connections", source=SOURCE,
    measured="AUC on 20,000 test points with blocks of coordinates shuffled; d = 50, random "
    "rotation, 20,000 training points, two hidden layers of 100, SGD",
    minutes=0.08, statements=("itcs-simplicity", "csml-simplicity", "summary-question-biases",),
)  # fmt: skip
def lms5(
    run: Context,
    d: int = 50,
    n: int = 20_000,
    widths: tuple[int, ...] = (100, 100),
    steps: int = 800,
    lr: float = 0.3,
    momentum: float = 0.9,
) -> Evidence:
    """A fully connected network trained on LMS-5 (one linear and many five-slab features, each
    predictive) relies on the linear one alone: AUC 1.000 as it is, 0.507 with the linear block
    shuffled, 1.000 with all slabs shuffled.
    """
    options: dict[str, Any] = {"d": d, "n": n, "widths": widths, "steps": steps, "lr": lr}
    table = slab_reliance("lms-5", run.seeds, run.progress, momentum=momentum, **options)
    mean = table["auc"].values.mean(axis=0)
    names = ("as it is", "linear block shuffled", "slabs shuffled")
    lost, published = (areas[0] - areas[1] for areas in (mean, PUBLISHED_AREAS))
    figure = Figure(
        "lms5",
        "LMS-5: all eggs in the linear basket",
        f"Area under the ROC curve of a fully connected network on one linear and {d - 1} five-slab "
        "coordinates, each of which gives the label away. Shuffling the linear coordinate destroys "
        f"it; shuffling all {d - 1} others changes nothing.",
        (area_panel(names, *area_bars(table, PUBLISHED_AREAS)),),
    )
    return Evidence(
        Check("LMS-5: AUC lost when the linear coordinate is shuffled", lost, "within",
              (round(published - 0.02, 3), round(published + 0.02, 3)), note=f"published: {published:.3f}"),
        *area_checks(table, [f"LMS-5, {name}: mean AUC" for name in names], PUBLISHED_AREAS),
        headlines=(
            Headline(f"{mean[1]:.2f}", f"AUC when one of {d} good features is shuffled", "averaged"),
        ),
        finding=f"With the linear coordinate shuffled the network is a coin (AUC {mean[1]:.3f}, published "
        f"{PUBLISHED_AREAS[1]}); with all {d - 1} slab coordinates shuffled it does not notice ({mean[2]:.3f}).",
        numbers=table, figure=figure,
    )  # fmt: skip


@claim(
    "connections-simplicity-slabs", "Simplicity bias on MS-(5,7) and on noisy LMS-7",
    theme="Connections", source=SOURCE,
    measured="the same on MS-(5,7) in d = 20 and on LMS-7 in d = 50, the linear coordinate "
    "without a label on 10% of the points; and five slabs alone as a control; one seed (five "
    "with --full)",
    minutes=0.3, statements=(*STATEMENTS, "itcs-other-biases", "csml-other-biases"),
)  # fmt: skip
def slabs(run: Context, widths: tuple[int, ...] = (100, 100), momentum: float = 0.9) -> Evidence:
    """The bias is towards the simplest feature whatever it is: five slabs before seven, and a noisy
    line before slabs that are always right, at the price of accuracy.
    """
    seeds = run.seeds if run.full else run.seeds[:3]
    plans: dict[str, dict[str, Any]] = {"ms-5-7": HARD, "lms-7": {}, "noisy-lms-7": {}, "slabs-5": HARD}
    tables = {}
    for i, (name, plan) in enumerate(plans.items()):
        run.progress(i / len(plans), name)
        tables[name] = slab_reliance(name, seeds, widths=widths, momentum=momentum, **plan)
    mean = {name: table["auc"].values.mean(axis=0) for name, table in tables.items()}
    accuracy = {name: table["accuracy"].values.mean() for name, table in tables.items()}
    order = ("lms-7", "noisy-lms-7", "ms-5-7")
    bars = (
        Bar("as it is", [mean[n][0] for n in order], "neutral"),
        Bar("simplest shuffled", [mean[n][1] for n in order], "averaged"),
        Bar("all others shuffled", [mean[n][2] for n in order], "decoupled"),
    )
    figure = Figure(
        "slabs",
        "The simplest block takes it all",
        "AUC as it is, with the simplest coordinate shuffled, and with all others shuffled. In "
        "MS-(5,7) the simplest coordinate is itself a five-slab one; in noisy LMS-7 the linear "
        "coordinate is worth 95% and the slabs 100%.",
        (area_panel(("LMS-7", "noisy LMS-7", "MS-(5,7)"), *bars),),
    )
    whole, first, others = mean["ms-5-7"]
    return Evidence(
        Check("MS-(5,7): AUC lost when the 5-slab coordinate is shuffled", whole - first, ">=", 0.43),
        Check("MS-(5,7), 5-slab coordinate shuffled: mean AUC", first, "within", (0.45, 0.55)),
        Check("MS-(5,7), 7-slab coordinates shuffled: mean AUC", others, ">=", 0.98),
        Check("LMS-7, linear coordinate shuffled: mean AUC", mean["lms-7"][1], "within", (0.45, 0.55)),
        Check("noisy LMS-7, linear coordinate shuffled: mean AUC", mean["noisy-lms-7"][1], "<=", 0.6),
        Check("noisy LMS-7: test accuracy", accuracy["noisy-lms-7"], "<=", 0.98,
              note="the linear coordinate allows 0.95, the slabs 1.00"),
        Check("5-slabs only: test accuracy", accuracy["slabs-5"], ">=", 0.98, role="note",
              note="the slabs can be learnt when nothing simpler is there"),
        finding=f"On MS-(5,7) the network relies on the one five-slab coordinate (AUC {first:.3f} without "
        f"it) and ignores nineteen seven-slab ones; on noisy LMS-7 it stays at "
        f"{accuracy['noisy-lms-7']:.1%} test accuracy although the slabs would allow 100%, and with "
        f"nothing simpler around the same network learns five slabs to {accuracy['slabs-5']:.1%}.",
        numbers=tables, figure=figure, seeds=seeds,
    )  # fmt: skip
