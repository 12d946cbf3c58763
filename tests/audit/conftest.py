"""A small network on digits, trained once for all tests of the audit."""

import warnings

import numpy as np
import pytest

from featavg.data.image_sets.loading import load_images


def leave_out_gains(replace):
    """The gains and the budget in feature space take most of the time of a small audit."""
    from featavg.audit import run
    from featavg.audit.gain import FeatureGain
    from featavg.audit.label_budget import LabelBudget

    for name in ("predicted_gain", "measured_gain"):
        left_out = FeatureGain(None, None, None, 0.0, "left out")
        replace(run, name, lambda *given, answer=left_out, **named: answer)
    nothing = LabelBudget((), *(np.zeros((2, 1)) for _ in range(4)), 0.9, None, None, "left out")
    replace(run, "label_budget", lambda *given, **named: nothing)


@pytest.fixture
def without_gains(monkeypatch):
    pytest.importorskip("torch")
    leave_out_gains(monkeypatch.setattr)


@pytest.fixture(scope="session")
def digits():
    """Test images, their parity and their digits."""
    task = load_images("digits")
    return task.test.unit, task.targets(task.test, "coarse"), task.test.fine


@pytest.fixture(scope="session")
def coarse_net(digits):
    """Two layers of PyTorch with an output per class; whoever changes it copies it."""
    from tests.audit.nets import fitted, network

    return fitted(network(), *digits[:2])


@pytest.fixture(scope="session")
def fine_net(digits):
    """The same with an output per digit."""
    from tests.audit.nets import fitted, network

    return fitted(network(10), digits[0], digits[2])


@pytest.fixture(scope="session")
def perceptron():
    """scikit-learn's MLP on parity, 20 hidden neurons."""
    from sklearn.neural_network import MLPClassifier

    task = load_images("digits")
    x, y = task.train.unit.reshape(len(task.train), -1), task.targets(task.train, "coarse")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it stops before it has converged, which is enough
        return MLPClassifier((20,), max_iter=60, random_state=0).fit(x.astype(float), y)


@pytest.fixture(scope="session")
def weights(perceptron):
    """Its weights: first layer, biases, and two outputs instead of its one logit."""
    (w, head), (b, c) = ([np.asarray(p).T for p in perceptron.coefs_], [np.asarray(p) for p in perceptron.intercepts_])
    return w, b, np.vstack([-head / 2, head / 2]), np.append(-c / 2, c / 2)
