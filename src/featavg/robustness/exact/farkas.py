r"""Proof, in rational arithmetic, that a network decides the same way everywhere.

A flipped set is a union of pieces (`pieces`), each inside the polyhedra of its cuts (`piece_search`
says why). A system of inequalities row . x + c <= 0 has no solution if some combination with
multipliers lambda >= 0 has lambda . rows = 0 and lambda . c > 0: it would read 0 + positive <= 0.
The constant must be strictly positive: with zero the system may hold at a single point, and there
the score is zero, which counts as flipped. Weights, biases and heads are floats, so fractions, and
every step here is exact; float64 only suggests which inequalities to combine.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy import ndarray

from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact.piece_search import PieceSearch

# One linear inequality row . x + constant <= 0 with exact coefficients.
Inequality = tuple[list[Fraction], Fraction]


def never_flips(net: TwoLayer, pieces: list[ndarray], search: PieceSearch) -> bool:
    r"""Whether no point has rows @ outputs <= 0 for one of the pieces, proven exactly.

    False where float64 only suspects it.

    A float64 certificate ends at some finite, if huge, distance. Emptiness of a piece is a
    combination of its inequalities with lambda >= 0 that reads 0 . x + c <= 0 with c > 0 (Farkas).
    `search`, just done at some point, names the inequalities; their exact multipliers are the null
    vector of their rows, found by elimination in fractions.
    """
    outputs = _Exact(net, pieces)
    if len(search.members) < outputs.families:
        # A family that can never hold was left out of the search, in floats; say it in fractions.
        return False
    for leaf, f in enumerate(search.pieces.family):
        on = (search.pieces.down[leaf] > 0).any(axis=0)
        known = [search.proofs[leaf]] if leaf in search.proofs else []
        single = [[cut] for cut in search.patterns(int(f))]
        if not any(
            empty([outputs.row(int(f), i, t, on) for i, t in cuts]) for cuts in known + single
        ):
            return False
    return True


class _Exact:
    """The inequalities of `flipped_set.flipped`, in fractions."""

    def __init__(self, net: TwoLayer, pieces: list[ndarray]) -> None:
        self.weights = [[Fraction(v) for v in row] for row in net.weights.tolist()]
        self.biases = [Fraction(v) for v in net.biases.tolist()]
        self.alive = np.flatnonzero(np.abs(net.weights).max(axis=1) > 0)
        head = [[Fraction(v) for v in row] for row in net.head.tolist()]
        self.heads = [
            [_combined([Fraction(v) for v in row], head) for row in rows.tolist()]
            for rows in pieces
        ]
        self.families = len(self.heads)

    def row(self, f: int, i: int, active: ndarray, on: ndarray) -> Inequality:
        """Inequality i of family f with pattern `active` on the left and `on` on the right."""
        head = self.heads[f][i]
        total, constant = [Fraction(0)] * len(self.weights[0]), Fraction(0)
        place = {int(r): n for n, r in enumerate(self.alive)}
        for r, a in enumerate(head):
            if r not in place:
                constant += a * max(self.biases[r], Fraction(0))
            elif (a > 0 and active[place[r]]) or (a < 0 and on[place[r]]):
                total = [t + a * w for t, w in zip(total, self.weights[r], strict=True)]
                constant += a * self.biases[r]
        return total, constant


def _combined(row: list[Fraction], head: list[list[Fraction]]) -> list[Fraction]:
    """Row @ head."""
    columns = zip(*head, strict=True)
    return [sum((v * a for v, a in zip(row, c, strict=True)), Fraction(0)) for c in columns]


def empty(inequalities: list[Inequality]) -> bool:
    """Whether a non-negative combination of the rows is zero and its constant positive.

    >>> one, two = Fraction(1), Fraction(2)
    >>> empty([([one, two], one), ([-one, -two], one)])
    True
    """
    null = _null_vector([row for row, _ in inequalities])
    if null is None:
        return False
    # The null vector is known up to its sign; one with both signs proves nothing.
    if any(v < 0 for v in null):
        null = [-v for v in null]
    constant = sum(v * c for v, (_, c) in zip(null, inequalities, strict=True))
    return all(v >= 0 for v in null) and constant > 0


def _null_vector(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The combination of the rows that vanishes, if there is exactly one up to scale."""
    size = len(rows)
    # Eliminate on the rows with the identity appended, so that the combination is carried along.
    work = [(list(row), [Fraction(int(i == j)) for j in range(size)]) for i, row in enumerate(rows)]
    done = 0
    for column in range(len(rows[0])):
        pivot = next((r for r in range(done, size) if work[r][0][column] != 0), None)
        if pivot is None:
            continue
        work[done], work[pivot] = work[pivot], work[done]
        top, top_mix = work[done]
        for r in range(done + 1, size):
            row, mix = work[r]
            if row[column] != 0:
                factor = row[column] / top[column]
                work[r] = (
                    [a - factor * b for a, b in zip(row, top, strict=True)],
                    [a - factor * b for a, b in zip(mix, top_mix, strict=True)],
                )
        done += 1
        if done == size:
            return None
    return work[done][1] if done == size - 1 else None
