"""The slow and obvious twin of the deep search: every activation region, one program each."""

import math

import numpy as np

from featavg.nets.deep import Deep
from featavg.robustness.geometry.qp import nearest


def as_deep(net):
    """A two-layer network as a deep one, which the deep search answers for."""
    return Deep((net.weights, net.head), (net.biases, None))


def brute_force(net, z, conditions, rows=(), limits=()):
    """min |u| over all regions: signs are chosen neuron by neuron, empty regions are dropped.

    `net` is a Layered; inside a region every layer is affine in u, so each condition with linear rows is
    a polyhedron whose nearest point is one quadratic program. Only steps with rows @ u <= limits count.
    """
    best = math.inf
    r = net.rows.shape[1]
    first = [(z, net.rows)]
    for condition in conditions:
        given = [*rows], [*limits]
        best = min(best, _descend(net, condition, *given, first, 0, 0, best, r, []))
    return best


def _descend(net, condition, rows, limits, affine, layer, neuron, best, r, h):
    if rows:
        a, b = np.array(rows), np.array(limits)
        answer = nearest(a, b, np.zeros(len(b)), np.zeros(len(b)))
        if answer.u is None or answer.bound >= best:
            return best
    constant, slope = affine[-1][:2]
    if layer == net.hidden:
        c_rows, shifts = condition.functionals(None, None, constant)
        a = np.array([*rows, *(c_rows @ slope)])
        b = np.array([*limits, *(-(c_rows @ constant + shifts))])
        answer = nearest(a, b, np.zeros(len(b)), np.zeros(len(b)))
        return min(best, math.sqrt(answer.u @ answer.u)) if answer.u is not None else best
    if neuron == len(constant):
        signs = np.array(h)
        hidden_c, hidden_s = constant * signs, slope * signs[:, None]
        if net.skips[layer]:
            hidden_c, hidden_s = hidden_c + affine[-2][2], hidden_s + affine[-2][3]
        weight, bias = net.weights[layer], net.biases[layer]
        step = (weight @ hidden_c + bias, weight @ hidden_s)
        entry = (*step,)
        kept = [*affine[:-1], (*affine[-1], hidden_c, hidden_s)]
        return _descend(net, condition, rows, limits, [*kept, entry], layer + 1, 0, best, r, [])
    for sign, kept_slope in ((1.0, 1.0), (-1.0, net.leak)):
        best = _descend(
            net,
            condition,
            [*rows, -sign * slope[neuron]],
            [*limits, sign * constant[neuron]],
            affine,
            layer,
            neuron + 1,
            best,
            r,
            [*h, kept_slope],
        )
    return best
