"""Linear classifiers: gradient flow and the vanishing penalty both end in the SVM direction.

In u = log t the flow is  dw/du = exp(u) * (-dL/dw),  whose size stays moderate throughout: the loss falls
as fast as exp(u) grows. Its fast modes settle at once and the rest drifts, so an implicit method
takes a few hundred steps where an explicit one takes as many as log t is large. The angle to the
SVM direction falls like 1/log t, and like 1/log(1/penalty) along the regularised path: an angle of
1e-6 needs penalties that no float can hold; their logarithms are no trouble.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from numpy import ndarray

from featavg.data.streams import stream
from featavg.data.user_points import read_labelled
from featavg.errors import InputError
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.measures.svm import angle, checked_max_margin
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim

POINTS, DIMENSION = 40, 20
# Where 1/log t is to be seen: beyond the first hundred e-foldings of time.
SETTLED = 100.0
_MOST_STEPS = 200
# A stage goes from one penalty to the next; a longer leap than this starts too far from its end.
_LEAP = 1.5


def labelled_points(seed: int) -> tuple[Float[ndarray, "n N"], Int[ndarray, " n"]]:
    """Two Gaussian clouds that a plane separates, about a third of them support vectors."""
    draw = stream(seed, "margin-linear")
    y = np.repeat([1, -1], POINTS // 2)
    x = draw.standard_normal((POINTS, DIMENSION))
    x[:, 0] += 2.0 * y
    return x / math.sqrt(DIMENSION), y


def linear_flow(
    x: Float[ndarray, "n N"], y: Int[ndarray, " n"], log_times: Sequence[float], tolerance: float = 1e-9
) -> Float[ndarray, "p N"]:
    r"""w(t) for dw/dt = -dL/dw, L = 1/n sum_i log(1 + exp(-y_i <w, x_i>)), from w(0) = 0.

    >>> w = linear_flow(np.array([[1.0]]), np.array([1]), [0.0])
    >>> round(float(w[0, 0]), 4)  # w + exp(w) = 1 + t
    0.4429
    """
    from scipy.integrate import solve_ivp

    times = np.asarray(log_times, dtype=float)
    if not len(times) or np.any(np.diff(times) <= 0) or not np.all(np.isfinite(times)):
        raise InputError("log_times", "do not rise", "give finite numbers from small to large")
    rows = y[:, None] * x
    shift = -math.log(len(rows))
    start = min(times[0], 0.0) - 30.0  # by then w has moved by less than round-off

    def velocity(u: float, w: ndarray) -> ndarray:
        return np.asarray(_derivatives(rows @ w, u + shift)[0] @ rows)

    def jacobian(u: float, w: ndarray) -> ndarray:
        return np.asarray(-(rows.T * _derivatives(rows @ w, u + shift)[1]) @ rows)

    solution = solve_ivp(
        velocity, (start, times[-1]), np.zeros(x.shape[1]), method="Radau", t_eval=times,
        jac=jacobian, rtol=tolerance, atol=tolerance,
    )  # fmt: skip
    if not solution.success:
        raise ArithmeticError(f"the flow could not be followed ({solution.message})")
    return np.asarray(solution.y.T)


def penalty_path(x: Float[ndarray, "n N"], y: Int[ndarray, " n"], depths: Sequence[float]) -> Float[ndarray, "p N"]:
    r"""argmin_w  1/n sum_i log(1 + exp(-y_i <w, x_i>)) + penalty |w|^2 / 2  for each penalty.

    Dividing by the penalty leaves  sum_i exp(log l_i - log(n penalty)) + |w|^2 / 2,  a convex
    function of moderate size, which Newton's method minimises from the solution before.

    `depths` are log(1/penalty), rising.
    """
    targets = [float(value) for value in depths]
    if sorted(targets) != targets or not targets or not all(map(math.isfinite, targets)):
        raise InputError("depths", "do not rise", "give finite numbers from small to large")
    rows = y[:, None] * x
    w, at = np.zeros(x.shape[1]), min(0.0, targets[0])
    minimisers = []
    for target in targets:
        while True:
            after = min(target, max(at, 1.0) * _LEAP)
            w = _minimise(rows, w * (after / at if at > 1.0 else 1.0), after)
            at = after
            if at >= target:
                break
        minimisers.append(w)
    return np.stack(minimisers)


def _minimise(rows: Float[ndarray, "n N"], w: ndarray, depth: float) -> ndarray:
    """Newton's method with backtracking for  1/n sum_i exp(depth) l(q_i) + |w|^2 / 2."""
    shift = depth - math.log(len(rows))
    value, q = _objective(rows, w, shift)
    for _ in range(_MOST_STEPS):
        first, second = _derivatives(q, shift)
        gradient = w - first @ rows
        hessian = np.eye(len(w)) + (rows.T * second) @ rows
        step = np.linalg.solve(hessian, -gradient)
        slope = float(gradient @ step)
        # The Newton decrement, in the units of |w|: below round-off there is nothing left to gain.
        if -slope <= 1e-22 * (1.0 + float(w @ w)):
            return w + step
        length = 1.0
        # Where the gain drowns in the rounding of the value, Newton's full step is safe.
        while -slope > 1e-9 * value:
            trial, _ = _objective(rows, w + length * step, shift)
            if trial <= value + 1e-4 * length * slope:
                break
            length *= 0.5
        w = w + length * step
        value, q = _objective(rows, w, shift)
    raise ArithmeticError(f"Newton's method did not settle at log penalty {-depth:.3g}")


def _objective(rows: ndarray, w: ndarray, shift: float) -> tuple[float, ndarray]:
    q = rows @ w
    softplus = np.logaddexp(0.0, -q)
    with np.errstate(divide="ignore", over="ignore"):
        log_losses = np.where(q > 40.0, -q, np.log(softplus))
        heights = np.exp(np.minimum(log_losses + shift, 700.0))
    return float(heights.sum() + 0.5 * w @ w), q


def _derivatives(q: ndarray, shift: float) -> tuple[ndarray, ndarray]:
    """exp(shift) times -l'(q) and l''(q)."""
    softplus = np.logaddexp(0.0, -q)
    first = np.exp(np.minimum(shift - q - softplus, 700.0))
    return first, first * np.exp(-softplus)


def _table(run: Context, points: str, until: float, follow: Callable[..., Float[ndarray, "p N"]]) -> xr.Dataset:
    """The angle to the SVM direction for every data set, at values of the clock from 10 to `until`."""
    clock = np.logspace(1, math.log10(until), 25)
    if points:
        sets = {points: read_labelled(Path(points))}
    else:
        sets = {f"seed {seed}": labelled_points(seed) for seed in run.seeds}
    rows = []
    for i, (name, (x, y)) in enumerate(sets.items()):
        run.progress(i / len(sets), name)
        svm, directions = checked_max_margin(x, y), follow(x, y, clock)
        angles = angle(directions, np.broadcast_to(svm.w, directions.shape))
        rows.append((angles, svm.margin, len(svm.support), abs(svm.gap)))
    angles, margins, support, gaps = (np.array(column) for column in zip(*rows, strict=True))
    return xr.Dataset(
        {"angle": (("data", "clock"), angles), "margin": ("data", margins),
         "support": ("data", support), "gap": ("data", gaps)},
        {"data": list(sets), "clock": clock},
    )  # fmt: skip


def _figure(name: str, label: str, caption: str, table: xr.Dataset) -> Figure:
    clock, angles = table["clock"].values, table["angle"].values
    product = float(np.median(angles[:, -1])) * clock[-1]
    series = (
        Series.over_seeds("angle to the SVM", clock, angles, "averaged"),
        Series(f"1/({label})", clock, product / clock, "reference", "dashed"),
    )
    axes = Axis(label, log=True), Axis("angle", "radians", log=True)
    return Figure(name, "The angle to the max-margin direction", caption, (Lines(*axes, series),))


@claim(
    "margin-linear-flow", "Gradient descent drifts to the max-margin direction",
    theme="Margins", minutes=0.01, statements=("itcs-soudry", "csml-soudry"),
    source="Talks, max-margin linear classifier (Soudry et al. 2017)",
    measured="the angle to the SVM direction (an exact QP with its duality gap) from "
    "log t = 10 to 10 000, and its exponent in log t beyond log t = 100",
)  # fmt: skip
def margin_linear_flow(run: Context, points: str = "", until: float = 1e4) -> Evidence:
    """On separable data the direction of a linear classifier under gradient flow of the logistic
    loss tends to the SVM direction, with an angle of order 1/log t.
    """
    table = _table(run, points, until, linear_flow)
    late = table.where(table["clock"] >= SETTLED, drop=True)
    logs = np.log(late["clock"].values)
    exponents = [np.polyfit(logs, np.log(row), 1)[0] for row in late["angle"].values]
    worst = float(table["angle"][:, -1].max())
    caption = "Gradient flow of the logistic loss on separable points: the angle falls like 1/log t."
    return Evidence(
        Check("largest final angle", worst, "<=", 1e-3),
        Check("exponent of log t", exponents, "within", (-1.1, -0.9)),
        Check("largest relative duality gap of the SVM", table["gap"].max(), "<=", 1e-9, role="note"),
        figure=_figure("angle", "log t", caption, table),
        numbers=table,
        finding=f"At t = e^{until:g} the angle is at most {worst:.1e}; it falls like (log t)^{np.mean(exponents):.3f}.",
        headlines=(Headline(f"{worst:.0e}", f"angle to the SVM at t = e^{until:.0f}", "neutral"),),
    )


@claim(
    "margin-linear-path", "A vanishing penalty selects the same direction",
    theme="Margins", minutes=0.01, statements=("itcs-regularised", "csml-regularised"),
    source="Talks, margin maximization (Rosset et al. 2004)",
    measured="the angle to the SVM direction at penalties down to exp(-10^7)",
)  # fmt: skip
def margin_linear_path(run: Context, points: str = "", until: float = 1e7) -> Evidence:
    """The L2-regularised minimiser tends to the SVM direction as the penalty vanishes."""
    table = _table(run, points, until, penalty_path)
    worst = float(table["angle"][:, -1].max())
    caption = "The minimiser of logistic loss plus penalty, as the penalty vanishes."
    return Evidence(
        Check("largest final angle", worst, "<=", 1e-6),
        figure=_figure("path", "log(1/penalty)", caption, table),
        numbers=table,
        finding=f"At a penalty of exp(-{until:,.0f}) the angle is at most {worst:.1e}.",
    )
