"""Margins, normalised and smoothed, and the sandwich between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.special import logsumexp

from featavg.boundary.kinds import NotNegative, Size
from featavg.boundary.public import public
from featavg.errors import InputError, one_of
from featavg.nets.deep import Deep
from featavg.shapes import PerSeed


@dataclass(frozen=True, eq=False)
class Margins:
    r"""The margins of a training set under an L-homogeneous network.

        normalized = min_i q_i / |theta|^L,    smoothed = -log(sum_i l_i) / |theta|^L.

    For the exponential loss  normalized - log(n)/|theta|^L <= smoothed <= normalized;  for logistic
    and cross-entropy losses the upper end holds exactly up to the gap between l and exp(-q).

    Attributes:
        smallest: min_i q_i.
        norm: |theta|.
        order: L.
        normalized, smoothed: see above.
        slack: log(n) / |theta|^L, the width of the sandwich.
    """

    smallest: PerSeed
    norm: PerSeed
    order: int
    normalized: PerSeed
    smoothed: PerSeed
    slack: PerSeed

    def sandwich_gap(self) -> PerSeed:
        """How far the smoothed margin is outside its bounds, relative to the normalized one."""
        above = self.smoothed - self.normalized
        below = self.normalized - self.slack - self.smoothed
        return np.maximum(np.maximum(above, below), 0.0) / np.abs(self.normalized)


def sample_margins(outputs: Float[ndarray, "*s n c"], targets: Int[ndarray, "*s n"]) -> Float[ndarray, "*s n"]:
    """q_i = y_i f(x_i) for one output, own output minus the best other for more.

    >>> sample_margins(np.array([[[3.0, 1.0, 2.0]]]), np.array([[0]]))
    array([[1.]])
    """
    if outputs.shape[-1] == 1:
        return targets * outputs[..., 0]
    index = targets[..., None]
    own = np.take_along_axis(outputs, index, axis=-1)[..., 0]
    others = outputs.copy()
    np.put_along_axis(others, index, -np.inf, axis=-1)
    return own - others.max(axis=-1)


def parameter_norm(params: Sequence[ndarray], batch: int = 0) -> PerSeed:
    """|theta| over all parameters; the first `batch` axes are networks."""
    total = sum(np.sum(p * p, axis=tuple(range(batch, p.ndim))) for p in params)
    return np.sqrt(total)


@public
def margins(
    outputs: Float[ndarray, "*s n c"],
    targets: Int[ndarray, "*s n"],
    log_losses: Float[ndarray, "*s n"],
    norm: PerSeed,
    order: Size,
) -> Margins:
    """Margins of a network from its outputs, log-losses, norm and order of homogeneity.

    Args:
        outputs: f(x_i), one column for two classes, else one for each class.
        targets: y_i: -1 or +1 for two classes, else class numbers.
        log_losses: log of the loss of each sample.
        norm: |theta|, of all parameters together.
        order: L: outputs grow like the L-th power of the parameters.

    >>> import numpy as np
    >>> import featavg as fa
    >>> outputs, targets = np.array([[3.0], [-1.0]]), np.array([1, -1])
    >>> fa.margins(outputs, targets, np.array([-3.0, -1.0]), np.float64(2.0), 1).normalized
    np.float64(0.5)
    """
    if order < 1:
        raise InputError("order", f"is {order}", "a homogeneous network has order 1 or more")
    classes = outputs.shape[-1]
    known = np.arange(classes) if classes > 1 else np.array([-1, 1])
    if not np.all(np.isin(targets, known)):
        remedy = f"give numbers from 0 to {classes - 1}" if classes > 1 else "give -1 or +1"
        raise InputError("targets", "hold a class that has no output", remedy)
    q = sample_margins(outputs, targets).min(axis=-1)
    scale = norm**order
    smoothed = -logsumexp(log_losses, axis=-1) / scale
    slack = np.log(outputs.shape[-2]) / scale
    return Margins(q, norm, order, q / scale, np.asarray(smoothed), slack)


def deepest_fall(values: Float[ndarray, "t s"], fitted: ndarray) -> float:
    """The deepest fall below an earlier value after the fit, relative to the last value."""
    worst = 0.0
    for seed in range(values.shape[1]):
        line = values[fitted[:, seed], seed]
        worst = max(worst, float(((np.maximum.accumulate(line) - line) / line[-1]).max()))
    return worst


# A multiplier below this share of the largest one belongs to no support vector.
_SUPPORT = 1e-6


@dataclass(frozen=True, eq=False)
class KKT:
    """Residuals of the KKT conditions.

    Attributes:
        stationarity: |theta - sum_i lambda_i h_i| / |theta|.
        complementarity: sum_i lambda_i (q_i - 1) / sum_i lambda_i, with min q = 1.
        multipliers: lambda_i, by non-negative least squares.
        support: how many multipliers are not zero.
        kinks: how many (neuron, point) pairs lie on a kink, where the gradient has a choice.
        excess: how far a choice on a kink leaves [0, 1]; zero for a true Clarke gradient.
    """

    stationarity: float
    complementarity: float
    multipliers: Float[ndarray, " n"]
    support: int
    kinks: int
    excess: float


def sample_gradients(
    net: Deep, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], active: ndarray | None = None
) -> Float[ndarray, "n p"]:
    """The gradient of q_i = y_i f(x_i) by all weights, one row per sample.

    Args:
        net: a network with one output.
        x, y: the points.
        active: for two layers, which neurons count as active where; z >= 0 unless given.
    """
    z = net.preactivations(x)
    if active is not None:
        # The sign decides the derivative, and the size of what is on a kink is zero to rounding.
        z[0] = np.where(active, np.maximum(z[0], 0.0), -1.0)
    parts = []
    for d, fed in net.backward(x, z, y[:, None].astype(float)):
        parts.append(np.einsum("nr,nc->nrc", d, fed).reshape(len(x), -1))
    return np.concatenate(parts[::-1], axis=1)


@public
def kkt(
    net: Deep, x: Float[ndarray, "n N"], y: Int[ndarray, " n"], kink: NotNegative = 1e-6, layers: str = "both"
) -> KKT:
    """How near a network without biases and with one output is to a KKT point of the max-margin problem

        (P)   min |theta|^2 / 2   subject to   q_i(theta) >= 1,

    whose KKT points are theta = sum_i lambda_i h_i with lambda_i >= 0, h_i a (Clarke) gradient of q_i, and
    lambda_i (q_i - 1) = 0. A direction is judged after scaling it so that the smallest margin is one.

    Args:
        net: the network.
        x, y: its training data.
        kink: |z| below this share of |w_r| |x_i| is on the kink (two layers only: there each kink
            adds one vector to the gradient of its sample, with a coefficient in [0, 1]).
        layers: "both" (all layers are trained), or "first" (the others are fixed, and the network
            is homogeneous of order 1 in what is trained).

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.Deep((np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, -1.0]])))
    >>> round(fa.kkt(net, np.eye(2), np.array([1, -1])).stationarity, 6)
    0.0
    """
    one_of("layers", layers, ("first", "both"))
    if net.outputs != 1:
        raise InputError("net", f"has {net.outputs} outputs", "KKT residuals want one")
    order = net.homogeneity() if layers == "both" else 1
    trained = net.depth if layers == "both" else 1
    q = sample_margins(net(x), y)
    smallest = float(q.min())
    if not smallest > 0.0:
        raise InputError("net", "does not fit its data yet", "train until every margin is positive")
    scaled = Deep(tuple(w / smallest ** (1 / order) for w in net.weights[:trained]) + net.weights[trained:])
    q = q / smallest
    theta = np.concatenate([w.ravel() for w in scaled.weights[:trained]])
    pairs, extra = _kinks(scaled, x, y, kink)
    active = None
    if len(pairs):
        active = scaled.preactivations(x)[0] >= 0.0
        active[pairs[:, 0], pairs[:, 1]] = False
    columns = np.concatenate([sample_gradients(scaled, x, y, active), extra])[:, : theta.size].T
    coefficients = _nonnegative(columns, theta)
    residual = theta - columns @ coefficients
    multipliers, chosen = coefficients[: len(x)], coefficients[len(x) :]
    excess = np.maximum(chosen - multipliers[pairs[:, 0]], 0.0) if len(pairs) else np.zeros(1)
    largest = float(multipliers.max())
    return KKT(
        stationarity=float(np.linalg.norm(residual) / np.linalg.norm(theta)),
        complementarity=float(multipliers @ (q - 1.0) / multipliers.sum()),
        multipliers=multipliers,
        support=int((multipliers > _SUPPORT * largest).sum()),
        kinks=len(pairs),
        excess=float(excess.max() / largest),
    )


def _kinks(net: Deep, x: ndarray, y: ndarray, kink: float) -> tuple[Int[ndarray, "e 2"], Float[ndarray, "e p"]]:
    """Pairs (sample, neuron) on a kink, and what each adds to the gradient of its sample."""
    size = sum(w.size for w in net.weights)
    if net.depth != 2:
        return np.empty((0, 2), dtype=int), np.empty((0, size))
    first, head = net.weights
    z = x @ first.T
    limit = kink * np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(first, axis=1)
    pairs = np.argwhere(np.abs(z) <= limit)
    extra = np.zeros((len(pairs), size))
    for row, (i, r) in zip(extra, pairs, strict=True):
        row[r * x.shape[1] : (r + 1) * x.shape[1]] = y[i] * head[0, r] * x[i]
    return pairs, extra


def _nonnegative(columns: Float[ndarray, "p m"], theta: Float[ndarray, " p"]) -> ndarray:
    """argmin over lambda >= 0 of |columns lambda - theta|, columns scaled to length one."""
    from scipy.optimize import nnls

    lengths = np.linalg.norm(columns, axis=0)
    lengths[lengths == 0.0] = 1.0
    unit = columns / lengths
    if unit.shape[0] > unit.shape[1]:
        # The problem lives in the span of the columns: as many equations as unknowns suffice.
        basis, unit = np.linalg.qr(unit)
        theta = basis.T @ theta
    found, _ = nnls(unit, theta, maxiter=50 * unit.shape[1])
    return np.asarray(found / lengths)
