"""Statements that both talks make; their names get that of the talk in front."""

from __future__ import annotations

from featavg.paper.engine.statement_rows.row import DEFINITION, Row

BOTH_TALKS: tuple[Row, ...] = (
    (
        "regularised",
        "Rosset et al. 2004",
        "With logistic loss and a vanishing l2 penalty the minimiser tends to the SVM's direction.",
        ("margin-linear-path",),
        "",
    ),
    (
        "soudry",
        "Soudry et al. 2017",
        "Without a penalty gradient descent on separable data tends to the max-margin direction.",
        ("margin-linear-flow",),
        "",
    ),
    (
        "normalized-margin",
        "Normalized margin",
        "For an L-homogeneous network the margin is min q over the norm to the L.",
        (),
        DEFINITION + "`margins`.",
    ),
    (
        "monotone",
        "Theorem on the smoothed margin, first part",
        "Once the data is fitted the smoothed normalized margin never falls along gradient flow.",
        ("margin-homogeneous-growth",),
        "",
    ),
    (
        "either-or",
        "Theorem on the smoothed margin, second part",
        "At almost every time either the smoothed margin grows or the direction stands still.",
        (),
        "",
    ),
    (
        "rates",
        "Theorem on the smoothed margin, third part and rates",
        "The loss vanishes and the norm grows: loss ~ 1/(t (log t)^(2-2/L)), norm ~ (log t)^(1/L).",
        ("margin-homogeneous-rates",),
        "",
    ),
    (
        "kkt",
        "Theorem of Lyu and Li, and of Ji and Telgarsky (2020)",
        "The direction converges, to a KKT point of the max-margin problem (P).",
        ("margin-kkt-residual",),
        "",
    ),
    (
        "margin-bounds",
        "Normalized margin, what it is good for",
        "Bounds on generalisation go with one over the margin; large margins go with good generalisation.",
        (),
        "A citation on generalisation (Bartlett et al., Neyshabur et al., Jiang et al.). What margins do for "
        "robustness, which is the talks' own statement, is checked: see the table of five models.",
    ),
    (
        "loss-based-rate",
        "Experiments, MNIST network",
        "A constant rate hardly lowers a tiny loss; a rate divided by the loss goes on.",
        ("margin-table", "margin-digits"),
        "",
    ),
    (
        "margin-table",
        "Table of five models",
        "Training an MNIST network to losses from 1e-10 to 1e-881 raises its normalized margin.",
        ("margin-table", "margin-table-support"),
        "",
    ),
    (
        "longer-helps",
        "Remark to the table",
        "Training longer improves robustness slightly.",
        ("margin-table", "margin-table-support", "margin-digits"),
        "",
    ),
    (
        "lipschitz",
        "Robustness and normalized margin",
        "A point's radius is at least its margin over the network's Lipschitz constant.",
        ("margin-lipschitz",),
        "",
    ),
    (
        "simplicity",
        "Connection to simplicity bias (Shah et al. 2020)",
        "Networks trained on simple and complex features use the simple one only.",
        (
            "connections-simplicity-lms5",
            "connections-simplicity-slabs",
            "connections-simplicity-mnist-cifar",
        ),
        "",
    ),
    (
        "local-margin",
        "Connection to simplicity bias, linear classifier",
        "From a small start a two-layer network finds a linear classifier, a local margin maximiser only.",
        ("connections-simplicity-margin",),
        "",
    ),
    (
        "features",
        "Connection to non-robust features (Ilyas et al.)",
        "Cluster centres are robust features; their average, which descent learns, is a non-robust one.",
        ("connections-robust-features",),
        "",
    ),
    (
        "expressivity",
        "Connection to lower bounds (Li et al. 2022)",
        "There is data that a line classifies with no robustness, while a robust classifier is complex.",
        ("connections-expressivity",),
        "",
    ),
    (
        "dimples",
        "Connection to dimpled manifolds (Shamir et al.)",
        "The boundary clings to the data: almost all points are close to it, off the manifold.",
        ("connections-dimpled-manifold",),
        "",
    ),
    (
        "model",
        "A theoretical model: data distribution",
        "Balanced clusters with covariance σ²I around orthogonal features of length Θ(√d), which can be "
        "relaxed slightly. (How far: other angles, lengths of noise and sizes are asked.)",
        (
            "question-angle-equal",
            "question-angle-geometry",
            "question-border-noise",
            "assumption-2-unequal",
        ),
        "",
    ),
    (
        "averaging-slide",
        "Feature averaging",
        "Many features could classify; networks learn an average or combination of them, one of the major "
        "causes of non-robustness.",
        ("theorem-1-averaging", "audit-shared-gradient-images", "finer-labels-border"),
        "",
    ),
    (
        "examples",
        "Adversarial examples",
        "Accuracy drops to nearly zero under small perturbations: every training and test image is close "
        "to the boundary. (Published pictures and leaderboards.)",
        ("figure-3-mnist", "figure-3-cifar10", "image-attacks"),
        "",
    ),
    (
        "other-biases",
        "List of implicit biases",
        "Descent also favours simple boundaries, low rank, low frequencies, an early linear phase, flat "
        "minima, and groks. (Measured: simple boundaries, rank, the early linear phase. Frequencies, "
        "sharpness and grokking are outside this package.)",
        ("connections-simplicity-slabs",),
        "",
    ),
)


def both_talks(talk: str) -> tuple[Row, ...]:
    """The common statements under the names of one talk.

    >>> both_talks("itcs")[0][0]
    'itcs-regularised'
    """
    return tuple((f"{talk}-{name}", *rest) for name, *rest in BOTH_TALKS)  # type: ignore[misc]
