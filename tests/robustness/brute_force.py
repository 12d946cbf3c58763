"""The slow, obvious twin of the exact radius: one quadratic program for each activation region."""

from itertools import combinations, product

import numpy as np
from scipy.optimize import nnls

from featavg.nets.two_layer import TwoLayer


def least_distance(rows, limits):
    """min |u| subject to rows @ u <= limits, by Lawson and Hanson's reduction to NNLS."""
    lengths = np.linalg.norm(rows, axis=1)
    if np.any((lengths == 0) & (limits < 0)):
        return np.inf
    rows, limits = rows[lengths > 0], limits[lengths > 0]
    rows, limits = rows / lengths[lengths > 0, None], limits / lengths[lengths > 0]
    if np.all(limits >= 0):
        return 0.0
    scale = np.abs(limits).max()
    matrix = -np.vstack([rows.T, limits[None] / scale])
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    weights, _ = nnls(matrix, target)
    residual = matrix @ weights - target
    if residual[-1] > -1e-13:
        return np.inf
    u = -residual[:-1] / residual[-1]
    if np.any(rows @ u > limits / scale + 1e-7):
        return np.inf
    return float(np.linalg.norm(u)) * scale


def brute_force_radius(net: TwoLayer, x, y, readout="sum", positive=None):
    """The least distance over all 2^M activation regions; for `max` and `top` also over all rivals."""
    z = net.preactivations(x[None])[0]
    if net.outputs == 1:
        differences = [y * net.head]
    else:
        own, rival = (positive, ~positive) if y > 0 else (~positive, positive)
        if readout == "sum":
            differences = [net.head[own].sum(0, keepdims=True) - net.head[rival].sum(0)[None]]
        else:
            q = int(readout.removeprefix("top:q=")) if readout != "max" else 1
            left, right = (
                np.array([net.head[list(some)].sum(0) for some in combinations(np.flatnonzero(s), q)])
                for s in (own, rival)
            )
            differences = [left - row for row in right]
    best = np.inf
    for pattern in product((0.0, 1.0), repeat=net.neurons):
        on = np.array(pattern)
        sign = 1.0 - 2.0 * on  # sign * z <= 0 in the region
        for difference in differences:
            rows = np.vstack([sign[:, None] * net.weights, (difference * on) @ net.weights])
            limits = np.concatenate([-sign * z, -(difference * on) @ z])
            best = min(best, least_distance(rows, limits))
    return best
