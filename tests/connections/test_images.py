"""Power ReLUs on images, and a digit above a vehicle: the pieces, against plain formulas."""

import numpy as np
import pytest
import xarray as xr

from featavg.data.image_sets.loading import load
from featavg.data.images import Images
from featavg.errors import InputError
from featavg.paper.connections import min_vidal_mnist, mnist_cifar
from featavg.paper.connections.min_vidal_descent import _gradient, _plain, power_relu_descent
from featavg.paper.connections.min_vidal_mnist import Recipe, power_relu_images, power_relu_net, robust
from featavg.paper.connections.power_relu import PowerReLU, Shallow


@pytest.mark.parametrize("p", [1.0, 3.0, 4.0])
def test_the_torch_network_is_its_formula(p):
    """relu(<w, x>)^p / (|w| |x|)^(p-1) of centred images, and of degree one in the image."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = power_relu_net(torch.full((1, 2, 3), 0.25), 3, 5, p).double()
    x = torch.rand(4, 1, 2, 3, dtype=torch.float64)
    moved, w = x.flatten(1).numpy() - 0.25, net.weights.detach().numpy()
    sizes = np.outer(np.linalg.norm(moved, axis=1), np.linalg.norm(w, axis=1))
    hidden = np.maximum(moved @ w.T, 0) ** p / sizes ** (p - 1)
    head, offset = net.linear.weight.detach().numpy(), net.linear.bias.detach().numpy()
    np.testing.assert_allclose(net(x).detach().numpy(), hidden @ head.T + offset, rtol=1e-9)
    twice = net(0.25 + 2 * (x - 0.25)).detach().numpy() - offset
    np.testing.assert_allclose(twice, 2 * (net(x).detach().numpy() - offset), rtol=1e-9)


def test_an_image_that_is_the_mean_has_finite_slopes():
    torch = pytest.importorskip("torch")
    net = power_relu_net(torch.zeros(6), 3, 5, 4.0)
    x = torch.zeros(1, 1, 2, 3, requires_grad=True)
    net(x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_robust_accuracy_counts_radii_beyond():
    radii = np.array([[[0.0, 0.5, 1.5, 3.0]]])
    table = xr.Dataset({"l2": (("p", "seed", "image"), radii)})
    assert robust(table, "l2", 1.0).item() == 50.0
    assert robust(table, "l2", 0.0).item() == 75.0


def test_a_kept_cell_is_not_computed_again(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    short = Recipe(width=6, epochs=1, points=4, budget=15)
    arguments = load("digits", None), short, (0,), (3.0,), tmp_path
    first = power_relu_images(*arguments)
    monkeypatch.setattr(min_vidal_mnist, "_cell", lambda *_: 1 / 0)
    xr.testing.assert_identical(first, power_relu_images(*arguments))
    with pytest.raises(InputError, match="epochs"):
        Recipe(epochs=0)


def test_gradients_of_both_kinds_of_power_neurons():
    """Against differences; and a neuron that is not normalised is a normalised one with another head."""
    random = np.random.default_rng(0)
    x, y = random.normal(size=(9, 5)), np.sign(random.normal(size=9))
    w, v = random.normal(size=(4, 5)), random.normal(size=4)
    for gradient in (_gradient, _plain):
        by_weights, by_head, loss = gradient(x, y, w, v, 3.0)
        step = 1e-6 * random.normal(size=w.shape), 1e-6 * random.normal(size=v.shape)
        ahead = gradient(x, y, w + step[0], v + step[1], 3.0)[2]
        behind = gradient(x, y, w - step[0], v - step[1], 3.0)[2]
        slope = 2 * (np.sum(by_weights * step[0]) + by_head @ step[1])
        assert ahead - behind == pytest.approx(slope, rel=1e-5)
    net = Shallow(w, v * np.linalg.norm(w, axis=1) ** 2, PowerReLU(3.0))
    loss = _plain(x, y, w, v, 3.0)[2]
    assert np.mean((net(x) - y) ** 2) == pytest.approx(loss)


def test_training_ends_when_the_error_is_small_enough():
    sizes = {"n": 60, "d": 40, "k": 4, "positive": 2, "width": 20, "scale": 0.3, "iterations": 2000}
    run = power_relu_descent(3.0, until=0.2, normalised=False, **sizes)
    assert run.loss[-1] <= 0.2 < run.loss[-2]
    assert run.iterations[-1] < 2000
    with pytest.raises(InputError, match="start"):
        power_relu_descent(3.0, "tiny")


def pictures(shape, classes, count=6):
    """Images whose pixels are their class, a hundredth of it for each."""
    fine = np.repeat(classes, count)
    return Images((np.ones((len(fine), *shape)) * fine[:, None, None, None] / 100), fine)


def test_a_digit_stands_above_a_vehicle_of_its_class():
    digits, vehicles = pictures((1, 28, 28), [0, 1]), pictures((3, 32, 32), [1, 9])
    x, y = mnist_cifar.paired(digits, vehicles, seed=0)
    rows = x.reshape(-1, *mnist_cifar.SHAPE)
    np.testing.assert_allclose(rows[y > 0, :, 2:30, 2:30], 0.01)
    np.testing.assert_allclose(rows[y > 0, :, 32:], 0.09)
    np.testing.assert_allclose(rows[y < 0, :, :32], 0.0)
    np.testing.assert_allclose(rows[y < 0, :, 32:], 0.01)
    upper, lower = mnist_cifar.halves()
    assert sorted(upper + lower) == list(range(x.shape[1]))
    assert rows.reshape(len(y), -1)[y > 0][0, lower].min() == pytest.approx(0.09)
    kept = np.delete(np.arange(x.shape[1]), mnist_cifar._repeated())
    assert len(kept) == 28 * 28 + 3 * 32 * 32


@pytest.mark.parametrize("network", mnist_cifar.BATCH)
def test_a_network_that_can_only_see_digits_relies_on_them(network, monkeypatch):
    """Vehicles of noise: shuffling them changes nothing, shuffling digits leaves a coin."""
    pytest.importorskip("torch")

    class Task:
        def __init__(self, images):
            self.train = self.test = images

    class Noise:
        """Other noise for training and for testing: what was learned by heart is of no use."""

        def __init__(self, images, random):
            self.train, self.test = (Images(random.random(images.pixels.shape), images.fine) for _ in range(2))

    digits, vehicles = pictures((1, 28, 28), [0, 1], 64), pictures((3, 32, 32), [1, 9], 64)
    bright = Task(Images(digits.pixels * 50, digits.fine))
    grey = Noise(vehicles, np.random.default_rng(0))
    monkeypatch.setattr(mnist_cifar, "load", lambda name, _: bright if name == "mnist" else grey)
    table = mnist_cifar.paired_pictures(network, None, 12, (0,))
    as_it_is, no_digits, no_vehicles = table["auc"].values[0]
    assert as_it_is > 0.95
    assert no_vehicles > 0.9
    assert no_digits < 0.7
