"""Figure 2 (a) and (b): cosines between features and equivalent weights, at the paper's setting."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.data.clusters import MultiCluster
from featavg.figures.figure import Figure, Heatmap
from featavg.measures.alignment import cosines
from featavg.measures.averaging import AveragingIndex, averaging_index
from featavg.paper.engine.claim import Check, Context, Evidence, Headline, claim
from featavg.training.train import train

K, D = 10, 3072
# Read off the published figure by eye, good to about 0.015.
SAME_MEAN, SAME, OTHER, DIAGONAL, OFF_DIAGONAL = 0.44, (0.39, 0.49), (-0.06, 0.0), 0.99, 0.03
EYE = 0.015
Matrices = Float[ndarray, "s k k"]


def trained(labels: str, seeds: tuple[int, ...], n: int) -> tuple[Matrices, AveragingIndex]:
    """cos(mu_i, w_j) of each seed's network, and the averaging index of all of them."""
    task = MultiCluster(k=K, d=D)
    nets = train(task, labels=labels, n=n, seed=seeds).net
    return cosines(nets, task), averaging_index(nets, task)


def heatmap(matrices: Matrices, name: str, title: str, caption: str, panel: str) -> Figure:
    """The mean matrix."""
    rows, columns = (tuple(f"{sign}<sub>{j + 1}</sub>" for j in range(K)) for sign in "μw")
    split = (K // 2,)
    drawn = Heatmap(
        matrices.mean(axis=0), rows, columns, label="cosine", title=panel, limit=1.0,
        row_breaks=split, column_breaks=split,
    )  # fmt: skip
    return Figure(name, title, caption, (drawn,), headline=True)


@claim(
    "figure-2a-averaged",
    "Figure 2 (a): the average, seen",
    theme="Figure 2: the weights",
    source="arXiv 2410.10322, Figure 2 (a); both talks, Figure 1",
    measured="cosine matrix and averaging index at the paper's setting, against the published one",
    minutes=0.07,
    times=4,
    statements=("notes-figure-2ab", "itcs-figure-1", "csml-figure-1", "summary-experiment-1"),
)
def averaged_matrix(run: Context, n: int = 1000) -> Evidence:
    """Trained with class labels, each weight vector has the same cosine with every feature of its
    class and none with the others.
    """
    matrices, index = trained("coarse", run.seeds, n)
    same = np.kron(np.eye(2), np.ones((K // 2, K // 2))) > 0
    inside, outside = matrices[:, same], matrices[:, ~same]
    figure = heatmap(
        matrices, "cosines-averaged", "Class labels: every neuron is an average",
        "Cosine between feature μᵢ and equivalent weight wⱼ, mean over seeds, at the paper's setting "
        "with class labels. Each weight has the same cosine, near 1/√5, with all features of its class.",
        "class labels (averaged)",
    )  # fmt: skip
    return Evidence(
        Check("mean cosine inside a class", inside.mean(axis=1), "within", (SAME_MEAN - EYE, SAME_MEAN + EYE),
              note="published: 0.44"),
        Check("middle 90% of cosines inside a class, lower end", np.quantile(inside, 0.05, axis=1), ">=",
              SAME[0] - EYE, note="published range: 0.39 to 0.49"),
        Check("middle 90% of cosines inside a class, upper end", np.quantile(inside, 0.95, axis=1), "<=",
              SAME[1] + EYE),
        Check("mean cosine across classes", outside.mean(axis=1), "within", OTHER,
              note="published range: −0.06 to 0"),
        Check("averaging index", index.neurons.mean(axis=1), ">=", 0.9,
              note=f"evenness over the class's features times the share of |w|² in the features' "
              f"span; random directions in the span: {index.null:.2f}"),
        figure=figure, numbers={"mean_matrix": matrices.mean(axis=0), "index": index},
        finding=f"Cosines of {inside.mean():.3f} inside a class (published 0.44; a perfect average would have "
        f"{5**-0.5:.3f}) and {outside.mean():.3f} across. Averaging index {index.value:.3f} (evenness "
        f"{index.evenness:.3f} of {index.share:.1%} of |w|²), where random directions have "
        f"{index.null:.2f}.",
        headlines=(Headline(f"{index.value:.2f}", "averaging index with class labels", "averaged"),),
    )  # fmt: skip


@claim(
    "figure-2b-decoupled",
    "Figure 2 (b): decoupled, seen",
    theme="Figure 2: the weights",
    source="arXiv 2410.10322, Figure 2 (b); both talks, Figure 1",
    measured="cosine matrix and averaging index at the paper's setting, against the published one",
    minutes=0.02,
    statements=("notes-figure-2ab", "itcs-figure-1", "csml-figure-1", "summary-experiment-1"),
)
def decoupled_matrix(run: Context, n: int = 1000) -> Evidence:
    """Trained with cluster labels, each weight vector points at its own feature only."""
    matrices, index = trained("fine", run.seeds, n)
    own = np.eye(K, dtype=bool)
    diagonal, rest = matrices[:, own], np.abs(matrices[:, ~own])
    figure = heatmap(
        matrices, "cosines-decoupled", "Cluster labels: every group is one feature",
        "The same matrix for the network trained on the same data with cluster labels: one cosine "
        "near 1 in every row, all others near 0.",
        "cluster labels (decoupled)",
    )  # fmt: skip
    return Evidence(
        Check("mean cosine on the diagonal", diagonal.mean(axis=1), "within", (DIAGONAL - EYE, DIAGONAL + EYE),
              note="published: 0.99"),
        Check("smallest cosine on the diagonal", diagonal.min(), ">=", 0.97),
        Check("largest |cosine| off the diagonal", rest.max(), "<=", OFF_DIAGONAL + EYE, note="published: 0.03"),
        Check("averaging index", index.neurons.mean(axis=1), "<=", 0.1,
              note=f"random directions: {index.null:.2f}"),
        figure=figure, numbers={"mean_matrix": matrices.mean(axis=0), "index": index},
        finding=f"Cosine {diagonal.mean():.3f} with the own feature (published 0.99) and at most "
        f"{rest.max():.3f} with any other. Averaging index {index.value:.4f}.",
        headlines=(Headline(f"{index.value:.2f}", "averaging index with cluster labels", "decoupled"),),
    )  # fmt: skip
