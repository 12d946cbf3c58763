"""The exact twin certifies the network that is audited, or nothing is certified."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import layers  # noqa: E402
from torch import nn  # noqa: E402

from featavg.audit import radii as radii_module  # noqa: E402
from featavg.audit.models import classifier  # noqa: E402
from featavg.audit.run import audit  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")


class Normalising(nn.Sequential):
    def forward(self, x):
        return super().forward((x - 0.5) / 0.25)


class Quiet(nn.Sequential):
    """A subclass that does nothing else, which its type does not say."""


def hooked(weights):
    net = nn.Sequential(*layers(weights))
    net[1].register_forward_pre_hook(lambda part, given: (2 * given[0],))
    return net


def hooked_after(weights):
    net = nn.Sequential(*layers(weights))
    net.register_forward_hook(lambda part, given, returned: returned * torch.tensor([1.0, 2.0]))
    return net


def used_twice(weights):
    parts = layers(weights)
    return nn.Sequential(*parts, parts[2])


def own_forward(weights):
    net = nn.Sequential(*layers(weights))
    whole = nn.Sequential(*net)
    net.forward = lambda x: whole(x * x)
    return net


OTHERS = {
    "own forward": lambda weights: Normalising(*layers(weights)),
    "inside another": lambda weights: nn.Sequential(Normalising(*layers(weights)[:2]), *layers(weights)[2:]),
    "subclass": lambda weights: Quiet(*layers(weights)),
    "hook before": hooked,
    "hook after": hooked_after,
    "layer twice": used_twice,
    "forward of the instance": own_forward,
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_function_than_its_layers_has_no_exact_twin(kind, weights, digits):
    x, coarse, fine = digits
    model = OTHERS[kind](weights)
    assert classifier(model, x).exact is None
    if kind == "own forward":
        result = audit(model, x, coarse, fine, images=300, radii=8, gradients=20)
        assert result.radii.certified is None


@pytest.mark.parametrize("nested", [False, True])
def test_a_plain_sequential_keeps_its_exact_twin(nested, weights, digits):
    parts = layers(weights)
    model = nn.Sequential(nn.Sequential(*parts[:2]), *parts[2:]) if nested else nn.Sequential(*parts)
    subject = classifier(model, digits[0])
    assert subject.exact is not None


def test_outputs_are_compared_on_the_audited_images(weights, digits, monkeypatch):
    """A change that no type and no hook shows, on images after the first few."""
    x = digits[0]
    model = nn.Sequential(*layers(weights))
    real = nn.functional.relu

    def other(given, inplace=False):
        return real(given) + (1e-3 if len(given) > 4 else 0.0)

    monkeypatch.setattr(nn.functional, "relu", other)
    assert classifier(model, x).exact is None


def test_a_flip_below_a_certified_radius_leaves_nothing_certified(perceptron, digits, monkeypatch):
    x, coarse, fine = digits
    flat = x.reshape(len(x), -1)
    asked = {"images": 300, "radii": 8, "gradients": 20}
    honest = audit(copy.deepcopy(perceptron), flat, coarse, fine, **asked)
    assert honest.radii.refuted == 0
    assert "; certified" in dict(honest.rows())["median radius"]
    real = radii_module.exact_radii

    class Doubled:
        def __init__(self, *given, **named):
            self.certified = 2.0 * real(*given, **named).certified

    monkeypatch.setattr(radii_module, "exact_radii", Doubled)
    result = audit(perceptron, flat, coarse, fine, **asked)
    assert result.radii.refuted > 0
    assert result.radii.certified is None
    assert result.to_json()["radii"]["refuted"] == result.radii.refuted
    assert "not certified" in dict(result.rows())["median radius"]


def test_certified_is_what_the_twin_certifies(perceptron, digits, monkeypatch):
    x, coarse, fine = digits
    flat = x.reshape(len(x), -1)
    real, seen = radii_module.exact_radii, []

    def noted(*given, **named):
        seen.append(real(*given, **named))
        return seen[-1]

    monkeypatch.setattr(radii_module, "exact_radii", noted)
    result = audit(perceptron, flat, coarse, fine, images=300, radii=8, gradients=20)
    assert np.array_equal(result.radii.certified, seen[0].certified)
