"""How many fine labels are enough: radius and averaging index against the share of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.audit.gain import RECIPE, HeadData, refusal, signal_to_noise, split, surrogate
from featavg.audit.parts import Audited, Part, Row
from featavg.boundary.kinds import Count
from featavg.boundary.public import public
from featavg.data.clusters import MultiCluster
from featavg.data.labels import Labels
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Result, Rule, Series
from featavg.measures.averaging import averaging_index_of
from featavg.progress import Progress, silent
from featavg.simulate.label_means import label_run, mean_run, with_share
from featavg.storage.provenance import provenance
from featavg.training.heads import class_features, train_head
from featavg.training.recipe import Recipe

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# Fine labels that push the boundary by less than this are not worth a budget.
LEAST_GAIN = 1.05
# Of fewer points of a class a fifth, to measure on, or the other part may hold none.
LEAST_POINTS = 10
# Why there is no answer, or nothing; then radius and index at a share and a seed, measured and predicted.
Study = tuple[str, Callable[[float, int], tuple[float, float]], Callable[[float, int], tuple[float, float]]]


@dataclass(frozen=True, eq=False, repr=False)
class LabelBudget(Result, Part):
    """Radius and averaging index against the share of points with a fine label.

    Attributes:
        shares: from none to all.
        radius, index: measured, for each share and seed; radii are medians of exact l2 radii.
        predicted_radius, predicted_index: the same, predicted without training on the points.
        goal: the part of the gain that is asked for.
        share, predicted_share: the smallest share that reaches it; None if refused.
        refused: why there is no share, in a sentence; empty if there is one.

    Returned by `fa.label_budget`, which has an example.
    """

    shares: tuple[float, ...]
    radius: Float[ndarray, "p s"]
    index: Float[ndarray, "p s"]
    predicted_radius: Float[ndarray, "p s"]
    predicted_index: Float[ndarray, "p s"]
    goal: float
    share: float | None
    predicted_share: float | None
    refused: str = ""

    def figure(self) -> Figure:
        """Both curves, measured and predicted."""
        panels = []
        for label, unit, measured, predicted in (
            ("median radius", "l2", self.radius, self.predicted_radius),
            ("averaging index", "", self.index, self.predicted_index),
        ):
            if not np.isfinite([measured, predicted]).all():
                continue
            low, high = measured.min(axis=1), measured.max(axis=1)
            series = (
                Series("measured", self.shares, measured.mean(axis=1), "decoupled", lo=low, hi=high),
                Series("predicted", self.shares, predicted.mean(axis=1), "reference", style="dashed"),
            )
            rules = () if self.share is None else (Rule(self.share, "x", label="enough"),)
            x = Axis("share of points with a fine label")
            panels.append(Lines(x, Axis(label, unit), series, rules=rules))
        return Figure("label-budget", "How many fine labels are enough", self.summary(), tuple(panels))

    @classmethod
    def none(cls, refused: str, shares: tuple[float, ...] = SHARES, seeds: int = 1, goal: float = 0.9) -> LabelBudget:
        """No answer, for a reason; nothing was trained."""
        curve = np.full((len(shares), seeds), np.nan)
        return cls(shares, curve, curve, curve, curve, goal, None, None, refused)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> LabelBudget:
        """From the plain values of an earlier one."""
        curves = ("radius", "index", "predicted_radius", "predicted_index")
        arrays = {name: np.array(plain[name], dtype=float) for name in curves}
        return cls(**{**plain, **arrays, "shares": tuple(plain["shares"])})

    def rows(self, name: str, audit: Audited) -> list[Row]:
        """The share in words, for the page of an audit."""
        if self.share is None:
            return [Row("label budget", f"none: {self.refused}")]
        text = (
            f"label about {self._measured()} of your images finely: heads on these features then reach "
            f"{100 * self.goal:.0f}% of what all fine labels gain"
        )
        if self.predicted_share is not None:
            text += f" (predicted {100 * self.predicted_share:.2g}%)"
        return [Row("label budget", text)]

    def figures(self, audit: Audited) -> list[Figure]:
        """The curves, if there is a budget."""
        return [] if self.share is None else [self.figure()]

    def to_json(self) -> dict[str, Any]:
        """Everything for machines, with the version that made it."""
        plain = {name: value.tolist() if isinstance(value, ndarray) else value for name, value in vars(self).items()}
        return {"kind": "featavg label budget", "about": provenance()} | plain

    def summary(self) -> str:
        """The answer, and what it rests on."""
        none, every = (float(self.radius[i].mean()) for i in (0, -1))
        ends = f"median radius {none:.3g} without fine labels, {every:.3g} with all of them"
        if self.share is None:
            return f"No budget: {self.refused}" + ("." if np.isnan(none) else f" ({ends}).")
        foreseen = "no gain"
        if self.predicted_share is not None:
            foreseen = f"{100 * self.predicted_share:.2g}%"
        return (
            f"Label about {self._measured()} of the points finely for {100 * self.goal:.0f}% of the "
            f"gain (predicted {foreseen}); {ends}."
        )

    def _measured(self) -> str:
        """The share, and what each seed would have said alone; a seed without a gain asks for all labels."""
        curves = self.radius.T[:, :, None]
        alone = [100 * (_reaches(self.shares, curve, self.goal) or 1.0) for curve in curves]
        apart = f" ({min(alone):.2g}% to {max(alone):.2g}% by seed)" if len(alone) > 1 else ""
        return f"{100 * (self.share or 0.0):.2g}%{apart}"


@public
def label_budget(
    task: MultiCluster | Float[ndarray, "n N"],
    classes: Int[ndarray, " n"] | None = None,
    groups: Int[ndarray, " k"] | None = None,
    *,
    shares: Sequence[float] = SHARES,
    goal: float = 0.9,
    n: Count = 1000,
    seeds: Sequence[int] = (0, 1, 2),
    points: Count = 20,
    progress: Progress | None = None,
    **changes: Annotated[Any, Recipe],
) -> LabelBudget:
    """The smallest share of fine labels that reaches most of what all of them gain.

    For a task, grouped networks are trained with each share and measured exactly; the prediction
    replaces all points of a kind by their mean (`featavg.simulate.label_means`). For features, heads are
    trained on four fifths of them and measured on the rest; the prediction trains them on Gaussian
    points with the same means and pooled covariance. It is refused where classes overlap, and where
    all fine labels together gain less than 5%.

    Args:
        task: clusters, or the measured features of a network.
        classes: with features, the fine class of each row; rows with -1 are left out.
        groups: with features, the class of each fine one, 0 or 1.
        shares: of points with a fine label, from 0 to 1, both included.
        goal: the part of the gain to reach.
        n: training points of a task.
        seeds: one training each.
        points: test points for each seed.
        changes: fields of `Recipe`, for a task; `labels` may say what else holds (groups, wrong ones).

    >>> import featavg as fa
    >>> fa.label_budget(fa.MultiCluster(k=10, d=3072), shares=(0, 0.05, 0.1, 0.2, 1), seeds=(0,))
    Label about ...% of the points finely for 90% of the gain (predicted ...%); median radius ...
    """
    wanted = _checked(shares, goal)
    if isinstance(task, MultiCluster):
        recipe = Recipe(**({"labels": Labels()} | changes))
        refused, measured, predicted = _of_task(task, recipe, n, points)
    else:
        if classes is None or groups is None:
            raise InputError("classes", "are missing", "give classes and groups with features")
        if changes:
            raise InputError(", ".join(changes), "is about a task", "leave it out with features")
        known = classes >= 0
        refused, measured, predicted = _of_features(task[known], classes[known], groups, points)
    shape = (len(wanted), len(seeds))
    radius, index, expected, expected_index = (np.full(shape, np.nan) for _ in range(4))
    # Heads cannot even be trained then, or mean nothing.
    if refused and not isinstance(task, MultiCluster):
        return LabelBudget.none(refused, wanted, len(seeds), goal)
    for i, share in enumerate(wanted):
        (progress or silent)(i / len(wanted), f"share {share:g}")
        for j, seed in enumerate(seeds):
            radius[i, j], index[i, j] = measured(share, int(seed))
            expected[i, j], expected_index[i, j] = predicted(share, int(seed))
    if not refused and radius[-1].mean() < LEAST_GAIN * radius[0].mean():
        refused = "all fine labels together gain less than 5%"
    enough, foreseen = (None if refused else _reaches(wanted, r, goal) for r in (radius, expected))
    return LabelBudget(wanted, radius, index, expected, expected_index, goal, enough, foreseen, refused)


def _checked(shares: Sequence[float], goal: float) -> tuple[float, ...]:
    wanted = tuple(sorted({float(share) for share in shares}))
    if len(wanted) < 2 or wanted[0] != 0.0 or wanted[-1] != 1.0:
        raise InputError("shares", f"are {list(wanted)}", "give shares from 0 to 1, both included")
    if not 0 < goal < 1:
        raise InputError("goal", f"is {goal}", "give a part between 0 and 1")
    return wanted


def _reaches(shares: tuple[float, ...], radius: Float[ndarray, "p s"], goal: float) -> float | None:
    """Where the mean curve first reaches the goal, on the line between two shares; None if it falls."""
    means = radius.mean(axis=1)
    if means[-1] <= means[0]:
        return None
    wanted = means[0] + goal * (means[-1] - means[0])
    i = int(np.argmax(means >= wanted))
    part = (wanted - means[i - 1]) / (means[i] - means[i - 1])
    return float(shares[i - 1] + part * (shares[i] - shares[i - 1]))


def _of_task(task: MultiCluster, recipe: Recipe, n: int, points: int) -> Study:
    """Grouped networks on points of a task, and on the means of each kind of point."""
    mu, sign = task.alpha * task.features, task.positive_clusters
    apart = np.linalg.norm(mu[sign][:, None] - mu[~sign][None, :], axis=2).min()
    snr = 0.5 * float(apart) / max(task.sigma, 1e-300)

    def measured(share: float, seed: int) -> tuple[float, float]:
        one = label_run(task, with_share(recipe, share), n, seed, points)
        return one.radius, one.index

    def predicted(share: float, seed: int) -> tuple[float, float]:
        one = mean_run(task, with_share(recipe, share), n, seed)
        return one.radius, one.index

    return refusal(snr, sign.astype(int)), measured, predicted


def _of_features(features: ndarray, fine: ndarray, groups: ndarray, points: int) -> Study:
    """Heads on measured features, and on their Gaussian surrogate."""
    k, fewest = len(groups), np.bincount(fine, minlength=len(groups)).min()

    def both(data: HeadData, share: float, seed: int) -> tuple[float, float]:
        net = train_head(data.x, data.fine, groups, Labels(share=share), RECIPE, seed)
        means = class_features(data.x, data.fine, k)
        try:
            index = averaging_index_of(net, means, np.where(groups == 1, 1, -1)).value
        except InputError:  # of means that depend on each other it is not defined
            index = float("nan")
        return data.radius(net, points), index

    def measured(share: float, seed: int) -> tuple[float, float]:
        return both(split(features, fine, groups, seed), share, seed)

    def predicted(share: float, seed: int) -> tuple[float, float]:
        draw = surrogate(features, fine, k, stream(seed, "surrogate 0"))
        # Not the first rows: users sort their features by class.
        some = split(features, fine, groups, seed).fine
        test = np.arange(max(points, k)) % k
        return both(HeadData(draw(some), some, draw(test), test, groups), share, seed)

    if fewest < LEAST_POINTS:
        return f"a class has {fewest} points, below {LEAST_POINTS}", measured, predicted
    return refusal(signal_to_noise(features, fine, groups), groups), measured, predicted
