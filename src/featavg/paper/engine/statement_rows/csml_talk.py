"""Statements of the talk at CSML 2024."""

from __future__ import annotations

from featavg.paper.engine.statement_rows.both_talks import both_talks
from featavg.paper.engine.statement_rows.row import DEFINITION, Row

CSML: tuple[Row, ...] = (
    *both_talks("csml"),
    (
        "csml-nonhomogeneous",
        "Extension by Chatterji, Long and Bartlett",
        "The margin grows for certain non-homogeneous networks too.",
        (),
        "Named in the talk without a statement; the documents' networks are homogeneous.",
    ),
    (
        "csml-initialisation",
        "2-layer ReLU network, initialisation",
        "Initial weights of variance 1/d, biases of variance 1/d².",
        (),
        "",
    ),
    (
        "csml-robust-exists",
        "Robust solution exists",
        "One neuron for each cluster and biases that filter noise: radius O(√d), one active neuron.",
        ("connections-optimal-radius",),
        "",
    ),
    (
        "csml-decomposition",
        "Lemma: weight decomposition",
        "Weights are their start plus features plus noise.",
        (),
        "",
    ),
    (
        "csml-theorem-averaging",
        "Theorem: feature averaging",
        "Clean accuracy is perfect; coefficients inside a class are large and agree to 1 ± o(1), the "
        "others are o(1).",
        (),
        "",
    ),
    (
        "csml-conjecture-1",
        "Conjecture 1 (Min and Vidal, ICML 2024)",
        "For ReLU the limit of gradient flow is the sum of class averages; for powers p ≥ 3 it is the "
        "decoupled one.",
        (
            "connections-min-vidal-limits",
            "connections-min-vidal-radius",
            "connections-min-vidal-published",
            "connections-min-vidal-descent",
            "connections-min-vidal-mnist",
        ),
        "",
    ),
    (
        "csml-theorem-nonrobust",
        "Theorem: average features are non-robust",
        "With any biases an averaging solution has no robust accuracy at ω(√(d/k)).",
        (),
        "",
    ),
    (
        "csml-intuition-gradient",
        "Intuition for it",
        "Most same-class neurons are active, so the gradient is larger at a similar margin.",
        (),
        "",
    ),
    (
        "csml-robust-picture",
        "Robust and non-robust solutions (picture)",
        "One neuron for each cluster makes a boundary around each; descent finds a flat one.",
        ("connections-picture",),
        "",
    ),
    (
        "csml-figure-1",
        "Figure 1",
        "Cosine matrices, averaging and decoupling.",
        ("figure-2-cifar10",),
        "",
    ),
    (
        "csml-figure-2",
        "Figure 2",
        "Finer labels make networks on MNIST and CIFAR-10 more robust.",
        ("figure-3-mnist", "figure-3-cifar10"),
        "",
    ),
    (
        "csml-double-edged",
        "Double-edged sword (Frei et al. 2024)",
        "KKT points generalise and are not robust.",
        ("margin-kkt-radius",),
        "",
    ),
    (
        "csml-margin-misleads",
        "Margin and robustness, pictures",
        "Maximal margins have not solved robustness: pictures of a wide margin mislead in high dimension.",
        ("margin-kkt-radius", "connections-dimpled-manifold"),
        "",
    ),
    (
        "csml-finite-time",
        "Implicit bias of GD, finite time",
        "KKT points are abstract and a limit; averaging is seen after finite time.",
        ("theorem-1-averaging", "margin-kkt-averaging"),
        "",
    ),
    (
        "csml-remark-supervision",
        "Final remarks",
        "With feature-level labels a similar network learns decoupled, more robust solutions.",
        (),
        "",
    ),
    (
        "csml-final-remarks",
        "Final remarks, people",
        "People are robust without adversarial training, from richer labels; can standard training do it?",
        ("question-adversarial",),
        "",
    ),
    (
        "csml-definition-robustness",
        "Robustness",
        "A point's robustness is its distance to the nearest misclassified point.",
        (),
        DEFINITION + "`radii`.",
    ),
)
