"""Random small networks and points, degenerate ones among them, against the brute-force twin.

`python -m tests.robustness.soundness 10000` runs the full number; the suite runs a seeded part.
`--attacks` also runs our attacks on every case, and `--foolbox` foolbox's: none may be below a
certificate. `--tree` answers by branch and bound where the list of pieces would do. `--pooled` draws
networks with one output a neuron, pooled by `max` and `top`.
"""

import sys
from time import perf_counter

import numpy as np
from tests.robustness.brute_force import brute_force_radius

from featavg.errors import InputError
from featavg.nets.readouts._readout import score
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.exact import two_layer
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.radii import radii

POINTS = 5
DEGENERATE = (
    "none",
    "none",
    "none",
    "parallel",
    "opposite",
    "zero weight",
    "zero head",
    "duplicate",
    "no bias",
    "scaled 1e-8",
    "scaled 1e8",
    "boundary",
    "nearly parallel",
    "integers",
)


def random_case(rng):
    """A network, points, labels, a read-out and the name of what is special about it."""
    kind = DEGENERATE[rng.integers(len(DEGENERATE))]
    dimension, grouped = int(rng.integers(1, 5)), bool(rng.integers(2))
    if grouped:
        k, h = [(2, 1), (3, 1), (4, 1), (2, 2), (3, 2)][rng.integers(5)]
        neurons = k * h
        head = np.kron(np.eye(k), np.full((1, h), 1.0 / h))
        if rng.integers(3) == 0:
            head = head * rng.normal(size=head.shape)
        positive = np.arange(k) < rng.integers(1, k)
        readout = ("sum", "max")[rng.integers(2)]
    else:
        neurons = int(rng.integers(1, 7))
        head, positive, readout = rng.normal(size=(1, neurons)), None, "sum"
    weights = rng.normal(size=(neurons, dimension))
    biases = rng.normal(size=neurons) * (kind != "no bias")
    x = rng.normal(size=(POINTS, dimension)) * 2.0
    if neurons > 1 and kind in ("parallel", "opposite", "duplicate", "nearly parallel"):
        weights[1] = weights[0] * {"parallel": 2.5, "opposite": -1.0}.get(kind, 1.0)
        weights[1] += 1e-9 * rng.normal(size=dimension) * (kind == "nearly parallel")
        if kind == "duplicate":
            biases[1] = biases[0]
    if kind == "zero weight":
        weights[0] = 0.0
    if kind == "zero head":
        head[:, 0] *= neurons == 1 or grouped
    if kind == "integers":
        weights, biases, x = np.round(weights), np.round(biases), np.round(x)
    if kind.startswith("scaled"):
        scale = float(kind.split()[1])
        weights, biases = weights * scale, biases * scale
    if kind == "boundary" and np.any(weights[0]):
        # Onto the kink of the first neuron.
        w = weights[0]
        x -= np.outer((x @ w + biases[0]) / (w @ w), w)
    return TwoLayer(weights, biases, head), x, positive, readout, kind


def pooled_case(rng):
    """A network whose neurons compete: one output each, two classes, perhaps of unequal size."""
    kind = ("none", "none", "duplicate", "opposite", "zero weight", "integers")[rng.integers(6)]
    dimension, mine, rivals = int(rng.integers(1, 5)), *map(int, rng.integers(1, 4, size=2))
    neurons = mine + rivals
    weights, biases = rng.normal(size=(neurons, dimension)), rng.normal(size=neurons)
    biases *= rng.integers(2)
    x = rng.normal(size=(POINTS, dimension)) * 2.0
    if kind in ("duplicate", "opposite"):
        weights[1] = weights[0] * (1.0 if kind == "duplicate" else -1.0)
    if kind == "zero weight":
        weights[0] = 0.0
    if kind == "integers":
        weights, biases, x = np.round(weights), np.round(biases), np.round(x)
    head = np.eye(neurons) if rng.integers(2) else np.diag(rng.normal(size=neurons))
    q = int(rng.integers(1, min(mine, rivals) + 1))
    readout = "max" if q == 1 and rng.integers(2) else f"top:q={q}"
    return TwoLayer(weights, biases, head), x, np.arange(neurons) < mine, readout, kind


def check(seed, cases, attacks=(), draw=random_case):
    """Compare on `cases` (network, point) pairs; returns what was found, raises on a mismatch."""
    rng = np.random.default_rng(seed)
    worst, counts, start, attacked = 0.0, {}, perf_counter(), 0
    for _ in range(cases // POINTS):
        net, x, positive, readout, kind = draw(rng)
        y = np.where(rng.random(POINTS) < 0.5, -1, 1)
        outputs = score(net(x), positive, readout)
        # Mostly the label that the network gives, so that there is something to measure.
        y = np.where(rng.random(POINTS) < 0.9, np.where(outputs > 0, 1, -1), y)
        found = radii(net, x, y=y, readout=readout, positive=positive, jobs=1)
        for i in range(POINTS):
            counts[found.outcomes[i].value] = counts.get(found.outcomes[i].value, 0) + 1
            expected = brute_force_radius(net, x[i], y[i], readout, positive)
            case = (kind, readout, net, x[i], y[i], expected, found.certified[i], found.attack[i])
            _compare(found, i, expected, case)
            if 0 < expected < np.inf and found.outcomes[i] is RadiusStatus.EXACT:
                size = max(expected, 1e-6 * np.abs(x[i]).max())
                worst = max(worst, abs(found.certified[i] - expected) / size)
        attacked += _attack(net, x, y, positive, readout, found, attacks) if attacks else 0
        # A point on the boundary itself is flipped or not as its sums are rounded.
        flips = np.isfinite(found.attack) & (found.attack > 0)
        for i in np.flatnonzero(flips):
            again = y[i] * score(net(found.witness[i : i + 1]), positive, readout)
            assert again[0] <= 0, (kind, again)
        lengths = np.linalg.norm(found.witness[flips] - x[flips], axis=1)
        np.testing.assert_allclose(lengths, found.attack[flips], rtol=1e-12, atol=1e-300)
    told = {"cases": cases, "worst": worst, "outcomes": counts, "attacked": attacked}
    return told | {"seconds": perf_counter() - start}


def _attack(net, x, y, positive, readout, found, attacks):
    """How many points the attacks flipped; none of them may be nearer than its certificate."""
    from featavg.robustness.attacks.suite import attack_suite
    from featavg.robustness.models.model import network_model

    total = 0
    for names in attacks:
        try:
            model = network_model(net, positive=positive, readout=readout)
            result = attack_suite(model, x, y, attacks=names)
        except InputError:  # no gradient anywhere: it says so, and there is nothing to compare
            continue
        hit = np.isfinite(result.radii) & (found.certified > 0)
        # A point of the boundary has a radius of the size of rounding errors.
        least = found.certified * (1.0 - 1e-9) - 1e-11 * np.abs(x).max(axis=1)
        assert np.all(result.radii[hit] >= least[hit]), (names, result.radii, found.certified)
        total += int(hit.sum())
    return total


def _compare(found, i, expected, case):
    certified, attack, outcome = found.certified[i], found.attack[i], found.outcomes[i]
    if outcome is RadiusStatus.MISCLASSIFIED:
        assert attack == certified == 0.0
        assert expected <= 1e-9, case
        return
    if outcome is RadiusStatus.NEVER:
        assert expected == np.inf or expected > 1e6, case
        return
    x = case[3]
    tolerance = 1e-6 * expected + 1e-12 * (1 + np.abs(x).max()) if expected < np.inf else 0.0
    assert certified <= expected + tolerance, case
    assert attack >= expected - tolerance, case
    if outcome is RadiusStatus.EXACT:
        assert abs(certified - expected) <= tolerance, case
        assert abs(attack - expected) <= tolerance, case


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
    chosen = [None] if "--attacks" in sys.argv else []
    if "--foolbox" in sys.argv:
        chosen += [["foolbox:L2DeepFoolAttack"], ["foolbox:DDNAttack"]]
    if "--tree" in sys.argv:
        two_layer.LISTED = 0
    drawn = pooled_case if "--pooled" in sys.argv else random_case
    print(check(numbers[1] if len(numbers) > 1 else 0, (numbers or [10_000])[0], chosen, drawn))
