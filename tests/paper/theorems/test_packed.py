"""Packed triangles against the matrices they stand for, and the runs on them against the usual ones."""

import numpy as np
import pytest

from featavg.data.clusters import MultiCluster
from featavg.data.compress import draw
from featavg.errors import InputError
from featavg.paper.theorems import scale
from featavg.paper.theorems.recorders import projected_coefficients
from featavg.paper.theorems.scale import (
    PackedObjective,
    PackedSet,
    PackedTriangle,
    difference,
    draw_packed,
    packed_bytes,
    packed_coefficients,
    scale_run,
    theorem_scale,
)
from featavg.training.losses import Logistic
from featavg.training.objectives import TwoLayerObjective
from featavg.training.recipe import Recipe
from featavg.training.train import train

TASK = MultiCluster(k=4, d=5000)


def matrix(x):
    """The whole matrix of a packed triangle."""
    rows = np.zeros(x.shape)
    start = 0
    for block in x.blocks:
        rows[start : start + len(block), : block.shape[1]] = block
        start += len(block)
    return rows


def packed_triangle(x, before, rows):
    """A matrix without its entries above the triangle."""
    pieces = [(start, min(start + rows, len(x))) for start in range(0, len(x), rows)]
    return PackedTriangle(tuple(x[a:b, : before + b].copy() for a, b in pieces), before)


@pytest.fixture
def data(monkeypatch):
    monkeypatch.setattr(scale, "ROWS", 32)
    return draw_packed(TASK, 100, 6, 0, "float64")


def test_products_are_those_of_the_matrix(data):
    x, rng = matrix(data.x), np.random.default_rng(0)
    w, s = rng.standard_normal((3, x.shape[1])), rng.standard_normal((100, 3)) * 1e-30
    assert np.allclose(data.x.times(w), x @ w.T)
    assert np.allclose(data.x.gathered(s), s.T @ x, rtol=1e-10, atol=0)
    c = rng.standard_normal((3, 100))
    assert np.allclose(data.x.coefficients(c @ x), c)
    assert np.array_equal(data.x.first(4), x[:, :4])
    assert np.array_equal(matrix(packed_triangle(x, data.x.before, 17)), x)


def test_single_precision_is_close_and_half_as_large(data):
    small = data.x.astype("float32")
    w = np.random.default_rng(0).standard_normal((3, data.x.shape[1])) * 1e-20
    assert small.nbytes * 2 == data.x.nbytes
    assert np.allclose(small.times(w), data.x.times(w), rtol=1e-4, atol=1e-24)


def test_inner_products_have_the_law_of_the_compressed_draw():
    """Mean and spread of squared lengths and of products, over draws, against theory."""
    sigma, n, d = 1.0, 40, 500
    task = MultiCluster(k=4, d=d)
    grams = []
    for seed in range(60):
        data = draw_packed(task, n, 6, seed, "float64")
        noise = matrix(data.x) - task.features_in(data.x.shape[1])[data.clusters]
        grams.append(noise @ noise.T)
    grams = np.stack(grams)
    squares = grams[:, np.arange(n), np.arange(n)]
    products = grams[:, np.triu_indices(n, 1)[0], np.triu_indices(n, 1)[1]]
    assert squares.mean() == pytest.approx(sigma**2 * d, rel=0.01)
    assert squares.std() == pytest.approx(np.sqrt(2 * d), rel=0.1)
    assert abs(products.mean()) < 0.02 * np.sqrt(d)
    assert products.std() == pytest.approx(np.sqrt(d), rel=0.02)


def test_training_and_coefficients_are_those_of_the_matrix():
    drawn = draw(TASK, 100, 6, 0)
    x = packed_triangle(drawn.x, TASK.k + 6, 32)
    recipe = Recipe(m=3, lr=1e-3, steps=30)
    usual = train(drawn, recipe)
    whole = TwoLayerObjective(drawn.x, drawn.y, usual.initial, Logistic())
    part = PackedObjective(x, drawn.y, usual.initial, Logistic())
    params = (usual.net.weights, usual.net.biases)
    assert np.allclose(whole.evaluate(params).log_loss, part.evaluate(params).log_loss)
    for a, b in zip(whole.evaluate(params).gradient, part.evaluate(params).gradient, strict=True):
        assert np.allclose(a, b, atol=1e-12)
    data = PackedSet(TASK, 0, x, drawn.clusters, drawn.unit_weights)
    lambdas, _ = projected_coefficients(usual.net.weights, usual.initial.weights, drawn)
    assert np.allclose(packed_coefficients(usual.net, usual.initial, data), lambdas)


def test_a_run_in_both_precisions():
    runs, twin, tight = theorem_scale((2, 3))
    assert (twin.k, twin.precision) == (2, "float64")
    assert difference(runs[0], twin) < 1e-4
    assert (tight.k, tight.precision, tight.tolerance) == (2, "float32", 1e-5)
    assert 1e-4 < difference(runs[0], tight) < 0.05
    assert runs[-1].deviation < runs[0].deviation
    assert runs[-1].errors == 0


def test_what_is_wrong_is_refused(data, monkeypatch):
    net = train(draw(TASK, 100, 6, 0), Recipe(m=3, steps=0)).net
    with pytest.raises(InputError, match="targets"):
        PackedObjective(data.x, data.y[:5], net, Logistic())
    short = net.with_arrays({"weights": net.weights[:, :50]})
    with pytest.raises(InputError, match="net"):
        PackedObjective(data.x, data.y, short, Logistic())
    monkeypatch.setattr("featavg.machine.available_bytes", lambda: 10**6)
    with pytest.raises(InputError, match="of memory"):
        draw_packed(MultiCluster(k=5, d=5**10), 5**7, 10, 0)
    assert 12e9 < packed_bytes(MultiCluster(k=5, d=5**10), 5**7, 10) < 13e9


def test_the_bytes_said_beforehand_cover_the_triangle(data):
    assert data.x.nbytes <= packed_bytes(TASK, 100, 6, "float64")
    assert scale_run(data, 1, tests=10).expected_bytes == 1
