"""The bound over a ball: against the network, differences and hand sums."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.robustness.ball_cases import FREE, KINDS, ball_of, in_part, least_sampled, relaxed, steps_in, undecided
from tests.robustness.test_deep_radii import random_network

from featavg.nets.deep import Deep
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.budget import Budget
from featavg.robustness.exact.deep import sdp_form
from featavg.robustness.exact.deep.ascent import SdpValue, ascend, newton_ascend
from featavg.robustness.exact.deep.ball_search import BallSearch
from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.sdp_bound import SdpBound
from featavg.robustness.exact.deep.sdp_chain import tops
from featavg.robustness.exact.layered_network import layered


def variables(bound, steps):
    """The variables v of the chain at these steps, every layer, and which steps are in the part."""
    ball, chain = bound.ball, bound.form.chain
    layers = ball.net.forward(ball.z + steps @ ball.net.rows.T)
    pairs = zip(chain.inner.layer, chain.inner.number, strict=True)
    activations = [ball.net.phi(layers[a][:, b]) for a, b in pairs]
    return np.column_stack([steps, *activations]), layers, in_part(bound, layers)


def plainly(bound, terms, v):
    """L at v, summed neuron by neuron from its definition."""
    form, ball = bound.form, bound.ball
    r, a = form.chain.step, len(form.inner)
    t = form.all_rows @ v + form.offsets
    total = float(terms.mixture @ (bound.rows @ ball.net.biases[-1] + bound.shifts))
    total += float(terms.on_last @ (form.chain.rows @ v + form.chain.offsets))
    total += float(terms.square @ t**2 + terms.line @ t)
    total += float(terms.cross @ (t[:a] * v[r:]) + terms.own @ v[r:] ** 2 + terms.tilt @ v[r:])
    return total + terms.multiplier * float(v[:r] @ v[:r] - ball.radius**2)


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_affine_in_the_variables(kind):
    for seed in range(9):
        bound, _, rng = relaxed(kind, seed)
        v, layers, inside = variables(bound, steps_in(bound, rng, 2000))
        if inside.sum() > 10 and len(bound.splits):
            break
    chain, net = bound.form.chain, bound.ball.net
    assert inside.sum() > 10
    assert np.all(np.abs(v[inside]) <= sdp_form._largest(bound.form) * (1 + 1e-9))
    for some in (chain.inner, chain.outer, chain.held):
        for i in range(len(some)):
            t = v[inside] @ some.rows[i] + some.offsets[i]
            truth = layers[some.layer[i]][inside, some.number[i]]
            np.testing.assert_allclose(t, truth, atol=1e-10)
            assert np.all((some.lo[i] - 1e-9 <= t) & (t <= some.hi[i] + 1e-9))
    last = v[inside] @ chain.rows.T + chain.offsets
    last[:, chain.outer.number] += net.phi(layers[net.hidden - 1][inside][:, chain.outer.number])
    np.testing.assert_allclose(last @ net.weights[-1].T + net.biases[-1], layers[-1][inside], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_form_is_below_the_network_for_any_coefficients(kind, seed):
    """Convex or not: L is nowhere above the mixture of inequalities on points of the part."""
    bound, theta, rng = relaxed(kind, seed, inequalities=2)
    theta = theta + rng.standard_normal(len(theta))
    terms = bound.form.terms(theta)
    v, layers, inside = variables(bound, steps_in(bound, rng, 300))
    highest = sum(float(top.exact.sum()) for top in bound.form.tops(terms))
    for i in np.flatnonzero(inside):
        truth = float(terms.mixture @ (bound.rows @ layers[-1][i] + bound.shifts))
        assert plainly(bound, terms, v[i]) - highest <= truth + 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_the_value_is_the_least_of_the_form(kind):
    bound, theta, rng = relaxed(kind, 2)
    form, terms, value = bound.form, bound.form.terms(theta), bound.value(theta)
    matrix, slope, constant = form.matrix(terms), form.linear(terms), form.constant(terms)
    highest = sum(float(top.soft.sum()) for top in form.tops(terms))
    least = np.linalg.solve(2.0 * matrix, -slope)
    assert plainly(bound, terms, least) - highest == pytest.approx(value.bound, rel=1e-9)
    np.testing.assert_allclose(bound.step(value, theta), least[: form.chain.step], rtol=1e-6)
    for _ in range(20):
        v = least + 0.1 * rng.standard_normal(len(least))
        quadratic = constant + slope @ v + v @ matrix @ v
        assert plainly(bound, terms, v) == pytest.approx(quadratic, rel=1e-9, abs=1e-9)
        assert quadratic - highest >= value.bound


@pytest.mark.parametrize("kind", KINDS)
def test_constants_are_the_largest_values_on_the_graph(kind):
    bound, theta, rng = relaxed(kind, 2)
    form, phi = bound.form, bound.ball.net.phi
    terms = form.terms(theta + rng.standard_normal(len(theta)))
    inner, outer, held = form.tops(terms)
    a, b = len(form.inner), len(form.inner) + len(form.outer)
    share = np.linspace(0.0, 1.0, 4001)[:, None]
    for some, where, top in (
        (form.inner, slice(0, a), inner),
        (form.outer, slice(a, b), outer),
        (form.held, slice(b, None), held),
    ):
        t = some.lo + share * (some.hi - some.lo)
        values = terms.square[where] * t**2 + terms.line[where] * t
        if some is form.inner:
            values += terms.cross * t * phi(t) + terms.own * phi(t) ** 2 + terms.tilt * phi(t)
        if some is form.outer:
            values -= terms.on_last[some.number] * phi(t)
        size = 1e-2 * np.abs(values).max() if len(some) else 0.0
        np.testing.assert_allclose(top.exact, np.maximum(values.max(axis=0), 0.0), atol=size)
        assert np.all(top.exact >= values.max(axis=0) - 1e-12)


def test_the_largest_values_of_forms_over_their_pieces():
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 2, 400))
    lo, hi, rounding = -rng.random(400), 2.0 * rng.random(400), np.full(400, 1e-3)
    found = tops(tuple(left), tuple(right), lo, hi, rounding)
    share = np.linspace(0.0, 1.0, 2001)[:, None]
    below, above = left[0] * (share * lo) ** 2 + left[1] * share * lo, share * hi
    truth = np.maximum(below, right[0] * above**2 + right[1] * above).max(axis=0)
    np.testing.assert_allclose(found.exact, truth, atol=1e-5)
    assert np.all(found.exact >= truth - 1e-15)
    assert np.all((found.soft >= found.exact) & (found.soft <= found.exact + 1.1e-3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_child_is_bounded_no_lower_than_its_parent(kind):
    for seed in range(9):
        bound, theta, _ = relaxed(kind, seed, splits=False)
        signs = undecided(bound.ball)
        if len({layer for layer, _ in signs}) == bound.ball.net.hidden:
            break
    theta, value = ascend(bound.value, theta, 30, math.inf, FREE)
    before = bound.proven(theta)
    assert len({layer for layer, _ in signs}) == bound.ball.net.hidden
    for layer, neuron in signs:
        for side in (1.0, -1.0):
            child, start = bound.child(theta, value, Split(layer, neuron, side, 0.0))
            assert child.proven(start) >= before - 1e-6 * (1 + abs(before))
            again, further = child.child(start, value, _other(child, layer, neuron))
            assert again.proven(further) >= before - 1e-6 * (1 + abs(before))


def _other(bound, layer, neuron):
    left = [pair for pair in undecided(bound.ball) if pair != (layer, neuron)]
    return Split(*left[0], -1.0, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.1])
@pytest.mark.parametrize("inequalities", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_height(kind, inequalities, share):
    bound, theta, _ = relaxed(kind, 5, inequalities)
    value = bound.value(theta, share)
    matrix = bound.form.matrix(bound.form.terms(theta))
    barrier = share * bound.unit * np.linalg.slogdet(matrix)[1]
    assert value.height == pytest.approx(value.bound + barrier, rel=1e-9)
    step = 1e-6 * np.eye(len(theta))
    heights = [[bound.value(theta + s * e, share).height for s in (1, -1)] for e in step]
    slopes = [(above - below) / 2e-6 for above, below in heights]
    np.testing.assert_allclose(value.gradient, slopes, atol=1e-6 * np.abs(slopes).max())


@pytest.mark.parametrize("kind", KINDS)
def test_newtons_step_is_that_of_the_second_derivatives(kind):
    """Where nothing is at a kink, and up to the curvature of the exponential, which is left out."""
    bound, theta, _ = relaxed(kind, 5)
    share, size = 0.3, len(theta) - 1
    value, step = bound.value(theta, share), 1e-5 * np.eye(len(theta))
    second = np.array(
        [(bound.value(theta + e, share).gradient - bound.value(theta - e, share).gradient) / 2e-5 for e in step]
    )
    # The weight of a single inequality changes nothing.
    second[0, 0] -= value.gradient[0]
    newton = value.newton(0.0)
    predicted = -second[:size, :size] @ newton[:size]
    np.testing.assert_allclose(predicted, value.gradient[:size], rtol=1e-2, atol=1e-2 * np.abs(value.gradient).max())


def test_barriers_keep_an_ascent_from_creeping_along_the_edge():
    """Two layers of 24: the bound ends higher if it is raised behind lower and lower barriers."""
    gains = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        sizes = (6, 24, 24, 3)
        net = layered([rng.normal(size=(b, a)) / math.sqrt(a) for a, b in pairwise(sizes)])
        bound = SdpBound(ball_of(net, 1.0, rng), rng.standard_normal((1, 3)), np.zeros(1))
        _, plain = ascend(bound.value, bound.start(), 400, math.inf, FREE)
        _, value = bound.climbed(bound.start(), 130, math.inf, FREE)
        gains.append(value.bound - plain.bound)
    assert min(gains) > 0.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_bound_at_the_start_and_an_ascent_raises_it(kind, seed):
    bound, _, _ = relaxed(kind, seed)
    first = bound.value(bound.start())
    theta, last = ascend(bound.value, bound.start(), 200, math.inf, FREE)
    assert last.bound > first.bound
    assert bound.proven(theta) > first.bound


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("inequalities", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_below_the_network_at_any_parameters(kind, inequalities, seed):
    bound, theta, rng = relaxed(kind, seed, inequalities)
    value = bound.value(theta)
    # Maxima over a neuron's pieces are rounded off in the value, and exact in what is proven.
    off = math.log(3.0) * float(bound.form.soft.sum())
    close = 1e-6 * (1 + abs(value.bound))
    assert value.bound - close <= bound.proven(theta) <= value.bound + off + close
    assert bound.proven(theta) <= least_sampled(bound, rng)
    better, _ = ascend(bound.value, theta, 60, math.inf, FREE)
    assert value.bound - 1e-9 <= bound.proven(better) <= least_sampled(bound, rng)


@pytest.mark.parametrize("climb", [ascend, newton_ascend])
def test_an_ascent_stops_at_its_target_and_never_falls(climb):
    def hill(theta):
        return None if theta[0] > 2 else _value(theta)

    _, value = climb(hill, np.array([1.9, 1.5]), 50, math.inf, FREE)
    assert value.bound == pytest.approx(0.0, abs=1e-4)
    _, early = climb(hill, np.array([1.9, 1.5]), 50, -5.0, FREE)
    assert -5.0 < early.bound < -1e-3
    assert climb(hill, np.array([3.0, 0.0]), 50, math.inf, FREE)[1] is None


def _value(theta):
    height = -float(np.sum(theta**4))
    newton = lambda damping: -theta / 3.0  # noqa: E731
    return SdpValue(height, height, -4.0 * theta**3, [], np.zeros(0), newton)


# What is proven.


def test_what_is_not_convex_proves_nothing_for_several_layers():
    bound, theta, _ = relaxed("two-hidden", 1)
    theta[0] = -30.0
    assert bound.value(theta) is None
    assert bound.proven(theta) == -math.inf


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_bound_the_matrix(kind):
    bound, theta, rng = relaxed(kind, 2)
    terms = bound.form.terms(theta + rng.standard_normal(len(theta)))
    sizes = sdp_form._sizes(bound.form, terms)
    limit = np.sqrt(np.outer(sizes, sizes))
    assert np.all(np.abs(bound.form.matrix(terms)) <= limit * (1 + 1e-12))
    # Products alone, of a neuron with its activation, reach it.
    zero = np.zeros_like(terms.square)
    alone = replace(terms, multiplier=0.0, square=zero, own=np.zeros_like(terms.own))
    sizes_alone = sdp_form._sizes(bound.form, alone)
    limit = np.sqrt(np.outer(sizes_alone, sizes_alone))
    assert np.all(np.abs(bound.form.matrix(alone)) <= limit * (1 + 1e-12))
    # The diagonal is reached where nothing cancels.
    assert np.max(np.abs(np.diag(bound.form.matrix(terms))) / sizes) > 0.3


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_added_for_convexity_is_charged(kind, monkeypatch):
    """A tangent of L + 4 c sizes . v^2, at the least point of L + 3 c sizes . v^2, and less 4 c times the largest."""
    bound, theta, rng = relaxed(kind, 2)
    theta[0] += 3.0  # L is then least inside of the ball
    c, form, radius = 1e-4, bound.form, bound.ball.radius
    monkeypatch.setattr(sdp_form, "_rounding", lambda *_: 0.0)
    monkeypatch.setattr(sdp_form, "CONVEX", c)
    terms, r = form.terms(theta), form.chain.step
    sizes, largest = sdp_form._sizes(form, terms), sdp_form._largest(form)
    matrix, slope = form.matrix(terms), form.linear(terms)
    highest = sum(float(top.exact.sum()) for top in form.tops(terms))
    v = np.linalg.solve(2.0 * (matrix + 3.0 * c * np.diag(sizes)), -slope)
    tangent = slope + 2.0 * (matrix @ v + 4.0 * c * sizes * v)
    spread = np.linalg.norm(tangent[:r]) * (radius + np.linalg.norm(v[:r]))
    spread += np.abs(tangent[r:]) @ (largest[r:] + np.abs(v[r:]))
    farthest = sizes[:r].max() * radius**2 + sizes[r:] @ largest[r:] ** 2
    value = plainly(bound, terms, v) + 4.0 * c * float(sizes @ v**2) - highest
    proven = bound.proven(theta)
    assert proven == pytest.approx(value - spread - 4.0 * c * farthest, rel=1e-9)
    for step in steps_in(bound, rng, 50):
        anywhere = np.concatenate([step, rng.uniform(-1, 1, len(largest) - r) * largest[r:]])
        assert plainly(bound, terms, anywhere) - highest >= proven


def test_a_point_that_is_not_the_least_proves_less_of_a_chain(monkeypatch):
    bound, theta, _ = relaxed("two-hidden", 2)
    before, plain = bound.proven(theta), sdp_form.dpotrs

    def moved(*arguments, **options):
        v, info = plain(*arguments, **options)
        return 1.01 * v, info

    monkeypatch.setattr(sdp_form, "dpotrs", moved)
    assert bound.proven(theta) < before


@pytest.mark.parametrize("kind", ["two-hidden", "residual"])
def test_every_rounding_error_of_a_chain_is_charged(kind, monkeypatch):
    bound, theta, _ = relaxed(kind, 2)
    form, ball, terms = bound.form, bound.ball, bound.form.terms(theta)
    reach = sdp_form._largest(form)
    charged = sdp_form._rounding(form, terms, reach)
    groups = (form.inner, form.outer, form.held)
    off = np.concatenate([some.error for some in groups])
    far = np.concatenate([np.maximum(-some.lo, some.hi) for some in groups])
    h, a = reach[form.chain.step :], len(form.inner)
    slopes = 2.0 * np.abs(terms.square) * far + np.abs(terms.line)
    slopes[:a] += np.abs(terms.cross) * h
    sums = np.abs(terms.square) @ far**2 + np.abs(terms.line) @ far
    sums += np.abs(terms.cross) @ (far[:a] * h) + np.abs(terms.own) @ h**2 + np.abs(terms.tilt) @ h
    sums += 2.0 * terms.multiplier * ball.radius**2 + float(np.abs(bound.shifts[0]))
    outputs = float(np.abs(bound.rows[0]) @ ball.errors[-1])
    parts = [float(slopes @ off), sdp_form.CHARGED * ball.net.error * float(sums), outputs]
    assert min(parts) > 0
    assert charged >= sum(parts) * (1 - 1e-9)
    # Not more than the sizes of the sums would explain.
    assert charged <= 1e-8 * (1 + abs(bound.proven(theta)) + float(sums))
    # Every layer is charged for its sums, and for W x itself, which is rounded too.
    size = np.abs(ball.z) + (ball.radius + 10.0) * ball.net.lengths
    assert np.all(ball.errors[0] >= ball.net.error * size)
    before = bound.proven(theta)
    monkeypatch.setattr(sdp_form, "_rounding", lambda *_: 1.0)
    assert bound.proven(theta) == pytest.approx(before - 1.0, abs=1e-8)


# The decision.


@pytest.mark.parametrize("signs", [1.0, -1.0])
def test_two_layers_that_share_one_ball(signs):
    """F = 9 - sum relu(relu(u)) is at least 9 - 8 |u|: neuron by neuron, it could be 9 - 64 |u|."""
    eye = np.eye(64)
    net = Deep((signs * eye, eye, -np.ones((1, 64))), (np.zeros(64), np.zeros(64), np.array([9.0])))
    x, y = np.zeros((1, 64)), np.array([1])
    assert certify(net, x, y, radius=1.12, budget=Budget(nodes=1)).status == (Certificate.CERTIFIED,)
    assert certify(net, x, y, radius=1.13).status == (Certificate.FLIPPED,)


def test_halves_decide_what_one_bound_leaves_open():
    """A wide network of two layers: open at one node, certified with more, and never above a flip."""
    rng = np.random.default_rng(5)
    sizes = (6, 24, 24, 3)
    weights = [rng.normal(size=(b, a)) / math.sqrt(a) for a, b in pairwise(sizes)]
    net = Deep(tuple(weights), tuple(0.3 * rng.normal(size=b) for b in sizes[1:]))
    x = rng.normal(size=(6, 6))
    y = net(x).argmax(axis=1)
    found = certify(net, x, y, radius=0.4, budget=Budget(nodes=2000))
    assert not found.mask(Certificate.OPEN).any()
    assert found.mask(Certificate.CERTIFIED).any()
    flipped = found.mask(Certificate.FLIPPED)
    assert np.all(net(found.witness[flipped]).argmax(axis=1) != y[flipped])
    steps = rng.standard_normal((20_000, 6))
    steps *= (0.4 / np.linalg.norm(steps, axis=1))[:, None]
    for i in np.flatnonzero(found.mask(Certificate.CERTIFIED)):
        assert np.all(net(x[i] + steps).argmax(axis=1) == y[i])


def test_a_chain_is_what_several_layers_use(monkeypatch):
    asked, plain = [], SdpBound.proven
    monkeypatch.setattr(SdpBound, "proven", lambda *a: asked.append(1) or plain(*a))
    test_two_layers_that_share_one_ball(1.0)
    assert asked


@pytest.mark.parametrize("kind", ["two-hidden", "leaky-two", "residual"])
def test_joint_bounds_of_inner_neurons_hold_and_are_tighter(kind):
    rng = np.random.default_rng(3)
    net = random_network(rng, **KINDS[kind], outputs=3, dimension=4)
    search = BallSearch(net, [])
    search.radius, search.reach, search.clear, search.box = 1.0, 10.0, 1e-9, None
    z = net.start(rng.standard_normal((1, 4)))[0]
    ball, outputs = search._ball(z, 10.0), net.forward(z)
    joint = search._sharpened(ball, outputs, FREE)
    steps = rng.standard_normal((20_000, net.rows.shape[1]))
    steps /= np.linalg.norm(steps, axis=1)[:, None]
    layers = net.forward(z + steps @ net.rows.T)
    for layer, low, high in zip(layers, joint.lo, joint.hi, strict=True):
        assert np.all((low <= layer.min(axis=0)) & (layer.max(axis=0) <= high))
    tighter = [np.sum(a - b) for a, b in zip(ball.hi[1:], joint.hi[1:], strict=True)]
    assert sum(tighter) > 0.0
