"""Exact radii of random deep networks against slow truths and against attacks.

`python -m tests.robustness.deep_soundness N SEED` compares N random networks of depth 3 and 4 with up
to 14 neurons with the list of all their activation regions. `--two-layers` compares N random two-layer
networks with their own path instead, `--decisions` asks `certify` on both sides of the radius of N
networks, `--classes` N points of multi-class networks with the least radius
over pairs of classes, `--attacks` and `--foolbox` run our attacks and foolbox's on N points: none may
be nearer than its certificate. The suite runs a seeded part of each.
"""

import math
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

import numpy as np
from tests.robustness.deep_twin import as_deep, brute_force

from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.two_layer import TwoLayer
from featavg.robustness.attacks.suite import attack_suite
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.decision import decision_of
from featavg.robustness.exact.flip_conditions import LinearCondition, conditions_of
from featavg.robustness.exact.layered_network import layered_of
from featavg.robustness.exact.result import RadiusStatus
from featavg.robustness.models.decision import Decision
from featavg.robustness.models.model import Model
from featavg.robustness.radii import radii

SAME = 1e-6
MARGIN = 1e-7
NEURONS = 14
# Weights that are whole numbers have parallel pieces. Their slopes differ by rounding errors, and where
# the list of regions lets them meet, far beyond this, nothing flips.
FAR = 1e9
POINTS = 20
BUDGET = Budget(nodes=1000)
OURS, FOOLBOX = ("ddn", "deepfool", "pgd"), ("foolbox:L2DeepFoolAttack", "foolbox:DDNAttack")


@dataclass(frozen=True, eq=False)
class DeepModel(Model):
    """A deep network as attacks see it."""

    net: Deep = field(kw_only=True)

    def _outputs(self, x):
        return self.net(x)

    def _pull(self, x, covector):
        outputs = self.net(x)
        return outputs, self.net.input_gradient(x, covector(outputs, slice(None)))


def deep_model(net):
    """The largest output decides; one output decides by its sign."""
    groups = None if net.outputs == 1 else np.arange(net.outputs)
    readout = "probability" if groups is None else "max"
    return DeepModel(Decision.of(groups=groups, readout=readout), None, "raw", net=net)


def random_deep(rng, hidden=None, outputs=None, residual=None):
    """Depth 3 or 4, up to 14 neurons, with and without biases, skips and a leak; some degenerate."""
    hidden = hidden or int(rng.integers(2, 4))
    outputs = outputs or int(rng.choice([1, 1, 2, 3]))
    residual = bool(rng.integers(2)) if residual is None else residual
    total = int(rng.integers(2 * hidden, NEURONS + 1))
    widths = [total // hidden] * hidden
    if not residual:
        for _ in range(3):
            a, b = rng.integers(hidden, size=2)
            if widths[a] > 2:
                widths[a], widths[b] = widths[a] - 1, widths[b] + 1
    sizes = [int(rng.integers(1, 6)), *widths, outputs]
    weights = [rng.normal(size=(m, p)) for p, m in pairwise(sizes)]
    biases = [0.5 * rng.normal(size=m) for m in sizes[1:]] if rng.integers(3) else None
    kind = rng.integers(8)
    if kind == 0:
        weights[0][-1] = 0.0
    elif kind == 1:
        weights[0][-1] = -weights[0][0]
    elif kind == 2:
        weights = [np.round(w) for w in weights]
    activation = f"leaky-relu:leak={rng.choice([0.1, 0.5])}" if rng.integers(4) == 0 else "relu"
    return Deep(tuple(weights), None if biases is None else tuple(biases), activation, residual)


def labels_of(net, x):
    """What the network decides."""
    outputs = net(x)
    return np.where(outputs[:, 0] > 0, 1, -1) if net.outputs == 1 else outputs.argmax(axis=1)


def check_regions(count, seed):
    """Random networks against the list of all regions."""
    rng = np.random.default_rng(seed)
    told = dict.fromkeys(("networks", "infinite", "proven", "flipped already", "left open"), 0)
    told |= {"ties": 0, "worst": 0.0}
    for _ in range(count):
        net = random_deep(rng)
        x = rng.normal(size=(1, net.dimension))
        y = labels_of(net, x)
        told["networks"] += 1
        found = radii(net, x, y, budget=BUDGET)
        conditions = conditions_of(decision_of(net, x, y, None, None, "l2")[0], int(y[0]))
        if found.outcomes[0] is RadiusStatus.MISCLASSIFIED:
            assert min(float(condition.excess(net(x))[0]) for condition in conditions) <= 0
            told["flipped already"] += 1
            continue
        plain = layered_of(net)
        truth = brute_force(plain, plain.start(x)[0], conditions)
        if truth > FAR:
            assert math.isinf(found.attack[0])
            told["infinite"] += 1
            told["proven"] += found.outcomes[0] is RadiusStatus.NEVER
            continue
        # A point on the boundary itself has a radius of the size of rounding errors.
        within = SAME * truth + 1e-11
        case = (seed, told["networks"], truth, found.certified[0], found.attack[0])
        assert found.certified[0] - within <= truth <= found.attack[0] + within, case
        if found.outcomes[0] is RadiusStatus.BUDGET:
            told["left open"] += 1
            continue
        if found.attack[0] - found.certified[0] > within:
            # The nearest flipped points are ties that end nowhere on the other side, such as the
            # origin of a network without biases: rounding does not hit them. What flips by more than
            # rounding is then not nearer than the witness.
            size = MARGIN * float(np.abs(net(x)).max())
            clear = [LinearCondition(condition.rows, condition.shifts + size) for condition in conditions]
            assert found.attack[0] <= brute_force(plain, plain.start(x)[0], clear) + within, case
            told["ties"] += 1
            continue
        told["worst"] = max(told["worst"], abs(found.certified[0] - truth) / max(truth, 1e-4))
    return told


def check_decisions(count, seed, nodes=1000):
    """The decision just inside and just outside of the radius that all regions give."""
    rng = np.random.default_rng(seed)
    told = dict.fromkeys(("networks", "certified", "flipped", "left open"), 0)
    for _ in range(count):
        net = random_deep(rng)
        x = rng.normal(size=(1, net.dimension))
        y = labels_of(net, x)
        told["networks"] += 1
        plain = layered_of(net)
        conditions = conditions_of(decision_of(net, x, y, None, None, "l2")[0], int(y[0]))
        truth = brute_force(plain, plain.start(x)[0], conditions)
        for share in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
            radius = share * (truth if 1e-6 < truth < math.inf else 5.0)
            status = certify(net, x, y, radius=radius, budget=Budget(nodes=nodes)).status[0]
            case = (seed, told["networks"], truth, radius, status)
            assert status is not Certificate.CERTIFIED or truth > radius * (1 - SAME), case
            assert status is not Certificate.FLIPPED or truth < radius * (1 + SAME), case
            told["certified"] += status is Certificate.CERTIFIED
            told["flipped"] += status is Certificate.FLIPPED
            told["left open"] += status is Certificate.OPEN
    return told


def check_two_layers(count, seed):
    """Random two-layer networks against the path of their own: binary, `sum` and `max`."""
    rng = np.random.default_rng(seed)
    told = {"networks": 0, "compared": 0, "left open": 0, "worst": 0.0}
    for _ in range(count):
        k, d = int(rng.integers(2, 6)), int(rng.integers(1, 6))
        grouped = bool(rng.integers(2))
        neurons = k if grouped else int(rng.integers(2, 8))
        head = np.diag(rng.random(k) + 0.5) if grouped else rng.normal(size=(1, neurons))
        net = TwoLayer(rng.normal(size=(neurons, d)), 0.3 * rng.normal(size=neurons), head)
        positive = (np.arange(k) < rng.integers(1, k)) if grouped else None
        readout = ("sum", "max")[rng.integers(2)]
        x, y = 2.0 * rng.normal(size=(2, d)), rng.choice([-1, 1], size=2)
        fast = radii(net, x, y=y, readout=readout, positive=positive, jobs=1)
        deep = radii(as_deep(net), x, y, readout=readout, positive=positive, budget=BUDGET, jobs=1)
        told["networks"] += 1
        for i in np.flatnonzero(np.isfinite(fast.attack)):
            case = (seed, told["networks"], fast.attack[i], deep.certified[i], deep.attack[i])
            within = SAME * fast.attack[i] + 1e-11
            if deep.outcomes[i] is RadiusStatus.BUDGET:
                assert deep.certified[i] - within <= fast.attack[i] <= deep.attack[i] + within, case
                told["left open"] += 1
                continue
            assert abs(deep.attack[i] - fast.attack[i]) <= within, case
            assert abs(deep.certified[i] - fast.certified[i]) <= within, case
            told["compared"] += 1
            size = max(fast.attack[i], 1e-4)
            told["worst"] = max(told["worst"], abs(deep.certified[i] - fast.certified[i]) / size)
    return told


def check_classes(count, seed):
    """Points of networks with several classes against the least radius over pairs of them."""
    rng = np.random.default_rng(seed)
    told = {"points": 0, "left open": 0, "ties": 0, "worst": 0.0}
    while told["points"] < count:
        net = random_deep(rng, outputs=int(rng.integers(3, 6)))
        x = rng.normal(size=(5, net.dimension))
        y = labels_of(net, x)
        whole = radii(net, x, y, budget=BUDGET)
        for i in range(len(x)):
            told["points"] += 1
            pairs = [
                radii(_pair(net, y[i], j), x[i : i + 1], np.array([1]), budget=BUDGET)
                for j in range(net.outputs)
                if j != y[i]
            ]
            least = min(float(pair.attack[0]) for pair in pairs)
            opened = [*(pair.outcomes[0] for pair in pairs), whole.outcomes[i]]
            if math.isinf(least) or RadiusStatus.BUDGET in opened:
                floor = min(float(pair.certified[0]) for pair in pairs)
                assert floor * (1 - SAME) <= whole.attack[i]
                assert whole.certified[i] * (1 - SAME) <= least
                told["left open"] += math.isfinite(least)
                continue
            # Both ends agree: where the nearest flipped point is a tie that rounding does not hit, the
            # radius of its pair is a bracket, and so is the whole network's.
            proven = min(float(pair.certified[0]) for pair in pairs)
            assert abs(whole.certified[i] - proven) <= SAME * proven + 1e-11
            assert abs(whole.attack[i] - least) <= SAME * least + 1e-11
            told["ties"] += least - proven > SAME * least + 1e-11
            told["worst"] = max(told["worst"], abs(whole.certified[i] - proven) / max(proven, 1e-4))
    return told


def _pair(net, label, rival):
    """The network with one output, f_label - f_rival."""
    weights = (*net.weights[:-1], (net.weights[-1][label] - net.weights[-1][rival])[None])
    biases = net.biases
    if biases is not None:
        biases = (*biases[:-1], np.array([biases[-1][label] - biases[-1][rival]]))
    return Deep(weights, biases, net.activation, net.residual)


def check_attacks(count, seed, attacks=OURS):
    """Points of random networks: no attack may flip one nearer than its certificate."""
    rng = np.random.default_rng(seed)
    told = {"points": 0, "attacked": 0, "nearest to a certificate": math.inf}
    while told["points"] < count:
        net = random_deep(rng)
        x = rng.normal(size=(POINTS, net.dimension))
        y = labels_of(net, x)
        found = radii(net, x, y, budget=Budget(nodes=100))
        told["points"] += len(x)
        try:
            result = attack_suite(deep_model(net), x, y, attacks=list(attacks))
        except InputError:  # no gradient anywhere: it says so, and there is nothing to compare
            continue
        hit = np.isfinite(result.radii) & (found.certified > 1e-9)
        ratio = result.radii[hit] / found.certified[hit]
        assert np.all(ratio >= 1.0 - 1e-9), (seed, told["points"], ratio.min())
        told["attacked"] += int(hit.sum())
        nearest = float(ratio.min(initial=math.inf))
        told["nearest to a certificate"] = min(told["nearest to a certificate"], nearest)
    return told


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if not word.startswith("--")]
    number = numbers[0] if numbers else 2000
    seed = numbers[1] if len(numbers) > 1 else 0
    ours = OURS if "--attacks" in sys.argv else ()
    theirs = FOOLBOX if "--foolbox" in sys.argv else ()
    start = perf_counter()
    if ours or theirs:
        print(check_attacks(number, seed, ours + theirs))
    elif "--two-layers" in sys.argv:
        print(check_two_layers(number, seed))
    elif "--decisions" in sys.argv:
        print(check_decisions(number, seed))
    elif "--classes" in sys.argv:
        print(check_classes(number, seed))
    else:
        print(check_regions(number, seed))
    print(f"{perf_counter() - start:.0f} s")
