"""Trained power-ReLU networks, how near they are to a limit, and how robust they are.

How far two networks are apart on the unit sphere after the best rescaling, inf_{c > 0} sup_{|x| = 1}
|c f(x) - g(x)|, is not a convex problem in x, so the answer is a bracket: points found by ascent bound
it from below for every c at once, and the triangle inequality, neuron by neuron, bounds it from above.

No exact search for radii exists for relu^p: an attack bounds them above. The certificate goes through a
limit F that the network is near: if |c f - F| <= e on the unit sphere then c f >= F - e |x|^p
everywhere, and F can be bounded below on a ball in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError, whole
from featavg.paper.connections.power_relu import (
    PowerReLU,
    Shallow,
    ShallowObjective,
    averaged_limit,
    decoupled_limit,
    train_shallow,
)
from featavg.paper.engine.remembered import remembered
from featavg.progress import Progress, silent
from featavg.robustness.attacks.attack import FeatureDirections
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Covector, Model

Points: TypeAlias = Float[ndarray, "n N"]
Labels: TypeAlias = Int[ndarray, " n"]
Features: TypeAlias = Float[ndarray, "k N"]
Signs: TypeAlias = Int[ndarray, " k"]
Distances: TypeAlias = Float[ndarray, " n"]


@dataclass(frozen=True, eq=False)
class ShallowModel(Model):
    """A shallow network for the attacks; the sign of its output decides."""

    net: Shallow = field(kw_only=True)

    def _outputs(self, x: Float[ndarray, "n D"]) -> Float[ndarray, "n 1"]:
        return self.net(x)[:, None]

    def _pull(
        self, x: Float[ndarray, "n D"], covector: Covector
    ) -> tuple[Float[ndarray, "n 1"], Float[ndarray, "n D"]]:
        outputs = self.net(x)[:, None]
        return outputs, covector(outputs, slice(None)) * self.net.gradient(x)


def attacked_radii(
    net: Shallow, x: Points, y: Labels, features: Features, labels: Signs, budget: int = 60
) -> Distances:
    """The smallest perturbation that any attack finds (l2, in the units of x): an upper bound.

    Works in the span of weights and features, where nothing that matters to the network is lost.
    """
    rows = np.concatenate([net.directions, features])
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > 1e-12 * sizes[0]]
    inside = Shallow(net.weights @ basis.T, net.head, net.activation)
    aims = FeatureDirections(features @ basis.T, (labels > 0).astype(int))
    attacked = attack_suite(
        ShallowModel(Decision.of(), None, "raw", net=inside),
        x @ basis.T,
        y,
        features=aims,
        budget=budget,
        attacks=("ddn", "deepfool", "directions"),
    )
    return attacked.radii


def certified_near_average(x: Points, y: Labels, features: Features, labels: Signs, error: float) -> Distances:
    """No closer point is flipped by any f with |c f - F| <= error |x|, F the averaged limit.

    With s_+ and s_- the sums of features of the own and the other class, y F(x + u) is at least the
    smaller of <s_+, x + u> and <s_+ - s_-, x + u>; on a ball of radius r each loses r |s| at most.
    """
    sums = {s: features[labels == s].sum(axis=0) for s in (1, -1)}
    own = np.where((y > 0)[:, None], sums[1], sums[-1])
    other = np.where((y > 0)[:, None], sums[-1], sums[1])
    size = error * np.linalg.norm(x, axis=1)
    ends = [
        (np.einsum("nd,nd->n", rows, x) - size) / (np.linalg.norm(rows, axis=1) + error) for rows in (own, own - other)
    ]
    return np.asarray(np.maximum(np.minimum(*ends), 0.0))


def certified_near_decoupled(
    x: Points, y: Labels, features: Features, labels: Signs, p: float, error: float
) -> Distances:
    """The same for F^(p) with orthonormal features and p >= 2.

    A step of length r takes at most r cos(t) from the own cluster's feature and adds at most
    r sin(t) to the length of the other class's part b, and sum relu(z)^p <= |relu(z)|^p, so

        y F^(p)(x + u) >= (z_own - r cos t)^p - (b + r sin t)^p  for some t in [0, pi/2].

    All t are covered by a grid: between two angles the first term is taken at the smaller one and
    the second at the larger one, where each is worst.
    """
    z = x @ features.T
    mine = labels[None, :] == y[:, None]
    own = np.where(mine, z, -np.inf).max(axis=1)
    rivals = np.linalg.norm(np.where(mine, 0.0, np.maximum(z, 0.0)), axis=1)
    size = np.linalg.norm(x, axis=1)
    grid = np.linspace(0.0, np.pi / 2, 401)
    low, high = np.zeros(len(x)), np.maximum(own, 0.0)
    for _ in range(50):
        r = (low + high) / 2
        keeps = np.maximum(own[:, None] - r[:, None] * np.cos(grid[None, :-1]), 0.0) ** p
        gains = (rivals[:, None] + r[:, None] * np.sin(grid[None, 1:])) ** p
        safe = (keeps - gains).min(axis=1) > error * (size + r) ** p
        low, high = np.where(safe, r, low), np.where(safe, high, r)
    return low


@dataclass(frozen=True)
class SphereDistance:
    """inf_c sup_x |c f - g|, between `lower` and `upper`.

    `lower` is attained on the points found, for the best c on them. `ascent` is the largest
    |c f - g| that ascent finds at c = `scale`, and `upper` is certified there; it is infinite where
    f and g have different activations.
    """

    lower: float
    ascent: float
    upper: float
    scale: float


def sphere_distance(
    f: Shallow, g: Shallow, seed: int = 0, starts: int = 150, rounds: int = 6, steps: int = 50
) -> SphereDistance:
    r"""The distance of f, scaled by the best c, to g on the sphere.

    Both depend on x through the span of their weights alone, and both are homogeneous, so x is
    written in that span and the supremum over the sphere is the same there. Ascent starts at all
    neurons, at sums of random subsets of them, and at random points; c is chosen anew against all
    points found so far, at most `rounds` times, until ascent finds nothing worse.

    >>> from featavg.paper.connections.power_relu import averaged_limit, decoupled_limit
    >>> labels = np.array([1.0, 1.0, -1.0, -1.0])
    >>> one = averaged_limit(np.eye(4), labels)
    >>> found = sphere_distance(Shallow(3.0 * one.weights, one.head, one.activation), one)
    >>> round(found.scale, 6), found.upper < 1e-9
    (0.333333, True)
    >>> bool(sphere_distance(one, decoupled_limit(np.eye(4), labels, 1.0)).lower > 0.4)
    True
    """
    if f.weights.ndim != 2 or g.weights.ndim != 2:
        raise InputError("f, g", "are batches of networks", "pick one of them by index")
    whole("steps", steps, least=1)
    f, g = _in_their_span(f, g)
    rng = np.random.default_rng(seed)
    pool = _starts(f, g, starts, rng)
    values = np.stack([f(pool), g(pool)])
    for _ in range(rounds):
        scale, lower = _best_scale(values)
        worst = _ascend(f, g, scale, pool, steps)
        found = np.stack([f(worst), g(worst)])
        ascent = float(np.abs(scale * found[0] - found[1]).max())
        values = np.concatenate([values, found], axis=1)
        if ascent <= lower * 1.001:
            break
    scale, lower = _best_scale(values)
    return SphereDistance(lower, max(ascent, lower), _upper(f, g, scale), scale)


def _in_their_span(f: Shallow, g: Shallow) -> tuple[Shallow, Shallow]:
    both = np.concatenate([f.directions, g.directions])
    basis = np.linalg.svd(both, full_matrices=False)[2]
    return tuple(Shallow(net.weights @ basis.T, net.head, net.activation) for net in (f, g))  # type: ignore[return-value]


def _starts(f: Shallow, g: Shallow, count: int, rng: np.random.Generator) -> Float[ndarray, "m N"]:
    """Neurons and random points with both signs, and sums of random subsets of g's neurons."""
    neurons = np.concatenate([g.directions, f.directions[f.strongest()][:count]])
    signs = rng.choice([-1.0, 0.0, 1.0], size=(count, len(g.directions)))
    sums = signs @ g.directions
    points = np.concatenate([neurons, sums, rng.standard_normal((count // 2, f.weights.shape[1]))])
    points = np.concatenate([points, -points])
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    kept = lengths[:, 0] > 0
    return np.asarray(points[kept] / lengths[kept])


def _best_scale(values: Float[ndarray, "2 m"]) -> tuple[float, float]:
    """argmin_c max_i |c f_i - g_i| over c > 0: convex in c, so golden-section search finds it."""
    size = np.abs(values).max(axis=1)
    low, high = 0.0, 4.0 * size[1] / size[0]

    def worst(c: float) -> float:
        return float(np.abs(c * values[0] - values[1]).max())

    golden = (np.sqrt(5.0) - 1) / 2
    for _ in range(80):
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if worst(a) <= worst(b) else (a, high)
    best = float((low + high) / 2)
    return best, worst(best)


def _ascend(f: Shallow, g: Shallow, scale: float, points: Float[ndarray, "m N"], steps: int) -> Float[ndarray, "q N"]:
    """Projected ascent on |c f - g|, a shrinking step along the normalised gradient.

    All points climb for a while, the best third to the end.
    """
    x, best, reached = points, points, np.zeros(len(points))
    for step in range(steps):
        if step == steps // 5:
            kept = np.argsort(-reached)[: len(x) // 3 + 1]
            x, best, reached = x[kept], best[kept], reached[kept]
        (one, by_one), (other, by_other) = f.value_and_gradient(x), g.value_and_gradient(x)
        gap = scale * one - other
        better = np.abs(gap) > reached
        best = np.where(better[:, None], x, best)
        reached = np.maximum(np.abs(gap), reached)
        uphill = np.sign(gap)[:, None] * (scale * by_one - by_other)
        length = np.linalg.norm(uphill, axis=1, keepdims=True)
        x = x + (0.7 * 0.92**step) * uphill / np.where(length > 0, length, 1.0)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    return best


def _upper(f: Shallow, g: Shallow, scale: float) -> float:
    r"""sup |c f - g| <= sum_j b_j |<u_j - m_j, x>| + sum_i |A_i - T_i| |<m_i, x>|, maximised.

    u_j are the directions of f's neurons, m_j the direction of g's neuron nearest to u_j, b_j =
    p c |v_j||w_j| (relu^p is p-Lipschitz on [-1, 1]), A_i what f has in all around m_i and T_i
    what g has there. Each sum is at most sqrt(lambda sum b), lambda the top eigenvalue of
    sum b d d^T.
    """
    if f.activation != g.activation or not isinstance(f.activation, PowerReLU):
        return np.inf
    p = f.activation.p
    amount, target = scale * f.contributions, g.contributions
    nearest = np.argmax(f.directions @ g.directions.T, axis=1)
    total = np.bincount(nearest, weights=amount, minlength=len(target))
    moved = _spread(p * np.abs(amount), f.directions - g.directions[nearest])
    gaps = np.abs(total - target)
    orthogonal = np.allclose(g.directions @ g.directions.T, np.eye(len(target)), atol=1e-9)
    if p >= 2 and orthogonal:
        # sum_i gap_i |z_i|^p <= max gap where sum z_i^2 <= 1.
        return moved + float(gaps.max())
    return moved + _spread(gaps, g.directions)


def _spread(weights: Float[ndarray, " m"], vectors: Float[ndarray, "m N"]) -> float:
    """A bound on sup_{|x| <= 1} sum_j weights_j |<vectors_j, x>|."""
    plain = float(weights @ np.linalg.norm(vectors, axis=1))
    rows = np.sqrt(weights)[:, None] * vectors
    largest = float(np.linalg.norm(rows, 2))
    return min(plain, float(np.sqrt(weights.sum())) * largest)


@dataclass(frozen=True, eq=False)
class PowerRun:
    """A trained network and the features in its coordinates; `test` fresh points have their radii measured."""

    task: MultiCluster
    net: Shallow
    features: Float[ndarray, "k N"]
    p: float
    seed: int
    test: int


@remembered
def power_relu_run(
    p: float = 3.0,
    noise: float = 0.01,
    seed: int = 0,
    k: int = 10,
    *,
    positive: int | None = None,
    n: int = 300,
    width: int = 80,
    d: int = 1000,
    scale: float = 1e-7,
    time: float = 16_000.0,
    test: int = 40,
    progress: Progress = silent,
) -> PowerRun:
    """Train relu^p neurons on x = mu_k + noise * xi / sqrt(d), |mu_k| = 1; 60% of the clusters are positive.

    >>> run = power_relu_run(p=3.0, k=4, n=40, width=30, time=2000.0)
    >>> cosine(run, run.features) > 0.9 > cosine(run, averages(run).directions)
    True
    """
    positive = round(0.6 * k) if positive is None else positive
    task = MultiCluster(k=k, d=d, sigma=noise / math.sqrt(d), norms=1.0, positive=positive)
    data = draw(task, n, width, seed)
    objective = ShallowObjective(data.x, data.y, PowerReLU(p))
    trained = train_shallow(objective, data.unit_weights, scale=scale, time=time, progress=progress)
    return PowerRun(task, trained.net, data.features, p, seed, test)


def averages(run: PowerRun) -> Shallow:
    """The averaged limit F, two neurons."""
    return averaged_limit(run.features, run.task.cluster_labels.astype(float))


@cache
def distances(run: PowerRun) -> dict[str, SphereDistance]:
    """Distances on the sphere to F and to F^(p), also as the limit conjectured for p and the other one."""
    limit = decoupled_limit(run.features, run.task.cluster_labels.astype(float), run.p)
    average, decoupled = (sphere_distance(run.net, each, run.seed) for each in (averages(run), limit))
    right, wrong = (average, decoupled) if run.p == 1 else (decoupled, average)
    return {"average": average, "decoupled": decoupled, "right": right, "wrong": wrong}


def cosine(run: PowerRun, directions: Float[ndarray, "q N"]) -> float:
    """The mean of max cosine over the neurons that make up 99% of f, weighted by share."""
    strong = run.net.strongest()
    share = np.abs(run.net.contributions[strong])
    best = (run.net.directions[strong] @ directions.T).max(axis=1)
    return float(share @ best / share.sum())


def attacked(run: PowerRun) -> float:
    """Median attack radius of fresh points (l2; features have length one)."""
    x, y = _fresh(run)
    return float(np.median(attacked_radii(run.net, x, y, run.features, run.task.cluster_labels)))


def certified(run: PowerRun) -> float:
    """Median certified radius of the same points, by way of the limit that f is near."""
    error = distances(run)["right"].upper
    if not math.isfinite(error) or 1 < run.p < 2:
        return 0.0
    about = *_fresh(run), run.features, run.task.cluster_labels
    if run.p == 1:
        return float(np.median(certified_near_average(*about, error)))
    return float(np.median(certified_near_decoupled(*about, run.p, error)))


def _fresh(run: PowerRun) -> tuple[Float[ndarray, "t N"], ndarray]:
    points = run.task.sample(run.test, run.seed)
    return points.coordinates(run.features.shape[1]), points.y
