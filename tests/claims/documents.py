"""What the five documents say, statement by statement: a second list beside the table of statements.

`test_statements` compares the two: a row that is dropped from the table, or renamed, is missed here.
"""

from __future__ import annotations

NOTES = """
definition-2.1 definition-2.2 definition-2.3 definition-2.4 definition-2.5 definition-2.6
assumption-1 assumption-2 definition-1.1 remark-1.1 why-averaging assumption-3 assumption-3-discussion
theorem-1 lemma-1 lemma-2 lemma-3 lemma-4 lemma-5 step-3a step-3b step-3c theorem-2 theorem-3
definition-grouped theorem-4 lemma-6 lemma-7 lemma-8 lemma-9 lemma-10 lemma-11 lemma-12 theorem-5
setting equivalent-weights figure-2ab figure-2cd figure-3-left figure-3-middle figure-3-right
"""
BOTH_TALKS = """
examples other-biases regularised soudry normalized-margin margin-bounds monotone either-or rates kkt
loss-based-rate margin-table longer-helps lipschitz averaging-slide model simplicity local-margin
features expressivity dimples
"""
ITCS = """
sandwich margin-uses robust-features initialisation robust-exists decomposition theorem-averaging-1
theorem-averaging-2 theorem-nonrobust intuition-gradient theorem-5.5 figure-1 figure-2 kkt-radius
kkt-late theorem-4.2 final-remarks
"""
CSML = """
nonhomogeneous margin-misleads double-edged finite-time initialisation robust-exists decomposition
theorem-averaging conjecture-1 theorem-nonrobust intuition-gradient robust-picture figure-1 figure-2
remark-supervision final-remarks definition-robustness
"""
SUMMARY = """
key-results mechanism-1 break-1 mechanism-2 break-2 mechanism-3 break-3 question-orthogonal
question-biases question-linf tradeoffs failure-signatures experiment-1 experiment-2 experiment-3
open-1 open-2 open-3 limitations confidence check-1 check-2 check-3
"""
ABSTRACT = "averaging principal proof vulnerability supervision"

SAID = {
    "notes": NOTES.split(),
    "itcs": (BOTH_TALKS + ITCS).split(),
    "csml": (BOTH_TALKS + CSML).split(),
    "summary": SUMMARY.split(),
    "abstract": ABSTRACT.split(),
}
