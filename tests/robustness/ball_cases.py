"""Bounds over balls of random networks, at random parameters, and samples to compare them with."""

import math

import numpy as np
from tests.robustness.test_deep_radii import random_network

from featavg.robustness.exact.budget import Clock
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.sdp_bound import SdpBound

FREE = Clock(10_000, math.inf)
KINDS = {
    "one-hidden": {"hidden": 1},
    "leaky": {"hidden": 1, "leak": 0.2},
    "two-hidden": {"hidden": 2},
    "leaky-two": {"hidden": 2, "leak": 0.2},
    "residual": {"hidden": 3, "skip": True, "leak": 0.1},
}


def ball_of(net, radius, rng):
    """A ball around a random point, with the bounds that lines give."""
    search = BallSearch(net, [])
    search.radius = radius
    z = net.start(rng.standard_normal((1, net.first.shape[1])))[0]
    return search._ball(z, reach=10.0)


def undecided(ball):
    """The neurons whose sign is open, as pairs of a layer and a number."""
    return [
        (layer, int(neuron))
        for layer in range(ball.net.hidden)
        for neuron in np.flatnonzero((ball.lo[layer] < 0) & (ball.hi[layer] > 0))
    ]


def relaxed(kind, seed, inequalities=1, splits=True, radius=1.0):
    """A bound at random parameters, with the sign of two neurons imposed."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, **KINDS[kind], outputs=3, dimension=4)
    ball = ball_of(net, radius, rng)
    rows, shifts = rng.standard_normal((inequalities, 3)), rng.standard_normal(inequalities)
    signs = undecided(ball)
    chosen = {signs[0]: 1.0, signs[-1]: -1.0} if splits and len(signs) > 2 else {}
    imposed = [Split(*neuron, side, 0.0) for neuron, side in chosen.items()]
    bound = SdpBound(ball, rows, shifts, imposed)
    theta = bound.start()
    theta += 0.03 * rng.standard_normal(len(theta))
    theta[0] = max(theta[0] + 2.0, 0.0)
    return bound, theta, rng


def steps_in(bound, rng, count):
    """Steps in the ball, of all lengths."""
    steps = rng.standard_normal((count, bound.ball.net.rows.shape[1]))
    lengths = bound.ball.radius * rng.random(count) ** 0.3
    return steps * (lengths / np.linalg.norm(steps, axis=1))[:, None]


def in_part(bound, layers):
    """Where the imposed signs are those of the network."""
    inside = np.ones(len(layers[0]), bool)
    for split in bound.splits:
        inside &= split.side * layers[split.layer][:, split.neuron] <= 0
    return inside


def least_sampled(bound, rng, count=20_000):
    """The least value of the largest inequality on points of the part."""
    ball = bound.ball
    layers = ball.net.forward(ball.z + steps_in(bound, rng, count) @ ball.net.rows.T)
    values = np.max(layers[-1] @ bound.rows.T + bound.shifts, axis=1)
    return float(np.min(values[in_part(bound, layers)], initial=math.inf))
