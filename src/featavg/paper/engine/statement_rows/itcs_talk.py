"""Statements of the talk at iTCS 2024."""

from __future__ import annotations

from featavg.paper.engine.statement_rows.both_talks import both_talks
from featavg.paper.engine.statement_rows.row import Row

ITCS: tuple[Row, ...] = (
    *both_talks("itcs"),
    (
        "itcs-sandwich",
        "Smoothed normalized margin",
        "The smoothed margin is below the margin by at most log N over the norm to the L.",
        ("margin-homogeneous-growth",),
        "",
    ),
    (
        "itcs-robust-features",
        "Robust and non-robust features",
        "A feature is robust if it stays useful under perturbations, useful and non-robust if not.",
        ("connections-robust-features",),
        "",
    ),
    (
        "itcs-initialisation",
        "2-layer ReLU network, initialisation",
        "Initial weights of variance 1/d, biases of variance 1/d².",
        (),
        "",
    ),
    (
        "itcs-robust-exists",
        "Robust solution exists",
        "One neuron for each cluster and biases that filter noise: radius O(√d), one active neuron.",
        ("connections-optimal-radius",),
        "",
    ),
    (
        "itcs-decomposition",
        "Lemma: weight decomposition",
        "Weights are their start plus features plus noise.",
        (),
        "",
    ),
    (
        "itcs-theorem-averaging-1",
        "Theorem: feature averaging, I",
        "After poly(d) steps clean accuracy is perfect.",
        (),
        "",
    ),
    (
        "itcs-theorem-averaging-2",
        "Theorem: feature averaging, II",
        "Coefficients are large and of one size inside a class, small across classes.",
        (),
        "",
    ),
    (
        "itcs-theorem-nonrobust",
        "Theorem: average features are non-robust",
        "With any biases an averaging solution has no robust accuracy at ω(√(d/k)).",
        (),
        "",
    ),
    (
        "itcs-intuition-gradient",
        "Intuition for it",
        "Most same-class neurons are active, so the gradient is larger at a similar margin.",
        (),
        "",
    ),
    (
        "itcs-theorem-5.5",
        "Theorem 5.5",
        "Detailed labels: accuracy over all k classes is perfect, one coefficient is large for each neuron.",
        (),
        "",
    ),
    (
        "itcs-figure-1",
        "Figure 1",
        "Cosine matrices, averaging and decoupling.",
        ("figure-2-cifar10",),
        "",
    ),
    (
        "itcs-figure-2",
        "Figure 2",
        "Finer labels make networks on MNIST and CIFAR-10 more robust.",
        ("figure-3-mnist", "figure-3-cifar10"),
        "",
    ),
    (
        "itcs-kkt-radius",
        "Vardi et al. 2022, Frei et al. 2024",
        "Every KKT point is at most O(√(d/k))-robust on such data, though more robust networks exist.",
        ("margin-kkt-radius", "margin-kkt-averaging"),
        "",
    ),
    (
        "itcs-kkt-late",
        "Relation to properties of KKT points",
        "KKT points are the limit, and from certain starts they are reached very late only.",
        ("margin-kkt-residual", "margin-direction"),
        "",
    ),
    (
        "itcs-margin-uses",
        "Implicit bias: margin maximization, list of uses",
        "KKT points explain simplicity bias, kernel and rich regimes, grokking, benign overfitting and more.",
        (),
        "A list of citations. Simplicity bias and the double-edged sword among them have claims: see those "
        "rows.",
    ),
    (
        "itcs-theorem-4.2",
        "Theorem 4.2 (Frei et al.)",
        "At KKT points one vector along Σ yμ, O(√(d/c²k)) long, flips almost all points.",
        ("margin-kkt-radius",),
        "",
    ),
    (
        "itcs-final-remarks",
        "Final remarks",
        "People are robust without adversarial training, from richer labels; such labels at scale are "
        "possible with large models. (The last is an outlook. What either training buys is measured.)",
        ("question-adversarial", "images-digits", "cifar100-superclasses"),
        "",
    ),
)
