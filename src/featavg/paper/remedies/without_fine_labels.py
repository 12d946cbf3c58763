r"""Which recipe is robust without fine labels? One task, one descent, exact radii.

Full-batch gradient descent on class labels, 400 steps at the time 5/d, k = 10, d = n = 500:

- `sum`: the network of the theory, five neurons a class; the recipes below change one thing about it.
- `max, m = 5` and `max, m = 20`: the neurons of a class compete.
- `max, balanced 0.01` and `max, balanced 1`: five that compete, with the load-balancing loss of mixtures of
  experts (Fedus et al., 2022), m sum_r f_r P_r in each class: f_r is the share of points that neuron r wins and
  P_r its mean softmax. 0.01 is their weight.
- `found labels`: k-means with k/2 centres in each class, then trained as fine labels, read out by `max`.
- `apart` and `decorrelated`: a penalty on the squared cosines between neurons of a class, or on the squared
  correlations of their activations, as strong as the loss at the start.
- `dropout`: half of the neurons are left out of each step, drawn for each point.
- `start 0.03` and `start 0.1`: standard deviations of the initial weights, instead of 0.001.
- `attacked 3` and `attacked 6`: adversarial training against five l2 steps within that radius.
- `fine labels`: what finer labels reach.

Published recipes, as far as they can be stated for two layers and class labels:

- `orthogonal` (Xu, Li and Yang, arXiv 2105.09109) can: the last layer is fixed to rows of a Hadamard matrix, and
  the squared loss draws the activations to the row of the class. For two classes the difference of two rows is
  zero on half of the neurons and +-2 on the others: the fixed layer of `sum` with half of its neurons.
- `contrastive` (MOREL, Hotegni and Peitz, arXiv 2410.01697) can in part: its contrastive loss, which draws
  activations of one class together, on the hidden layer. Its attention module has no place in two layers, and its
  other half aligns attacked points, which is adversarial training.
- `prototypes` (Adv-DPNP, Zarei Sabzevar et al., arXiv 2504.03782) can in part: unit prototypes are the last
  layer, activations are drawn to that of their class and prototypes pushed apart. Its second branch is
  adversarial training, left out.
- Bai et al. (arXiv 2111.12922) cannot: it draws the outputs of the fine classes of a class to their mean, and
  with class labels there is one output a class. `clustered` does so with fine labels, beside `fine labels`.

The tolerances were written before any of these were run except `sum`, `max` and `fine labels`. Powers of ReLU
(Min and Vidal) have no exact radii and are in `connections`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray
from scipy.linalg import hadamard

from featavg.data.clusters import MultiCluster
from featavg.data.compress import TrainingSet, draw
from featavg.figures.figure import Axis, Bar, Bars, Figure
from featavg.nets.two_layer import TwoLayer, binary, grouped
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.requirements import torch_needed
from featavg.paper.engine.tables import tabulate
from featavg.paper.remedies.competition import SOURCE, TIME
from featavg.robustness.radii import radii

if TYPE_CHECKING:
    import torch

TASK = MultiCluster(k=10, d=500)
SAMPLES = 500
DROPPED, ATTACK_STEPS, RESTARTS, TEMPERATURE = 0.5, 5, 10, 0.1


@dataclass(frozen=True)
class Way:
    """A recipe: what is different from the sum over five neurons a class.

    Attributes:
        outputs: "sum", "max", "found", "fine", "orthogonal" or "prototypes".
        penalty, strength: a name that `penalty` knows, and what it is multiplied by.
    """

    m: int = 5
    outputs: str = "sum"
    penalty: str = ""
    strength: float = 1.0
    dropout: bool = False
    start: float = 1e-3
    attack: float = 0.0


WAYS = {
    "sum": Way(), "max, m = 5": Way(outputs="max"), "max, m = 20": Way(20, "max"),
    "max, balanced 0.01": Way(outputs="max", penalty="balance", strength=0.01),
    "max, balanced 1": Way(outputs="max", penalty="balance"),
    "found labels": Way(outputs="found"), "apart": Way(penalty="apart", strength=math.log(2)),
    "decorrelated": Way(penalty="correlation", strength=math.log(2)), "dropout": Way(dropout=True),
    "start 0.03": Way(start=0.03), "start 0.1": Way(start=0.1),
    "attacked 3": Way(attack=3.0), "attacked 6": Way(attack=6.0),
    "orthogonal": Way(m=4, outputs="orthogonal"), "contrastive": Way(penalty="contrast"),
    "prototypes": Way(outputs="prototypes"), "fine labels": Way(outputs="fine"),
    "clustered": Way(outputs="fine", penalty="cluster"),
}  # fmt: skip
PUBLISHED = ("decorrelated", "orthogonal", "contrastive", "prototypes")
# What the claim says does not decouple.
OTHERS = ("apart", "dropout", "start 0.03", "start 0.1")


def found_labels(data: TrainingSet, seed: int) -> ndarray:
    """The best of several runs of k-means in each class; labels of the class +1 come first."""
    from scipy.cluster.vq import kmeans2

    half, labels = TASK.k // 2, np.zeros(len(data.y), dtype=int)
    for first, sign in ((0, 1), (half, -1)):
        x = data.x[data.y == sign]
        with warnings.catch_warnings():
            # A run with an empty cluster has a larger spread, and is not the best.
            warnings.simplefilter("ignore", UserWarning)
            runs = [kmeans2(x, half, minit="++", rng=10 * seed + i) for i in range(RESTARTS)]
        spreads = [float(((x - centres[near]) ** 2).sum()) for centres, near in runs]
        labels[data.y == sign] = first + runs[int(np.argmin(spreads))][1]
    return labels


def trained(way: Way, seed: int, steps: int) -> tuple[TwoLayer, str, ndarray | None]:
    """The network, its read-out and its positive outputs."""
    import torch
    from torch.nn.functional import cross_entropy, normalize, softplus

    fine = way.outputs in ("found", "fine")
    data = draw(TASK, SAMPLES, TASK.k if fine else 2 * way.m, seed, "ambient")
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y).double()
    w = torch.from_numpy(way.start * data.unit_weights).requires_grad_()
    known = found_labels(data, seed) if way.outputs == "found" else data.clusters
    targets = torch.from_numpy(known.astype(np.int64)) if fine else None
    noise = torch.Generator().manual_seed(seed)
    # A row of the last layer for each class, where it is not the sum of the theory.
    rows = torch.from_numpy(hadamard(8)[[3, 5]].astype(float))
    if way.outputs == "prototypes":
        rows = torch.eye(2, dtype=torch.float64).repeat_interleave(way.m, dim=1).requires_grad_()
    trained_arrays = [w, rows] if rows.requires_grad else [w]

    def loss_at(points: torch.Tensor, keep: torch.Tensor | None = None) -> torch.Tensor:
        z = points @ w.T
        hidden = torch.relu(z)
        if targets is not None:
            loss = cross_entropy(hidden, targets)
        elif way.outputs == "orthogonal":
            loss = ((hidden - rows[(y < 0).long()]) ** 2).mean()
        elif way.outputs == "prototypes":
            # Cross-entropy to unit prototypes, the distance to one's own, and the cosine of the two.
            unit, classes = normalize(rows, dim=1), (y < 0).long()
            away = normalize(hidden, dim=1) - unit[classes]
            loss = cross_entropy(hidden @ unit.T, classes) + (away**2).sum(dim=1).mean() + unit[0] @ unit[1]
        else:
            kept = hidden if keep is None else hidden * keep
            own, other = kept[:, : way.m], kept[:, way.m :]
            pooled = [part.max(dim=1).values if way.outputs == "max" else part.sum(dim=1) for part in (own, other)]
            loss = softplus(-y * (pooled[0] - pooled[1])).mean()
        if way.penalty and points is x:
            loss = loss + way.strength * penalty(way.penalty, w, z, y, way.m)
        return loss

    def attacked() -> torch.Tensor:
        """Steps up the loss, each point kept within the radius of the attack of where it was."""
        moved = x.clone()
        for _ in range(ATTACK_STEPS):
            moved.requires_grad_()
            (slope,) = torch.autograd.grad(loss_at(moved), moved)
            away = moved.detach() - x + way.attack / 2 * normalize(slope, dim=1)
            moved = x + away * (way.attack / away.norm(dim=1, keepdim=True).clamp_min(way.attack))
        return moved

    for _ in range(steps):
        keep = None
        if way.dropout:
            keep = (torch.rand(len(x), 2 * way.m, generator=noise) >= DROPPED) / (1 - DROPPED)
        points = attacked() if way.attack else x
        slopes = torch.autograd.grad(loss_at(points, keep), trained_arrays)
        with torch.no_grad():
            for array, slope in zip(trained_arrays, slopes, strict=True):
                array.sub_(TIME / TASK.d * slope)
    weights = w.detach().numpy()
    if fine:
        return grouped(weights, TASK.k), "max", np.asarray(TASK.positive_clusters)
    if way.outputs == "max":
        return grouped(weights, 2 * way.m), "max", np.arange(2 * way.m) < way.m
    if way.outputs == "sum":
        return binary(weights), "max", None
    rows = normalize(rows.detach(), dim=1)
    head = (rows[0] - rows[1]).numpy()
    used = head != 0.0  # the other neurons decide nothing
    return TwoLayer(weights[used], np.zeros(used.sum()), head[None, used]), "max", None


def penalty(name: str, w: torch.Tensor, z: torch.Tensor, y: torch.Tensor, m: int) -> torch.Tensor:
    """What a way adds to the loss, of weights w and preactivations z of m neurons a class."""
    import torch
    from torch.nn.functional import normalize

    hidden, classes = torch.relu(z), ((1, slice(m)), (-1, slice(m, None)))
    if name in ("apart", "correlation"):
        # The mean squared cosine between neurons of a class, or correlation of their activations.
        rows = normalize(w if name == "apart" else (hidden - hidden.mean(dim=0)).T, dim=1)
        total = sum(((rows[own] @ rows[own].T) ** 2).sum() - m for _, own in classes)
        return torch.as_tensor(total) / (2 * m * (m - 1))
    if name == "balance":
        # m sum_r f_r P_r, the mean of both classes: 1 where every neuron wins as often as the others.
        total = torch.zeros(())
        for sign, own in classes:
            mine = z[:, own][y == sign]
            won = torch.bincount(mine.argmax(dim=1), minlength=m) / len(mine)
            total = total + m * (won * torch.softmax(mine, dim=1).mean(dim=0)).sum() / 2
        return total
    if name == "contrast":
        # The contrastive loss of unit activations with all others of the class as positives.
        unit, itself = normalize(hidden, dim=1), torch.eye(len(y), dtype=torch.bool)
        alike = (unit @ unit.T / TEMPERATURE).masked_fill(itself, -torch.inf)
        log_p, positive = alike - alike.logsumexp(dim=1, keepdim=True), (y[:, None] == y) & ~itself
        return -(log_p.masked_fill(~positive, 0.0).sum(dim=1) / positive.sum(dim=1)).mean()
    # The mean squared distance of outputs from the mean output of their class, held fixed.
    parts = hidden.reshape(len(z), 2, -1)
    return ((parts - parts.mean(dim=2, keepdim=True).detach()) ** 2).mean()


def measured(name: str, seed: int, steps: int, points: int) -> dict[str, float]:
    """Median exact radius, accuracy on the same points, and seconds of training on one core."""
    import torch  # noqa: F401 (so that its import is not timed)

    start = process_time()
    net, readout, positive = trained(WAYS[name], seed, steps)
    seconds = process_time() - start
    fresh = TASK.sample(points, seed=10**6 + seed)
    x = fresh.coordinates(net.dimension)
    found = radii(net, x, fresh.y, readout=readout, positive=positive, jobs=1)
    return {
        "radius": float(np.median(found.certified)),
        "upper": float(np.median(found.attack)),
        "accuracy": float(np.mean(found.certified > 0)),
        "seconds": seconds,
    }


@claim(
    "without-fine-labels", "Which recipe is robust without fine labels?", theme="Open questions",
    source=SOURCE, measured="exact radius, accuracy and cost of eighteen recipes on one task, five seeds",
    tier="full", minutes=15, needs=("torch",),
    statements=("summary-break-1", "summary-tradeoffs"),
)  # fmt: skip
def without_fine_labels(
    run: Context, ways: tuple[str, ...] = tuple(WAYS), steps: int = 400, points: int = 60
) -> Evidence:
    """Without fine labels, competition and labels found by clustering decouple; penalties that push
    neurons apart, dropout of neurons and larger starts do not.
    """
    torch_needed()
    table = tabulate(lambda name, seed: measured(name, seed, steps, points), run.seeds, run.progress, way=ways)
    radius, means, best = table["radius"], table.mean("seed"), math.sqrt(TASK.d / 2)
    radii_of = {name: radius.sel(way=name) for name in ways}
    gain = {name: each / radii_of["sum"].mean() for name, each in radii_of.items()}
    rows, base = {name: means.sel(way=name) for name in ways}, float(means["seconds"].sel(way="sum"))
    told = "; ".join(
        f"{name} {float(row['radius']):.1f} ({float(row['radius']) / best:.2f} of the best, "
        f"{100 * float(row['accuracy']):.0f}%, {float(row['seconds']) / base:.1f} times the time)"
        for name, row in rows.items()
    )
    others = [name for name in OTHERS if name in ways]
    worst = max(others, key=lambda name: float(gain[name].mean()))
    noted = [name for name in ways if name.startswith("attacked") or name in PUBLISHED]
    return Evidence(
        Check("gain of max, m = 20, over the sum", gain["max, m = 20"], ">=", 1.6),
        Check("radius of found labels over that of fine labels", radii_of["found labels"] / radii_of["fine labels"],
              ">=", 0.9),
        Check(f"largest gain of {', '.join(others)}", gain[worst], "<=", 1.3),
        *(Check(f"gain of {name}", gain[name], ">=", 1.3, role="note") for name in noted),
        *(Check(f"gain of {name} over max, m = 5", radii_of[name] / radii_of["max, m = 5"].mean(), ">=", 1.0,
                role="note") for name in ways if "balanced" in name),
        Check("median radius, upper over lower end, widest", float((table["upper"] / radius).max()), "<=", 1.01,
              note="radii are exact"),
        figure=Figure(
            "without-fine-labels",
            "Robust without fine labels",
            "Median exact radius of networks trained on class labels; the last bar has fine labels.",
            (Bars(ways, (Bar("median radius", means["radius"].values, "decoupled"),), Axis("l2 radius")),),
        ),
        numbers={name: table[name].values for name in table} | {"ways": ways, "best": best},
        finding=f"Median exact radius: {told}.",
    )  # fmt: skip
