"""Real data: averaging and robustness on the pixels of digits, in seconds."""

from __future__ import annotations

import numpy as np

from featavg.data.image_sets.loading import load_images
from featavg.figures.figure import Axis, Figure, Lines, Series
from featavg.figures.marks import Role, Style
from featavg.measures.accuracy import robust_share
from featavg.nets.two_layer import TwoLayer
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.paper.images.features import FeatureSet, pixels_of
from featavg.paper.images.heads import trained_heads
from featavg.robustness.exact.budget import Budget
from featavg.robustness.radii import radii
from featavg.training.heads import HeadRecipe

# Fixed before the first run: how much farther away finer labels must push the boundary. That they
# must push it farther than random ones was added later; an earlier trial of that had shown 1.58
# against 1.30 times (probability) and 1.66 against 1.24 times (max), and "farther" is all that is asked.
LEAST_GAIN, MORE_THAN_RANDOM = 1.1, 1.0
# How closely the read-out `probability` is bracketed: a few seconds in all.
NODES, GAP = 200, 0.05
GRID = np.linspace(0.0, 2.0, 41)
# Labels and read-out, and how their curve looks; with class labels there is one read-out.
DECISIONS: dict[str, tuple[str, str, Role, Style]] = {
    "coarse": ("coarse", "max", "averaged", "solid"),
    "fine, max": ("fine", "max", "decoupled", "dashed"),
    "fine, sum": ("fine", "sum", "decoupled", "dotted"),
    "fine, probability": ("fine", "probability", "decoupled", "solid"),
    "random, max": ("random", "max", "neutral", "dashed"),
    "random, probability": ("random", "probability", "neutral", "solid"),
}


@claim(
    "images-digits", "Finer labels move the boundary of real digits away",
    theme="Real data", minutes=0.3,
    source="Paper, section 5 and Figure 3, on scikit-learn's digits (our choice of data)",
    measured="median exact l2 radius over seeds and test digits, averaging index of the first layer; as a "
    "control, finer labels of the same sizes dealt out at random",
    statements=("itcs-final-remarks", "summary-break-3", "summary-open-3", "abstract-supervision",),
)  # fmt: skip
def digits(run: Context, steps: int = 500, rate: float = 2.0, points: int = 30) -> Evidence:
    """Trained on handwritten digits, a two-layer network that is told the digit is more robust in
    deciding even or odd than one that is told only even or odd, and than one that is told finer
    labels which say nothing.
    """
    features = pixels_of(load_images("digits"))
    recipe = HeadRecipe(steps=steps, rate=rate)
    nets, tables = {}, {}
    for i, labels in enumerate(("coarse", "fine")):
        run.progress(0.3 * i, f"training with {labels} labels")
        nets[labels], tables[labels] = trained_heads(features, labels, run.seeds, recipe)
    # Finer labels that say nothing, dealt out anew for each seed.
    dealt = [trained_heads(features.with_random_classes(seed), "fine", (seed,), recipe)[0] for seed in run.seeds]
    nets["random"] = [net for each in dealt for net in each]
    low: dict[str, np.ndarray] = {}
    high: dict[str, np.ndarray] = {}
    for i, (name, (labels, readout, *_)) in enumerate(DECISIONS.items()):
        run.progress(0.5 + i / 12, f"exact radii: {labels} labels, {readout}")
        low[name], high[name] = _radii(nets[labels], features, readout, points)
    gain = {name: float(np.median(low[name]) / np.median(high["coarse"])) for name in low}
    # Certified end of the one over the attacked end of the other, for each seed.
    beyond = {
        readout: np.median(low[f"fine, {readout}"], axis=1) / np.median(high[f"random, {readout}"], axis=1)
        for readout in ("probability", "max")
    }
    index = {labels: float(table["index"].mean(skipna=False)) for labels, table in tables.items()}
    index["null"] = float(tables["coarse"]["null"][-1])
    return Evidence(
        Check("median radius, fine labels (probability) / class labels", gain["fine, probability"], ">=",
              LEAST_GAIN, note="certified end of the one over the attacked end of the other"),
        Check("the same for the read-out max", gain["fine, max"], ">=", LEAST_GAIN),
        Check("median radius, fine labels / random finer labels of the same sizes (probability)",
              beyond["probability"], ">=", MORE_THAN_RANDOM,
              note="digits dealt out at random among the even and among the odd: more outputs alone"),
        Check("the same for the read-out max", beyond["max"], ">=", MORE_THAN_RANDOM),
        Check("median radius, fine labels (sum) / class labels", gain["fine, sum"], ">=", 1.0, role="note",
              note="averages over outputs, so it may lose what fine labels gain"),
        Check("averaging index, class labels minus fine labels", index["coarse"] - index["fine"], ">=", 0.1,
              note=f"{index['coarse']:.2f} and {index['fine']:.2f}; random directions {index['null']:.2f}"),
        Check("clean accuracy, class labels", tables["coarse"]["accuracy"].mean(skipna=False), ">=", 0.9),
        Check("clean accuracy, fine labels", tables["fine"]["accuracy"].mean(skipna=False), ">=", 0.9),
        figure=figure(low),
        numbers={"gains": gain, "over_random_finer_labels": beyond, "unit": "l2, pixels in [0,1]",
                 "median_radius": {name: np.median(each) for name, each in low.items()},
                 "averaging_index": index, "recipe": recipe, "points_a_seed": points, **tables},
        finding=f"On real digits, labels that name each digit move the exact boundary "
        f"{gain['fine, probability']:.2f} times as far away as even-odd labels (read-out "
        f"probability), {gain['fine, max']:.2f} times (max) and {gain['fine, sum']:.2f} times "
        f"(sum). Part of that is having more outputs: finer labels dealt out at random gain "
        f"{gain['random, probability']:.2f} and {gain['random, max']:.2f} times, digits "
        f"{beyond['probability'].mean():.2f} and {beyond['max'].mean():.2f} times more. The averaging "
        f"index is {index['coarse']:.2f} against {index['fine']:.2f}.",
        headlines=(Headline(f"{gain['fine, probability']:.1f}×", "exact radius on digits, fine labels",
                            "decoupled"),),
    )  # fmt: skip


def _radii(nets: list[TwoLayer], features: FeatureSet, readout: str, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Certified and attacked ends of the radii of the first test points, a row for each seed."""
    x, y = (features.test[:points], np.where(features.groups[features.test_classes[:points]] == 1, 1, -1))
    found = []
    for net in nets:
        positive = features.groups == 1 if net.outputs > 1 else None
        budget = Budget(nodes=NODES)
        exact = radii(net, x, y, readout=readout, positive=positive, budget=budget, gap=GAP, jobs=1)
        found.append(exact)
    return np.array([r.certified for r in found]), np.array([r.attack for r in found])


def figure(exact: dict[str, np.ndarray]) -> Figure:
    """Robust accuracy of every decision against the radius."""
    words = {"coarse": "even-odd labels", "fine": "digit labels", "random": "random finer labels"}
    series = tuple(
        Series(
            words[labels] + ("" if labels == "coarse" else f", {readout}"),
            GRID,
            100 * robust_share(exact[name].ravel(), GRID),
            role,
            style,
        )
        for name, (labels, readout, role, style) in DECISIONS.items()
    )
    return Figure(
        "digits-curves",
        "Digits: finer labels, farther boundary",
        "Share of test digits whose parity no perturbation of the given length changes, certified "
        "exactly, for two-layer networks trained with even-odd labels, with digit labels, and with as "
        "many finer labels dealt out at random.",
        (Lines(Axis("radius", "l2, pixels in [0,1]"), Axis("robust accuracy", "%"), series),),
    )
