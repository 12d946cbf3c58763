r"""Do neurons that compete for a point decouple, with class labels alone?

f(x) = max_{r <= m} relu(<w_r, x>) - max_{r > m} relu(<w_r, x>): only the winner of a point is pulled by
it. From a small start each cluster falls to one neuron of its class, and nothing tells two clusters of
orthogonal features which of the m it is. So two clusters of a class share a neuron with probability

    P = 1 / m,

and a class of k/2 clusters has (k/2)(k/2 - 1) / (2m) such pairs on average. A neuron that stands for c_a
clusters is the sum of their features; against rivals that stand for c_b,

    R = sqrt(d / (c_a + max_b c_b)),

the law of merged labels. Without a shared neuron it is sqrt(d/2), which no network beats at the centres;
the sum over neurons has sqrt(d/k) at every m.

The tolerances were written after eight networks had been seen (m = 5, 10, 20 and 40, two seeds, medians
from 9.8 to 14.9 with d = 500) and before any of the runs below.

What it costs: accuracy with few samples, neurons that never win, steps to the same loss. A point pulls one
neuron of its class instead of all, so a cluster has to be seen often enough by the one that wins it; the
others stay where they started.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.accuracy import decisions
from featavg.measures.averaging import averaging_index
from featavg.nets.two_layer import TwoLayer, binary
from featavg.paper.engine.claim import Check, Context, Evidence, claim
from featavg.paper.engine.tables import tabulate
from featavg.robustness.radii import radii
from featavg.training.train import train

SOURCE = "Asked by this project: which network is robust without fine labels?"
BASE = {"m": 20, "k": 10, "d": 500, "n": 500, "sigma_w": 1e-3, "sigma": 1.0, "steps": 400}
# What is changed, one at a time, and the values.
CHANGES: dict[str, tuple[float, ...]] = {
    "k": (4, 20), "d": (200, 2000), "n": (100, 1000), "sigma_w": (1e-5, 1e-2, 1e-1), "sigma": (0.5, 2.0),
}  # fmt: skip
TIME = 5.0  # rate times d
# What the cost is measured with: the loss that ends training, fresh points, and a second noise.
TARGET, TEST, NOISY = math.log(0.01), 2000, 3.0


def measured(points: int, seed: int, pooling: str = "max", **changes: float) -> dict[str, float]:
    """Trains by gradient descent on class labels; "sum" is the network of the theory, five neurons a class.

    `mean` is the sum at m times the rate. Returns the median exact radius of fresh points, zero where one is
    misclassified; accuracy; the averaging index, with a pooling the mean one of the neurons that own a cluster,
    and then the median of the law sqrt(d / (c_a + max_b c_b)), c the clusters of a neuron, and the pairs of
    clusters that share a neuron.
    """
    given = BASE | changes
    m, d, added = int(given["m"]), int(given["d"]), pooling == "sum"
    task = MultiCluster(k=int(given["k"]), d=d, sigma=given["sigma"])
    net = train(
        task, n=int(given["n"]), steps=int(given["steps"]), seed=seed, sigma_w=given["sigma_w"], lr=TIME / d,
        **({"m": 5} if added else {"m": m, "pooling": pooling}),
    ).net  # fmt: skip
    assert isinstance(net, TwoLayer)
    # One output a neuron, those of the class +1 first.
    sample, positive = task.sample(points, seed=10**6 + seed), np.arange(2 * m) < m
    pooled: dict[str, Any] = {} if added else {"readout": pooling, "positive": positive}
    found = radii(net, sample.coordinates(net.dimension), sample.y, jobs=1, **pooled).certified
    index = averaging_index(net if added else binary(net.weights), task)
    both = {"radius": float(np.median(found)), "right": float(np.mean(found > 0))}
    if added:
        return both | {"index": float(index)}
    # The winner at the centre of each cluster owns it.
    mine, outputs = task.cluster_labels > 0, net(task.features_in(net.dimension))
    owners = np.where(positive == mine[:, None], outputs, -np.inf).argmax(axis=1)
    sizes = np.bincount(owners, minlength=2 * m)
    rival = np.where(mine, sizes[~positive].max(), sizes[positive].max())
    return both | {
        "law": float(np.median(np.sqrt(d / (sizes[owners] + rival)))),
        "index": float(np.mean(index.neurons[np.unique(owners)])),
        "shared": ((owners[:, None] == owners).sum() - len(owners)) / 2,
    }


@claim(
    "competition", "Neurons that compete decouple, with class labels alone", theme="Open questions",
    source=SOURCE,
    measured="exact radii, index and shared neurons against m, q, the number of steps, k, d, n, the start "
    "and the noise",
    tier="full", minutes=5,
    statements=("summary-mechanism-1", "summary-question-biases"),
)  # fmt: skip
def competition(
    run: Context,
    widths: tuple[int, ...] = (2, 5, 10, 20, 40),
    networks: int = 4,
    tops: tuple[int, ...] = (1, 2, 3, 4, 5, 6),
    lengths: tuple[int, ...] = (100, 400, 1600, 6400),
    points: int = 40,
) -> Evidence:
    """Trained on class labels, a two-layer network whose class outputs are maxima over m neurons learns
    one feature a neuron but for collisions: two clusters of a class share a neuron with probability 1/m,
    and radii are √(d/(c<sub>a</sub> + c<sub>b</sub>)), c counting the clusters of a neuron.
    """
    k, d = int(BASE["k"]), BASE["d"]
    many = [seed * networks + i for seed in run.seeds for i in range(networks)]
    wide = tabulate(lambda m, seed: measured(points, seed, m=m), many, run.progress, m=widths)
    sums = tabulate(lambda pooling, seed: measured(points, seed, pooling), run.seeds, pooling=("sum",)).isel(pooling=0)
    path = tabulate(lambda q, seed: measured(points, seed, f"top:q={q}", m=max(tops)), run.seeds, q=tops)
    long = tabulate(lambda steps, seed: measured(points, seed, m=10, steps=steps), run.seeds, steps=lengths)
    rows: dict[str, dict[str, list[float]]] = {}
    for field, value in ((field, value) for field, values in CHANGES.items() for value in values):
        run.progress(0.9, f"{field} = {value:g}")
        row = rows[f"{field} = {value:g}"] = {}
        for pooling, prefix in (("max", ""), ("sum", "sum's ")):
            cells = [measured(points, seed, pooling, **{field: value}) for seed in run.seeds]
            row |= {prefix + name: [one[name] for one in cells] for name in cells[0]}
    base, by_seed = float(sums["radius"].mean()), (len(widths), len(run.seeds), networks)
    gain = wide["radius"].values.reshape(by_seed).mean(axis=2) / base
    index = wide["index"].values.reshape(by_seed).mean(axis=2)
    # Pairs of clusters of one class, over both classes and all networks.
    expected = 2 * math.comb(k // 2, 2) / np.array(widths) * len(many)
    shared = wide["shared"].sum("seed").values
    distance = np.abs(shared - expected) / np.sqrt(expected * (1 - 1 / np.array(widths)))
    ratio = (wide["radius"] / wide["law"]).mean("seed").values
    furthest = ratio[np.abs(np.log(ratio)).argmax()]
    gains = {name: np.mean(row["radius"]) / np.mean(row["sum's radius"]) for name, row in rows.items()}
    sized = [gains[name] for name in gains if name.split(" = ")[0] in ("k", "d", "n")]
    longer = (long["radius"][-1] / long["radius"][lengths.index(BASE["steps"])]).values
    mean = wide.mean("seed")
    table = ", ".join(f"{m}: {r:.1f}" for m, r in zip(widths, mean["radius"].values, strict=True))
    lines = (
        Series("max, measured", widths, mean["radius"].values, "decoupled", "line+markers"),
        Series("√(d/(c<sub>a</sub> + c<sub>b</sub>)), neurons as they fell", widths, mean["law"].values, "reference"),
        Series("sum", widths, np.full(len(widths), base), "averaged"),
        Series("no network beats", widths, np.full(len(widths), math.sqrt(d / 2)), "neutral"),
    )
    along = Series("exact", tops, path["radius"].mean("seed").values, "decoupled", "line+markers")
    return Evidence(
        Check(f"median radius over the sum's, m = {widths[-1]}", gain[-1], ">=", 1.6, role="main"),
        Check("pairs that share a neuron against pairs/m, standard deviations, worst m", distance.max(), "<=", 3.0),
        Check("median radius / law, the m furthest from 1", furthest, "within", (0.85, 1.1)),
        Check(f"index of neurons that own a cluster, m = {widths[-1]}", index[-1], "<=", 0.25),
        Check("index of the sum's neurons", sums["index"], ">=", 0.5, role="note"),
        Check("radius at q = m over the sum's", path["radius"][-1] / base, "within", (0.9, 1.1)),
        Check("radius at q = 1 over q = m", path["radius"][0] / path["radius"][-1], ">=", 1.3),
        Check(f"radius after {lengths[-1]} steps over {BASE['steps']}", longer, ">=", 0.9),
        Check("gain over the sum, least over other k, d and n", min(sized), ">=", 1.3),
        *(Check(f"gain over the sum, {name}", np.divide(row["radius"], row["sum's radius"]), ">=", 1.3, role="note")
          for name, row in rows.items() if name.startswith("sigma")),
        figure=Figure(
            "competition",
            "Neurons that compete decouple, with class labels alone",
            "Left: median exact radius against the neurons of a class. Right: against q, where the mean of "
            "the q largest of six neurons is the output of a class.",
            (
                Lines(Axis("neurons of a class m", log=True), Axis("median radius"), lines),
                Lines(Axis("q"), Axis("median radius"), (along,)),
            ),
        ),
        numbers={"m": wide, "sum": sums, "q": path, "steps": long, "changes": rows, "expected pairs": expected},
        finding=f"The sum has radius {base:.1f}, no network more than {math.sqrt(d / 2):.1f}; the maximum "
        f"has, by neurons of a class, {table}. Two clusters of a class share a neuron with probability "
        f"1/m ({shared.astype(int).tolist()} pairs, expected {expected.round().astype(int).tolist()}). "
        f"After {lengths[-1]} steps the radius is {longer.mean():.2f} of that after {BASE['steps']}. "
        "Gains elsewhere: " + ", ".join(f"{name}: {value:.2f}" for name, value in gains.items()) + ".",
    )  # fmt: skip


def costs(n: int, pooling: str, sigma: float, seed: int, m: int, steps: int) -> dict[str, float]:
    """Accuracy, share of neurons that win no training point, and steps until the loss is 0.01.

    The mean over m neurons learns m times slower than their sum, so it has m times the rate.
    """
    task = MultiCluster(k=int(BASE["k"]), d=int(BASE["d"]), sigma=sigma)
    rate = TIME / task.d * (m if pooling == "mean" else 1)
    run = train(
        task, n=n, m=m, pooling=pooling, seed=seed, sigma_w=BASE["sigma_w"], lr=rate,
        steps=steps, target_log_loss=TARGET,
    )  # fmt: skip
    assert isinstance(run.net, TwoLayer)
    fresh, positive = task.sample(TEST, seed=10**6 + seed), np.arange(2 * m) < m
    x = fresh.coordinates(run.net.dimension)
    right = decisions(run.net, x, None if pooling == "mean" else positive, pooling) == fresh.y
    outputs = run.net.preactivations(x)
    winners = [np.where(side, outputs, -np.inf).argmax(axis=1)[fresh.y == sign]
               for side, sign in ((positive, 1), (~positive, -1))]  # fmt: skip
    wins = np.bincount(np.concatenate(winners), minlength=2 * m)
    return {
        "accuracy": float(np.mean(right)),
        "idle": float(np.mean(wins == 0)),
        "steps": float(run.steps[-1] if run.log_loss[-1] <= TARGET else np.nan),
    }


@claim(
    "competition-cost", "What competition costs", theme="Open questions", source=SOURCE,
    measured="accuracy on fresh points, neurons that never win and steps to the loss 0.01, for the maximum "
    "and the sum over twenty neurons a class, against n",
    tier="full", minutes=2,
    statements=("summary-tradeoffs",),
)  # fmt: skip
def competition_cost(
    run: Context, sizes: tuple[int, ...] = (30, 50, 100, 200, 500), m: int = 20, steps: int = 3000
) -> Evidence:
    """With ten samples a cluster or more, competition costs less than a point of clean accuracy and at
    most three times the steps; most neurons stay idle.
    """
    both = tabulate(
        lambda n, pooling, sigma, seed: costs(n, pooling, sigma, seed, m, steps),
        run.seeds, run.progress, n=sizes, pooling=("mean", "max"), sigma=(1.0, NOISY),
    )  # fmt: skip
    summed, largest = (both.sel(pooling=pooling) for pooling in ("mean", "max"))
    plain, noisy = ((summed - largest)["accuracy"].sel(sigma=sigma) for sigma in (1.0, NOISY))
    slower = (largest["steps"] / summed["steps"]).sel(sigma=1.0)
    enough = [i for i, n in enumerate(sizes) if n >= 10 * BASE["k"]]
    worst, slowest = (max(enough, key=lambda i: float(each[i].mean())) for each in (plain, slower))
    idle, means = largest["idle"].sel(sigma=1.0)[-1], 100 * both["accuracy"].sel(sigma=1.0).mean("seed")
    lines = (
        Series("sum", sizes, means.sel(pooling="mean").values, "averaged", "line+markers"),
        Series("max", sizes, means.sel(pooling="max").values, "decoupled", "line+markers"),
    )
    return Evidence(
        Check("accuracy lost, n ≥ 10k, worst n", plain[worst], "<=", 0.01, role="main"),
        Check("steps to the loss 0.01 over the sum's, n ≥ 10k, worst n", slower[slowest], "<=", 3.0),
        Check(f"share of neurons that win no fresh point, n = {sizes[-1]}", idle, ">=", 0.5, role="note"),
        Check(f"accuracy lost, n = {sizes[0]}", plain[0], "<=", 0.05, role="note"),
        figure=Figure(
            "competition-cost",
            "What competition costs",
            "Accuracy on fresh points against the number of training points, k = 10, d = 500, σ = 1.",
            (Lines(Axis("samples n", log=True), Axis("accuracy, %"), lines),),
        ),
        numbers={name: both[name].values for name in both} | {"sizes": sizes},
        finding=f"At n = {sizes[0]} the maximum loses {100 * float(plain[0].mean()):.1f} points of accuracy, from "
        f"n = {10 * int(BASE['k'])} on at most {100 * float(plain[worst].mean()):.2f}; it takes "
        f"{float(slower[slowest].mean()):.2f} times the steps, and "
        f"{100 * float(idle.mean()):.0f}% of its neurons win nothing. With noise of σ = {NOISY:g} it loses "
        + ", ".join(f"{100 * float(v.mean()):.1f} (n = {n})" for n, v in zip(sizes, noisy, strict=True))
        + " points.",
    )  # fmt: skip
