"""How far apart two shallow networks are on the unit sphere, after the best rescaling.

inf_{c > 0} sup_{|x| = 1} |c f(x) - g(x)| is not a convex problem in x, so the answer is a bracket:
points found by ascent bound it from below for every c at once, and the triangle inequality, neuron
by neuron, bounds it from above.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.errors import InputError, whole
from featavg.paper.connections.power_relu import PowerReLU, Shallow


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


def _ascend(
    f: Shallow, g: Shallow, scale: float, points: Float[ndarray, "m N"], steps: int
) -> Float[ndarray, "q N"]:
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
