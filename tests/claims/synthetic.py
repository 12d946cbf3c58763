"""Made-up claims of every verdict and every kind of panel, shaped like the real ones."""

from __future__ import annotations

import numpy as np

from featavg.figures.figure import (
    Arrow,
    Axis,
    Bar,
    Bars,
    Circle,
    Contour,
    Figure,
    Heatmap,
    Lines,
    Note,
    Plane,
    Points,
    Rule,
    Series,
)
from featavg.paper.engine.claim import Check, Claim, Context, Evidence, Headline, NotRun

K = 10
FEATURES = tuple(f"μ<sub>{j + 1}</sub>" for j in range(K))
NEURONS = tuple(f"w<sub>{'+' if r < 5 else '−'}{r % 5 + 1}</sub>" for r in range(K))


def curves() -> Lines:
    rng = np.random.default_rng(0)
    d = np.logspace(3, 9, 13)
    runs = 1 + 0.8 * d**-0.25 * rng.uniform(0.8, 1.2, (5, 13))
    gap = 1 + 30 * d**-0.5
    gap[6] = np.nan
    return Lines(
        Axis("dimension d", log=True),
        Axis("ratio of loss derivatives"),
        (
            Series.over_seeds("averaged", d, runs, "averaged"),
            Series("decoupled", d, gap, "decoupled", "line+markers", gap - 0.05, gap + 0.05),
            Series("published", [3072], [1.12], "published", "markers", [1.08], [1.16]),
            Series("bound of the lemma", d, 1 + 3 * d**-0.2, "reference", "dashed"),
        ),
        title="Against d",
        rules=(Rule(1.0, label="perfect balance"), Rule(3072, "x", "paper")),
        notes=(Note(1e6, 1.32, "n = 1000"),),
    )


def family() -> Lines:
    t = np.logspace(0, 8, 40)
    return Lines(
        Axis("time t", log=True),
        Axis("loss", log=True),
        tuple(
            Series(f"L = {depth}", t, 1 / (t * (1 + np.log(t)) ** (2 - 2 / depth)), shade=depth / 4)
            for depth in (1, 2, 3, 4)
        ),
        title="A family of curves",
    )


def cosines(averaged: bool) -> Heatmap:
    rng = np.random.default_rng(1)
    same = np.equal.outer(np.arange(K) < 5, np.arange(K) < 5)
    values = np.where(same, 0.44, -0.03) if averaged else 0.99 * np.eye(K)
    values = values + rng.normal(0, 0.012, (K, K))
    if not averaged:
        values[9, 9] = np.nan
    return Heatmap(
        values,
        NEURONS,
        FEATURES,
        label="cosine",
        row_label="neuron",
        column_label="feature",
        limit=1.0,
        row_breaks=(5,),
        column_breaks=(5,),
        title="Two classes" if averaged else "Ten classes",
    )


def wide() -> Heatmap:
    x = np.linspace(-2, 2, 30)
    names = tuple(str(i) for i in range(30))
    return Heatmap(np.outer(np.sin(x), np.cos(x)), names, names, label="value", title="Unprinted")


def bars() -> Bars:
    return Bars(
        ("k = 2", "k = 4", "k = 8", "k = 16"),
        (
            Bar("averaged", [39, 27.7, 19.6, 13.8], "averaged", [38, 27, 19, 13], [40, 29, 20, 15]),
            Bar("decoupled", [39, 39.2, 39, 38.5], "decoupled", [38, 38, 38, 37], [40, 41, 41, 40]),
        ),
        Axis("median radius", "l2"),
        x_label="number of features",
        rules=(Rule(39.2, label="√(d/2)"),),
    )


def radii() -> Lines:
    rng = np.random.default_rng(2)
    samples = {
        "averaged": (rng.normal(17.3, 1.2, 1000), "averaged"),
        "decoupled, sum": (rng.normal(25.1, 1.5, 1000), "neutral"),
        "decoupled, max": (rng.normal(38.2, 1.8, 1000), "decoupled"),
    }
    return Lines.histogram(
        Axis("exact radius", "l2"),
        samples,  # type: ignore[arg-type]
        rules=(Rule(17.5, "x", "√(d/k)"), Rule(39.2, "x", "√(d/2)")),
    )


def plane(zigzag: bool) -> Plane:
    rng = np.random.default_rng(3)
    x, y = np.linspace(-1.6, 1.6, 81), np.linspace(-1.6, 1.6, 81)
    gx, gy = np.meshgrid(x, y)
    field = np.maximum(gx, 0) - np.maximum(gy, 0) if zigzag else gx - gy
    radius = 0.75 if zigzag else 0.5
    return Plane(
        Axis("along μ<sub>1</sub>"),
        Axis("along μ<sub>2</sub>"),
        points=(
            Points("class +", *rng.normal((1, 0), 0.12, (60, 2)).T, role="decoupled"),
            Points("class −", *rng.normal((0, 1), 0.12, (60, 2)).T, role="averaged", marker="s"),
        ),
        contours=(Contour("f = 0", x, y, field, "neutral", fill=True),),
        arrows=(Arrow((1, 0), (1 - radius, radius), "δ"),),
        circles=(Circle((1, 0), radius * 2**0.5, "ball"),),
        title="A zigzag" if zigzag else "A line",
    )


def scatter() -> Plane:
    rng = np.random.default_rng(4)
    norms = np.exp(rng.normal(0, 1, 80))
    return Plane(
        Axis("certified radius", "l2", log=True),
        Axis("attack's radius", "l2", log=True),
        points=(Points("test points", norms, norms * rng.uniform(1, 1.1, 80), marker="x"),),
        equal=False,
        title="Certificate and attack",
    )


def everything() -> Figure:
    panels = (curves(), cosines(True), bars(), radii(), plane(True), scatter(), family(), wide())
    return Figure("everything", "Every kind of panel", "One of each.", panels)


def _holds(settings: Context) -> Evidence:
    settings.progress(0.5, "half way")
    matrices = Figure(
        "cosines",
        "Cosine of neurons and features",
        "Rows are neurons, columns features; the line separates the two classes. Every neuron of "
        "the averaged network leans equally on all five features of its class.",
        (cosines(True), cosines(False)),
    )
    top = Figure("cosines-averaged", "Two classes: averaged", "All alike.", (cosines(True),), True)
    other = Figure("cosines-fine", "Ten classes: decoupled", "One each.", (cosines(False),), True)
    return Evidence(
        Check("mean cosine inside a class", 0.4412, "within", (0.39, 0.49)),
        Check("largest |cosine| across classes", 0.031, "<=", 0.06, note="published: 0.06"),
        Check("largest relative error", 3.1e-13, "<=", 1e-9, role="note"),
        headlines=(
            Headline("0.44", "cosine of a neuron with each feature of its class", "averaged"),
            Headline("0.99", "cosine of a neuron with its own feature", "decoupled"),
        ),
        finding="Each averaged neuron has cosine 0.44 ≈ 1/√5 with every feature of its class.",
        numbers={"mean": 0.4412, "worst": 3.1e-13, "k": 10, "per_seed": [0.44, 0.45]},
        figures=(matrices, top, other),
    )


def _in_part(settings: Context) -> Evidence:
    figure = Figure("balance", "Loss derivatives balance", "Median and range.", (curves(), family()))
    shares = Figure("radii", "Exact radii of 1000 test points", "Shares a bin.", (radii(),))
    grouped = Figure("gap", "The gap grows with k", "Medians and quartiles.", (bars(),))
    return Evidence(
        Check("ratio at d = 10<sup>9</sup>", 1.02, "<=", 1.05),
        Check("ratio at d = 3072", 1.12, "<=", 1.05, note="the lemma asks for d ≥ k<sup>10</sup>"),
        headlines=(
            Headline("17.3", "median exact radius (l2), d = 3072", "averaged"),
            Headline("38.2", "median exact radius (l2), d = 3072", "decoupled"),
        ),
        finding="The ratio tends to 1 as d grows, but is 1.12 at the paper's own dimension.",
        numbers={"ratio": 1.02},
        figures=(figure, shares, grouped),
    )


def _fails(settings: Context) -> Evidence:
    pictures = Figure("plane", "The two boundaries", "In a plane.", (plane(False), plane(True)))
    check = Figure("brackets", "Brackets", "Near the diagonal.", (scatter(), wide()))
    return Evidence(
        Check("share of neurons that keep their sign", float("nan"), ">=", 0.99),
        figures=(pictures, check),
        finding="Half of the neurons change sides after the first step.",
    )


def _needs_data(settings: Context) -> Evidence:
    raise NotRun("MNIST is not here: give its folder with `--data-dir`.")


def _breaks(settings: Context) -> Evidence:
    raise ZeroDivisionError("a <program> broke")


def claim(name: str, run, **changes) -> Claim:
    given = {
        "id": name,
        "title": f"Title of {name}",
        "theme": "Lemmas",
        "statement": "w<sub>j</sub> tends to Σ μ<sub>j</sub>/|μ<sub>j</sub>|<sup>2</sup> < 2 & 3.",
        "source": "Paper, Theorem 1",
        "measured": "the cosine of every neuron with every feature, over all seeds",
        "run": run,
        "minutes": 0.01,
        "runs": 0,  # nothing is trained
    }
    return Claim(**given | changes)


CLAIMS = (
    claim("figure-2-cosines", _holds, title="Neurons average the features of their class"),
    claim("lemma-5-balance", _in_part, title="Loss derivatives are balanced inside a label"),
    claim("lemma-3-activation", _fails, title="Activations are stable from the first step on"),
    claim("figure-3-mnist", _needs_data, theme="Real data", title="Finer labels on MNIST parity"),
    claim("theorem-1-k4", _holds, theme="Theorems", tier="full", minutes=90, title="The theorem at k = 4"),
)
BROKEN = claim("lemma-9-broken", _breaks)
