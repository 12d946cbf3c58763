"""Random small networks in boxes against their slow twin: every activation region, with all sides.

`python -m tests.robustness.box_soundness 2000` runs the full number and prints the worst difference;
the suite runs a seeded part. `--attacks` runs our attacks inside the box instead.
"""

import math
import sys
from itertools import product
from time import perf_counter

import numpy as np
from scipy.optimize import linprog
from tests.robustness.brute_force import least_distance
from tests.robustness.soundness import random_case

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.exact.budget import UNLIMITED, Search
from featavg.robustness.exact.decision import decision_of
from featavg.robustness.exact.deep.local_search import BoxAttack
from featavg.robustness.exact.flip_conditions import conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.exact.step_box import StepBox
from featavg.robustness.models.model import network_model
from featavg.robustness.radii import radii

WITHIN = 1e-6  # written before the first run
WITHIN_ATTACKS = 1e-9
POINTS = 2


def least_linf(rows, limits):
    """min |u|_inf subject to rows @ u <= limits, as a textbook linear program."""
    # Unit rows: a solver's tolerances are absolute.
    lengths = np.linalg.norm(rows, axis=1)
    if np.any((lengths == 0) & (limits < 0)):
        return math.inf
    rows, limits = rows[lengths > 0], limits[lengths > 0]
    rows, limits = rows / lengths[lengths > 0, None], limits / lengths[lengths > 0]
    q, d = rows.shape
    ones = np.ones((d, 1))
    table = np.block([[rows, np.zeros((q, 1))], [np.eye(d), -ones], [-np.eye(d), -ones]])
    found = linprog(
        np.eye(d + 1)[-1], table, np.concatenate([limits, np.zeros(2 * d)]), bounds=[(None, None)] * d + [(0, None)]
    )
    return float(found.fun) if found.status == 0 else math.inf


def brute_force(decision, x, label, low, high, norm):
    """The least distance over all patterns of all layers and all pieces, inside the box."""
    net, least = decision.net, least_linf if norm == "linf" else least_distance
    if isinstance(net, Deep):
        weights, biases = list(net.weights), [0.0 if b is None else b for b in net.biases]
    else:
        weights, biases = [net.weights, net.head], [net.biases, 0.0]
    d, best = len(x), math.inf
    sides = np.concatenate([np.eye(d), -np.eye(d)]), np.concatenate([high - x, x - low])
    widths = [len(w) for w in weights[:-1]]
    for pattern in product((0.0, 1.0), repeat=sum(widths)):
        slope, value, rows, limits = np.eye(d), x, [sides[0]], [sides[1]]
        rest = np.array(pattern)
        for number, (w, b) in enumerate(zip(weights, biases, strict=True)):
            slope, value = w @ slope, w @ value + b
            if number == len(widths):
                break
            on, rest = rest[: widths[number]], rest[widths[number] :]
            sign = 1.0 - 2.0 * on
            rows.append(sign[:, None] * slope)
            limits.append(-sign * value)
            slope, value = on[:, None] * slope, on * value
        for piece in decision.pieces(label):
            every = np.concatenate([*rows, piece @ slope])
            best = min(best, least(every, np.concatenate([*limits, -(piece @ value)])))
    return best


def case(rng):
    """A network, points, labels, a box that mostly cuts, and the other arguments of `radii`."""
    kind = "deep" if rng.integers(4) == 0 else "two layers"
    if kind == "deep":
        d, m = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        shapes = [(m, d), (m, m), (int(rng.integers(2, 4)), m)]
        net = Deep(tuple(rng.normal(size=s) for s in shapes), tuple(rng.normal(size=s[0]) for s in shapes))
        x, named = rng.normal(size=(POINTS, d)), {}
        y = net(x).argmax(axis=1)
    else:
        net, x, positive, readout, kind = random_case(rng)
        x, named = x[:POINTS], {"readout": readout, "positive": positive}
        y = decided(net, x, named)
    span = [0.05, 0.3, 1.0, 3.0][rng.integers(4)] * max(float(np.abs(x).max()), 0.1)
    if rng.integers(2):
        low, high = np.full(x.shape[1], x.min() - span), np.full(x.shape[1], x.max() + span)
        low, high = (low, high) if rng.integers(2) else (np.full_like(low, x.min()), high)
    else:
        low = x.min(axis=0) - span * rng.uniform(0, 1, x.shape[1]) * rng.integers(0, 2, x.shape[1])
        high = x.max(axis=0) + span * rng.uniform(0, 1, x.shape[1]) * rng.integers(0, 2, x.shape[1])
    return net, x, y, (low, high), named, kind


def decided(net, x, named):
    """The labels that the network gives, so that few points are wrong."""
    some = decision_of(net, x, np.ones(len(x)), norm="l2", **named)[0]
    return np.where(some.margins(x, 1) > 0, 1, -1)


def inside(found, bounds):
    """Whether every witness that there is lies in the box."""
    shown = found.witness[np.isfinite(found.attack)]
    return bool(np.all((shown >= bounds[0]) & (shown <= bounds[1])))


def check(net, x, y, bounds, named, norm):
    """The worst relative difference to the slow twin, how many points are not settled, and radii."""
    found = radii(net, x, y, norm=norm, bounds=bounds, jobs=1, **named)
    decision = decision_of(net, x, y, named.get("readout"), named.get("positive"), norm)[0]
    assert inside(found, bounds), "a witness is outside of the box"
    worst, unsettled = 0.0, 0
    for i, point in enumerate(x):
        label = int(y[i])
        if found.outcomes[i] is RadiusStatus.MISCLASSIFIED:
            continue
        if np.isfinite(found.attack[i]):
            assert decision.margins(found.witness[i][None], label)[0] <= 0, "no flip"
        true = brute_force(decision, point, label, *bounds, norm)
        scale = max(float(np.abs(point).max()), 1e-3)
        settled = found.outcomes[i] in (RadiusStatus.EXACT, RadiusStatus.NEVER)
        unsettled += not settled
        if true == math.inf or found.certified[i] == math.inf:
            assert not settled or true == found.certified[i], (true, found.certified[i])
            assert true == math.inf or found.certified[i] < math.inf
            continue
        # A certificate above the truth, or an attack below it, is wrong whatever was settled.
        wrong = max(found.certified[i] - true, true - found.attack[i])
        wrong = max(wrong, found.attack[i] - true, true - found.certified[i]) if settled else wrong
        worst = max(worst, wrong / max(true, scale))
    return worst, unsettled, found


def attacked(net, x, y, bounds, named, norm, found):
    """How many points were attacked in the box, and by how much a flip is below its certificate."""
    right = np.flatnonzero(found.attack > 0)
    if not len(right):
        return 0, -math.inf
    if isinstance(net, Deep):
        lengths = np.array([descended(net, x[i], int(y[i]), bounds, found.attack[i]) for i in right])
    else:
        even = float(bounds[0].min()), float(bounds[1].max())
        if even[0] == even[1]:  # attacks do not take a box of one point
            return 0, -math.inf
        model = network_model(net, named["positive"], named["readout"], even)
        try:
            lengths = attack_suite(model, x[right], y[right], norm, budget=60).radii
        except InputError:  # no gradient anywhere
            return 0, -math.inf
    flips = np.isfinite(lengths) & (found.certified[right] > 0)
    scales = np.minimum(found.certified[right], 1e300)[flips]
    below = float(np.max(1.0 - lengths[flips] / scales, initial=-math.inf))
    return len(right), below


def descended(net, x, label, bounds, known):
    """The shortest flip that projected gradients find in the box, from many starts and in few balls."""
    decision, plain = decision_of(net, x[None], [label], None, None, "l2")[0], layered_of(net)
    least, kept = min(known, 10.0), Search()

    def shown(step):
        point = np.clip(x + step, *bounds)
        flips = decision.margins(point[None], label)[0] <= 0
        return float(np.linalg.norm(point - x)) if flips else None

    net = plain.unturned()
    for radius in (least * share for share in (0.5, 0.9, 0.999, 1.001, 1.5, 10.0)):
        box = StepBox.around(x, bounds, radius)
        attack = BoxAttack(net, net.start(x[None])[0], box, kept, UNLIMITED, shown)
        for condition in conditions_of(decision, label):
            attack.start(condition)
    return kept.attack


def run(cases, seed, attacks=False):
    """Check so many networks in both norms; returns and prints what came out."""
    rng, begun = np.random.default_rng(seed), perf_counter()
    worst, unsettled, points, never, cut, below, shown = 0.0, 0, 0, 0, 0, -math.inf, 0
    for number in range(cases):
        net, x, y, bounds, named, kind = case(rng)
        norm = "linf" if kind != "deep" and rng.integers(2) else "l2"
        if attacks:
            # The attacks of the library know a box with the same sides everywhere.
            bounds = tuple(np.full(x.shape[1], end) for end in (bounds[0].min(), bounds[1].max()))
            found = radii(net, x, y, norm=norm, bounds=bounds, jobs=1, **named)
            count, lower = attacked(net, x, y, bounds, named, norm, found)
            if lower > WITHIN_ATTACKS:
                print(f"case {number} of seed {seed} ({kind}, {norm}): {lower:.3g} below", flush=True)
            below, shown = max(below, lower), shown + count
            continue
        difference, left, found = check(net, x, y, bounds, named, norm)
        if difference > WITHIN:
            print(f"case {number} of seed {seed} ({kind}, {norm}): {difference:.3g}", flush=True)
        worst, unsettled, points = max(worst, difference), unsettled + left, points + len(x)
        never += int(np.sum(found.outcome == RadiusStatus.NEVER.code))
        free = radii(net, x, y, norm=norm, jobs=1, **named)
        cut += int(np.sum(found.attack != free.attack))
        if number % 200 == 199:
            print(number + 1, f"{worst:.2e} open {unsettled} {perf_counter() - begun:.0f} s", flush=True)
    print(f"{points} points, {cut} cut, {never} never flip, {unsettled} not settled, worst {worst:.3g}")
    print(f"{shown} points attacked, the best attack below a certificate by {below:.3g} (relative)")
    return worst, unsettled, below


if __name__ == "__main__":
    given = [a for a in sys.argv[1:] if not a.startswith("-")]
    run(int(given[0]), int(given[1]) if len(given) > 1 else 0, "--attacks" in sys.argv)
