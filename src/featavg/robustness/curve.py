"""Robust accuracy against the radius, with confidence intervals; and PGD as it was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.boundary.kinds import Count, NotNegative, Seed, Size
from featavg.boundary.public import public
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.accuracy import wilson_interval
from featavg.progress import Progress
from featavg.robustness.attacks.attack import AttackResult
from featavg.robustness.attacks.pgd import check_pgd, pgd
from featavg.robustness.models.model import Model
from featavg.robustness.models.torch_model import TorchModel


@dataclass(frozen=True, eq=False)
class Curve:
    """The share of points that stay right at each radius.

    Attributes:
        radii: in `unit`.
        accuracy: shares of `n` points.
        low, high: a Wilson confidence interval for each share.
        confidence: of the interval.
        unresolved: points for which no flip was found at any radius; they count as right
            throughout, so the curve is an upper bound by that much.
        label: which attacks this is.
    """

    radii: Float[ndarray, " q"]
    accuracy: Float[ndarray, " q"]
    low: Float[ndarray, " q"]
    high: Float[ndarray, " q"]
    n: int
    unit: str
    label: str
    confidence: float = 0.95
    unresolved: int = 0

    def figure(self) -> Figure:
        """The curve with its interval."""
        line = Series(self.label, self.radii, self.accuracy, "neutral", lo=self.low, hi=self.high)
        panel = Lines(Axis("radius", self.unit), Axis("share of points that stay right"), (line,))
        caption = f"{self.n} points; the band is a {self.confidence:.0%} interval."
        return Figure("curve", "Robust accuracy", caption, (panel,))

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {k: v.tolist() if isinstance(v, ndarray) else v for k, v in vars(self).items()}


@public
def curve(
    results: AttackResult | Sequence[AttackResult],
    radii: Sequence[float] | Float[ndarray, " q"] | None = None,
    confidence: NotNegative = 0.95,
) -> Curve:
    """Robust accuracy, worst case over one or several results on the same points.

    A point is robust at r if every radius found for it is larger than r.

    Args:
        results: of `attack_suite`, in one unit.
        radii: where to read the curve (51 values up to the largest finite radius unless given).
        confidence: of the Wilson intervals.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> ends = fa.attack_suite(fa.network_model(net), [[3.0, 1.0], [2.0, 1.0]], [1, 1])
    >>> fa.curve(ends, [0.5, 1.0, 2.0]).accuracy
    array([1. , 0.5, 0. ])
    """
    several = [results] if isinstance(results, AttackResult) else list(results)
    if not several:
        raise InputError("results", "are empty", "give at least one")
    if len({(len(one), one.unit) for one in several}) > 1:
        raise InputError("results", "differ in points or unit", "compare like with like")
    smallest = np.min([one.radii for one in several], axis=0)
    unresolved = int(np.sum(np.all([one.stuck for one in several], axis=0)))
    names = list(dict.fromkeys(name for one in several for name in one.attacks))
    return curve_of(smallest, several[0].unit, radii, confidence, label=" + ".join(names), unresolved=unresolved)


def curve_of(
    smallest: Float[ndarray, " n"],
    unit: str,
    radii: Sequence[float] | Float[ndarray, " q"] | None = None,
    confidence: float = 0.95,
    label: str = "",
    unresolved: int = 0,
) -> Curve:
    """The same from radii that come from anywhere, such as exact ones.

    >>> curve_of(np.array([0.0, 1.0, 2.0, 4.0]), "l2, raw", [0.0, 1.5, 3.0]).accuracy
    array([0.75, 0.5 , 0.25])
    """
    if len(smallest) == 0 or np.any(np.isnan(smallest)) or np.any(smallest < 0):
        raise InputError("radii of points", "are missing or negative", "give one radius per point")
    if radii is None:
        finite = smallest[np.isfinite(smallest)]
        radii = np.linspace(0.0, float(np.max(finite, initial=0.0)) or 1.0, 51)
    at = _lengths(radii)
    count = np.sum(smallest[None, :] > at[:, None], axis=1)
    low, high = wilson_interval(count, len(smallest), confidence)
    share = count / len(smallest)
    return Curve(at, share, low, high, len(smallest), unit, label, confidence, unresolved)


def _lengths(radii: Sequence[float] | Float[ndarray, " q"]) -> Float[ndarray, " q"]:
    at = np.asarray(radii, dtype=float)
    if at.ndim != 1 or len(at) == 0 or np.any(~(np.isfinite(at) & (at >= 0))):
        raise InputError("radii", "are not lengths", "give a list of finite numbers, zero or more")
    return at


@public
def pgd_curve(
    model: Model,
    x: ndarray,
    y: Sequence[int] | Int[ndarray, " n"],
    radii: Sequence[float] | Float[ndarray, " q"],
    own: Sequence[int] | Int[ndarray, " n"] | None = None,
    norm: str = "l2",
    steps: Size = 40,
    step_size: float | None = None,
    restarts: Count = 1,
    seed: Seed = 0,
    confidence: NotNegative = 0.95,
    progress: Progress | None = None,
) -> Curve:
    """The protocol of the paper: PGD-40 on the loss the model was trained with, radius by radius.

    It overstates robustness where ReLUs are dead or the read-out is not the training loss; that is
    why it is here. Each radius is attacked on its own, as published.

    Args:
        own: the label each point has for the model's own loss, as an output number; only a model
            with one output needs none.
        step_size: a share of the radius, 2.5/steps unless given.
        progress: called with the share of the radii done.
        model: `network_model(...)` or `torch_model(...)`.
        x: points, one per row, or images.
        y: labels of the decision that is counted.
        radii: at which to attack.
        norm: "l2" or "linf".
        steps: of each attack.
        restarts: starts of each attack; one flip is enough.
        seed: of the starts.
        confidence: of the Wilson intervals.

    >>> import numpy as np
    >>> import featavg as fa
    >>> net = fa.binary(np.eye(2))
    >>> x, y = np.array([[3.0, 1.0], [2.0, 1.0]]), [1, 1]
    >>> fa.pgd_curve(fa.network_model(net), x, y, [0.5, 1.0, 2.0]).accuracy
    array([1. , 0.5, 0. ])
    """
    if isinstance(model, TorchModel):
        model = model.shaped(x)
    points, label = model.rows(x), model.decision.labels(y)
    target = None if own is None else np.asarray(own)
    at = _lengths(radii)
    check_pgd(steps, step_size, restarts)
    right = np.flatnonzero(model.margins(points, label) > 0)
    count = np.zeros(len(at), dtype=int)
    for i, radius in enumerate(at):
        if radius == 0 or len(right) == 0:  # nothing to attack
            count[i] = len(right)
            continue
        if progress is not None:
            progress(i / len(at), f"PGD-{steps} at radius {radius:.3g}")
        attacked = pgd(
            model,
            points[right],
            label[right],
            np.full(len(right), radius),
            norm,
            steps,
            step_size,
            restarts,
            loss="cross-entropy",
            own=None if target is None else target[right],
            seed=seed,
        )
        count[i] = len(right) - int(attacked.flipped.sum())
    low, high = wilson_interval(count, len(points), confidence)
    label_text = f"PGD-{steps}, own loss"
    return Curve(at, count / len(points), low, high, len(points), model.unit(norm), label_text, confidence)
