"""Statements of the two pages on the paper: its summary and its abstract."""

from __future__ import annotations

from featavg.paper.engine.statement_rows.row import Row

SUMMARY: tuple[Row, ...] = (
    (
        "summary-key-results",
        "Key results",
        "Descent learns weighted averages; these are attacked along the negative average; feature-level "
        "labels decouple, with optimal robustness; synthetic data, MNIST and CIFAR-10 agree.",
        (
            "theorem-1-averaging",
            "theorem-1-non-robust",
            "theorem-4-decoupling",
            "connections-optimal-radius",
            "figure-3-mnist",
            "figure-3-cifar10",
        ),
        "",
    ),
    (
        "summary-mechanism-1",
        "Mechanism 1",
        "Descent turns each neuron into a weighted average of its class's features.",
        ("theorem-1-averaging", "assumption-2-unequal"),
        "",
    ),
    (
        "summary-mechanism-2",
        "Mechanism 2",
        "Averages are flipped along the negative average at √(d/k), though solutions with √d exist.",
        (),
        "",
    ),
    (
        "summary-mechanism-3",
        "Mechanism 3",
        "Feature-level labels make descent learn features apart, with optimal robustness.",
        (),
        "",
    ),
    (
        "summary-break-1",
        "Mechanism 1, break condition",
        "Averaging diminishes if features are not orthogonal, or with fine labels.",
        ("question-angle-equal", "question-angle-geometry", "theorem-4-decoupling"),
        "",
    ),
    (
        "summary-break-2",
        "Mechanism 2, break condition",
        "The attack fails if averages do not discriminate, or along another direction.",
        ("universal-vector", "theorem-2-clean"),
        "",
    ),
    (
        "summary-break-3",
        "Mechanism 3, break condition",
        "Fine labels do not help if they are too coarse, or if the network cannot hold each feature.",
        ("images-digits", "decoupling-dead-neurons", "question-depth-fine"),
        "",
    ),
    (
        "summary-failure-signatures",
        "Failure signatures",
        "A network that averages has similar activation patterns on the clusters of a class, and small "
        "steps along the averages change its decision.",
        ("audit-shared-gradient", "averaged-gradient-norm", "universal-vector"),
        "",
    ),
    (
        "summary-experiment-1",
        "First experiments, 1",
        "Synthetic data, 2 against 10 labels: cosines of weights and features.",
        (),
        "",
    ),
    (
        "summary-experiment-2",
        "First experiments, 2",
        "CIFAR-10 heads (on CLIP's embeddings, whose weights could not be had here, or a ResNet's) and "
        "networks, 2 against 10 labels: robust accuracy in l2 and l_inf.",
        ("figure-2-cifar10", "figure-3-cifar10"),
        "",
    ),
    (
        "summary-experiment-3",
        "First experiments, 3",
        "Matrices of cosines and curves of robust accuracy.",
        (),
        "",
    ),
    (
        "summary-tradeoffs",
        "Design tradeoffs",
        "Two layers allow proofs and may miss what real networks do; finer labels make robust and cost "
        "labelling.",
        ("question-depth-averages", "question-depth-fine", "audit-hidden-digit"),
        "",
    ),
    (
        "summary-question-orthogonal",
        "Foundational learning, orthogonal clusters",
        "If features are not orthogonal, what becomes of averaging?",
        ("question-angle-equal", "question-angle-geometry"),
        "",
    ),
    (
        "summary-question-biases",
        "Foundational learning, implicit bias",
        "Which other implicit biases does gradient descent have?",
        ("implicit-bias-early", "connections-simplicity-lms5", "margin-homogeneous-growth"),
        "",
    ),
    (
        "summary-question-linf",
        "Foundational learning, robustness metrics",
        "How does l2 robustness differ from l_inf?",
        (),
        "",
    ),
    (
        "summary-open-1",
        "Open question 1",
        "Features that are not orthogonal: how does averaging and its cost depend on their angle?",
        (),
        "",
    ),
    (
        "summary-open-2",
        "Open question 2",
        "Deeper networks: do they average, and what does depth change?",
        (),
        "",
    ),
    (
        "summary-open-3",
        "Open question 3",
        "Why do finer labels help on real data, where clusters are no exact model?",
        (
            "cifar100-superclasses",
            "images-digits",
            "audit-shared-gradient-images",
            "audit-predicted-gain",
            "audit-hidden-digit",
            "finer-labels-border",
        ),
        "",
    ),
    (
        "summary-limitations",
        "Limitations",
        "The assumptions (orthogonal features, a small start, two layers, clean clusters) are strong.",
        (
            "question-border-initialisation",
            "question-border-noise",
            "question-border-samples",
            "talk-initialisation",
            "question-depth-averages",
        ),
        "",
    ),
    (
        "summary-confidence",
        "Confidence",
        "That finer labels improve robustness is seen on synthetic data, MNIST and CIFAR-10 alike; that "
        "averaging is the main cause in deep networks is speculation.",
        ("figure-3-left", "figure-3-mnist", "figure-3-cifar10", "finer-labels-border"),
        "",
    ),
    (
        "summary-check-1",
        "Next checks, 1",
        "Repeat with features that are not orthogonal.",
        (),
        "",
    ),
    (
        "summary-check-2",
        "Next checks, 2",
        "Repeat with three layers and residual networks.",
        (),
        "",
    ),
    (
        "summary-check-3",
        "Next checks, 3",
        "Repeat with Adam, momentum and learning-rate schedules.",
        (),
        "",
    ),
)
ABSTRACT: tuple[Row, ...] = (
    (
        "abstract-averaging",
        "Abstract, first claim",
        "Descent relies on an average, or a certain combination, of the available features.",
        ("theorem-1-averaging",),
        "",
    ),
    (
        "abstract-proof",
        "Abstract, proof",
        "On clusters with orthogonal centres the weights of each hidden neuron become an average of them.",
        ("theorem-1-averaging", "theorem-1-coefficients", "theorem-1-scale"),
        "",
    ),
    (
        "abstract-principal",
        "Abstract, argument",
        "Averaging is one of the principal causes of the non-robustness of deep networks.",
        ("finer-labels-border", "audit-shared-gradient-images", "question-depth-radius"),
        "",
    ),
    (
        "abstract-vulnerability",
        "Findings, second",
        "Averaging makes networks vulnerable to small perturbations.",
        ("theorem-1-non-robust", "remark-attack-vector"),
        "",
    ),
    (
        "abstract-supervision",
        "Findings, third",
        "Finer labels improve robustness.",
        ("theorem-4-robust", "figure-3-left", "images-digits"),
        "",
    ),
)
