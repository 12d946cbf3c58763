"""One door: every network, norm and kind of points through `radii` and `certify`."""

import numpy as np
import pytest
from tests.robustness.deep_twin import as_deep

from featavg.data.clusters import MultiCluster
from featavg.errors import InputError
from featavg.nets.deep import Deep
from featavg.nets.readouts.soft import Probability
from featavg.nets.two_layer import TwoLayer, binary, grouped
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.radii import radii
from featavg.training.train import train

RNG = np.random.default_rng
TASK = MultiCluster(k=4, d=30)
TEST = TASK.sample(12, seed=1)


@pytest.mark.parametrize("readout", [None, "max", "sum", "argmax"])
def test_a_sample_brings_labels_and_classes_for_every_network(readout):
    net = grouped(TASK.features_in(TASK.d), TASK.k)
    found = radii(net, TEST, readout=readout)
    deep = radii(as_deep(net), TEST, readout=readout)
    y, positive = TEST.y, TASK.positive_clusters
    if readout == "argmax":
        y, positive = TEST.clusters, None
    given = radii(net, TEST.coordinates(net.dimension), y, readout=readout, positive=positive)
    np.testing.assert_array_equal(found.certified, given.certified)
    assert np.all(deep.certified <= found.attack * (1 + 1e-6))
    assert np.all(found.certified <= deep.attack * (1 + 1e-6))


def test_the_largest_output_of_two_layers_is_that_of_deep_ones():
    rng = RNG(0)
    net = TwoLayer(rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=(3, 5)))
    x = rng.normal(size=(8, 4))
    y = net(x).argmax(axis=1)
    fast, deep = (radii(one, x, y, readout="argmax") for one in (net, as_deep(net)))
    np.testing.assert_allclose(fast.attack, deep.attack, rtol=1e-6)
    outputs = net(fast.witness)
    assert np.all(outputs[np.arange(8), y] <= outputs.max(axis=1))
    linf = radii(net, x, y, norm="linf", readout="argmax")
    assert np.all(linf.attack <= fast.attack * (1 + 1e-6))
    assert np.all(linf.attack >= fast.certified / 2.0 * (1 - 1e-6))  # |u|_2 <= 2 |u|_inf in R^4


@pytest.mark.parametrize("sides", [None, 0.1, 0.0])
def test_certificates_in_linf_say_what_radii_say(sides):
    rng = RNG(1)
    net, x = binary(rng.normal(size=(6, 5))), rng.normal(size=(10, 5))
    y = np.where(net(x)[:, 0] > 0, 1, -1)
    bounds = None if sides is None else (x.min(axis=0) - sides, x.max(axis=0) + sides)
    exact = radii(net, x, y, norm="linf", bounds=bounds).attack
    assert sides is None or np.any(exact != radii(net, x, y, norm="linf").attack)
    for radius in (share * one for share in (0.99, 1.01) for one in exact[:6:2] if np.isfinite(one)):
        found = certify(net, x, y, radius=radius, norm="linf", bounds=bounds)
        expected = np.where(exact <= radius, Certificate.FLIPPED, Certificate.CERTIFIED)
        assert list(found.status) == expected.tolist()
        hit = found.mask(Certificate.FLIPPED)
        assert np.all(np.abs(found.witness - x).max(axis=1)[hit] <= radius)
        assert np.all(y[hit] * net(found.witness[hit])[:, 0] <= 0)
        assert bounds is None or np.all((found.witness[hit] >= bounds[0]) & (found.witness[hit] <= bounds[1]))
    assert "linf radius" in repr(found)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_several_processes_give_the_same_bits(norm):
    rng = RNG(2)
    net = TwoLayer(rng.normal(size=(5, 4)), rng.normal(size=5), rng.normal(size=(1, 5)))
    net = as_deep(net) if norm == "l2" else net
    x, y = rng.normal(size=(6, 4)), rng.choice([-1, 1], 6)
    alone, together = (radii(net, x, y, norm=norm, jobs=jobs) for jobs in (1, 2))
    for name in ("certified", "attack", "witness", "outcome"):
        np.testing.assert_array_equal(getattr(alone, name), getattr(together, name))


class Warm(Probability):
    """A curved score that names no module."""

    name = "warm"
    exact = None


DEEP = Deep((np.eye(2), np.eye(2), np.eye(2)))
X, Y = np.array([[3.0, 1.0]]), np.array([1])
REFUSED = {
    "deep in l_inf": ({"net": DEEP, "norm": "linf"}, "net", 'use norm="l2"'),
    "an unknown norm": ({"net": DEEP, "norm": "l1"}, "norm", "choose one of l2, linf"),
    "a curve without bounds": ({"net": DEEP, "readout": Warm(), "positive": [0]}, "readout", "use attack_suite"),
    "probability in l_inf": ({"net": grouped(np.eye(2), 2), "norm": "linf", "positive": [0]}, "readout", "max, sum"),
    "no classes": ({"net": grouped(np.eye(2), 2)}, "positive", 'use readout="argmax"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_is_refused_with_a_remedy(case):
    change, argument, remedy = REFUSED[case]
    for call in (radii, lambda *a, **named: certify(*a, radius=1.0, **named)):
        with pytest.raises(InputError) as refused:
            call(points=X, y=Y, **change)
        assert refused.value.argument == argument
        assert remedy in str(refused.value)


def test_the_result_of_training_is_a_network():
    run = train(TASK, labels="fine", n=30, steps=5)
    np.testing.assert_array_equal(radii(run, TEST).certified, radii(run.net, TEST).certified)
