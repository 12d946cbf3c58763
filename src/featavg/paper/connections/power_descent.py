"""Min and Vidal (2025): gradient descent on the squared loss, from small, nudged and large starts.

The theorem is about gradient flow from a tiny start on orthonormal Gaussian mixtures: neurons of
relu^p, p >= 3, align with single features, and the network comes close to F^(p). Here it is plain
full-batch gradient descent with the settings that the publication prints, in R^d as it is (there
are more points than dimensions, so that nothing can be compressed), in single precision. The two
negative results of the publication, a large start and powers without the weights' norm, are runs of
the same kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.data.streams import stream
from featavg.errors import InputError, one_of
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.result import Result
from featavg.paper.connections.power_relu import PowerReLU, Shallow
from featavg.paper.connections.shallow_radii import attacked_radii
from featavg.progress import Progress, silent

DESCENT_STARTS = ("random", "nudged", "large")
TESTS = 20


@dataclass(frozen=True, repr=False, eq=False)
class PowerReluDescent(Result):
    """One run of gradient descent.

    Attributes:
        p, start: the power, and one of `DESCENT_STARTS`.
        iterations: when it was looked at.
        cosines: quartiles of each neuron's largest cosine with a feature, there.
        loss: the mean squared error, there.
        net, features: the network at the end, and the features, in R^d.
        accuracy: on fresh points.
        radii: the l2 radii that attacks find on fresh points, |mu| = 1.
        normalised: whether activations are divided by |w|^(p-1).

    Returned by `fa.power_relu_descent`, which has an example.
    """

    p: float
    start: str
    iterations: Int[ndarray, " t"]
    cosines: Float[ndarray, "t 3"]
    loss: Float[ndarray, " t"]
    net: Shallow
    features: Float[ndarray, "k d"]
    accuracy: float
    radii: Float[ndarray, " n"]
    normalised: bool = True

    @property
    def radius(self) -> float:
        """The median radius."""
        return float(np.median(self.radii))

    @property
    def aligned_at(self) -> float:
        """The first iteration looked at with a median cosine above 0.9; infinite if there is none."""
        late = self.cosines[:, 1] > 0.9
        return float(self.iterations[np.argmax(late)]) if late.any() else math.inf

    def figure(self) -> Figure:
        """Quartiles of the cosines, and the loss."""
        low, middle, high = self.cosines.T
        cosines = Series("median", self.iterations, middle, "decoupled", "solid", low, high)
        loss = Series("mean squared error", self.iterations, self.loss, "averaged")
        step = Axis("iteration")
        return Figure(
            "descent",
            f"Alignment under gradient descent, p = {self.p:g}, {self.start} start",
            "Quartiles of the neurons' largest cosine with a feature, and the loss.",
            (
                Lines(step, Axis("cosine", range=(0.0, 1.05)), (cosines,), title="Alignment"),
                Lines(step, Axis("loss", log=True), (loss,), title="Loss"),
            ),
        )

    def to_json(self) -> dict[str, Any]:
        """Every number, by name."""
        return {
            "p": self.p,
            "start": self.start,
            "iterations": self.iterations.tolist(),
            "cosine_quartiles": self.cosines.tolist(),
            "loss": self.loss.tolist(),
            "accuracy": self.accuracy,
            "radius": self.radius,
            "radii": self.radii.round(4).tolist(),
            "normalised": self.normalised,
        }

    def summary(self) -> str:
        """Where it ends."""
        plain = "" if self.normalised else ", not normalised"
        return (
            f"p = {self.p:g}{plain}, {self.start} start: after {self.iterations[-1]} iterations the loss is "
            f"{self.loss[-1]:.2g}, the median neuron's cosine with a feature {self.cosines[-1, 1]:.3f}, "
            f"accuracy {self.accuracy:.3f}, median radius {self.radius:.3f} (√2/2 = 0.707 is the limit)"
        )


def power_relu_descent(
    p: float = 3.0,
    start: str = "random",
    *,
    n: int = 5000,
    d: int = 1000,
    k: int = 10,
    positive: int = 5,
    noise: float = 0.1,
    width: int = 100,
    rate: float = 0.2,
    scale: float = 1e-7,
    iterations: int = 600,
    until: float = 0.0,
    normalised: bool = True,
    seed: int = 0,
    progress: Progress = silent,
) -> PowerReluDescent:
    """Train f(x) = sum_j v_j relu(<w_j, x>)^p / |w_j|^(p-1) on the squared loss of labels -1 and +1.

    The defaults are those of the publication's Figures 5 and 6 (which do not print the width).

    Args:
        p: the power.
        start: "random" (weights of length `scale`), "nudged" (the same, turned by 0.05 towards a
            feature), or "large" (coordinates of deviation 0.5, so that nothing is small).
        n, d, k, positive, noise: the data, x = mu_j + noise * xi / sqrt(d), |mu_j| = 1.
        width, rate, scale, iterations: of the network and its training.
        until: training ends when the mean squared error is no larger.
        normalised: False leaves out the division by |w_j|^(p-1).
        seed: of data and start.
        progress: called with the share done and a note.

    >>> import featavg as fa
    >>> run = fa.power_relu_descent(n=200, d=50, k=4, positive=2, width=20, scale=1e-2, iterations=300)
    >>> bool(run.loss[-1] < run.loss[0])
    True
    """
    one_of("start", start, DESCENT_STARTS)
    if not (rate > 0 and scale > 0 and iterations > 0):
        raise InputError(
            "rate", f"is {rate}", "give a positive rate, scale and number of iterations"
        )
    task = MultiCluster(k=k, d=d, sigma=noise / math.sqrt(d), norms=1.0, positive=positive)
    sample = task.sample(n, seed)
    features = task.features_in(d)
    x, y = sample.coordinates(d).astype(np.float32), sample.y.astype(np.float32)
    weights, head = _start(start, features, width, scale, seed)
    every = max(1, iterations // 60)
    marks, cosines, losses = [], [], []
    for step in range(iterations + 1):
        by_weights, by_head, loss = (_gradient if normalised else _plain)(x, y, weights, head, p)
        last = step == iterations or not math.isfinite(loss) or loss <= until
        if step % every == 0 or last:
            progress(step / iterations, f"iteration {step}, loss {loss:.2g}")
            units = weights / np.linalg.norm(weights, axis=1, keepdims=True)
            best = (units @ features.T.astype(np.float32)).max(axis=1)
            cosines.append(np.quantile(best, [0.25, 0.5, 0.75]))
            marks.append(step)
            losses.append(loss)
        if last:
            break
        weights, head = weights - rate * by_weights, head - rate * by_head
    if not normalised:  # v relu(<w, x>)^p is the normalised neuron with head v |w|^(p-1)
        head = head * np.linalg.norm(weights, axis=1) ** (p - 1)
    net = Shallow(weights.astype(float), head.astype(float), PowerReLU(p))
    fresh = task.sample(10 * TESTS, seed + 1)
    points = fresh.coordinates(d)
    accuracy = float(np.mean(np.sign(net(points)) == fresh.y))
    some, labels = points[:TESTS], fresh.y[:TESTS]
    attacked = attacked_radii(net, some, labels, features, task.cluster_labels)
    return PowerReluDescent(
        p, start, np.array(marks), np.array(cosines, dtype=float), np.array(losses), net, features,
        accuracy, attacked, normalised,
    )  # fmt: skip


def _start(
    start: str, features: Float[ndarray, "k d"], width: int, scale: float, seed: int
) -> tuple[Float[ndarray, "h d"], Float[ndarray, " h"]]:
    """Weights of length `scale` and a balanced head, v_j = +-|w_j|, signs in turn."""
    draw = stream(seed, "power-relu-descent")
    d = features.shape[1]
    directions = draw.standard_normal((width, d))
    signs = np.where(np.arange(width) % 2 == 0, 1.0, -1.0)
    if start == "large":
        weights = 0.5 * directions
        return weights.astype(np.float32), (0.5 * draw.standard_normal(width)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if start == "nudged":
        half = len(features) // 2
        own = np.where(signs > 0, np.arange(width) // 2 % half, half + np.arange(width) // 2 % half)
        directions = directions + 0.05 * features[own]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (scale * directions).astype(np.float32), (scale * signs).astype(np.float32)


def _gradient(
    x: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    weights: Float[ndarray, "h d"],
    head: Float[ndarray, " h"],
    p: float,
) -> tuple[Float[ndarray, "h d"], Float[ndarray, " h"], float]:
    """The gradients of mean (f - y)^2 by weights and head, and the loss."""
    norms = np.linalg.norm(weights, axis=1)
    ratio = np.maximum(x @ weights.T / norms, 0.0)  # relu(cos |x|), of order one however small w is
    below = ratio ** (p - 1)  # NumPy squares fast and has no other fast power
    powers = below * ratio
    outputs = powers @ (head * norms)
    slopes = 2.0 * (outputs - y) / len(y)
    by_head = norms * (slopes @ powers)
    # d/dw of |w| r^p with r = <w, x>/|w|:  p r^(p-1) x + (1 - p) r^p w/|w|.
    inner = (slopes[:, None] * below).T @ x
    radial = (slopes @ powers)[:, None] * weights / norms[:, None]
    by_weights = head[:, None] * (p * inner + (1.0 - p) * radial)
    return by_weights, by_head, float(np.mean((outputs - y) ** 2))


def _plain(
    x: Float[ndarray, "n d"],
    y: Float[ndarray, " n"],
    weights: Float[ndarray, "h d"],
    head: Float[ndarray, " h"],
    p: float,
) -> tuple[Float[ndarray, "h d"], Float[ndarray, " h"], float]:
    """The same for f(x) = sum_j v_j relu(<w_j, x>)^p."""
    active = np.maximum(x @ weights.T, 0.0)
    below = active ** (p - 1)
    powers = below * active
    outputs = powers @ head
    slopes = 2.0 * (outputs - y) / len(y)
    by_weights = head[:, None] * p * ((slopes[:, None] * below).T @ x)
    return by_weights, slopes @ powers, float(np.mean((outputs - y) ** 2))
