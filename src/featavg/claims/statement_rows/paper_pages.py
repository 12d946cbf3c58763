"""Statements of the two pages on the paper: its summary and its abstract."""

from __future__ import annotations

from featavg.claims.statement_rows.row import Row

SUMMARY: tuple[Row, ...] = (
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
        "CIFAR-10 heads and networks, 2 against 10 labels: robust accuracy in l2 and l_inf.",
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
