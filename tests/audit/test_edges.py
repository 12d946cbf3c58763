"""Edges of the audit: kept parts, folders in use, wrong labels, few images, weights that stay trained."""

import copy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import QUICK, Attention, network  # noqa: E402
from torch import nn  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit.gradients import LayerGradient, layers_figure  # noqa: E402
from featavg.measures.shared_gradient import SharedGradient  # noqa: E402
from featavg.storage.folders import locked  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")


def test_another_network_with_tiny_outputs_gets_its_own_numbers(coarse_net, digits, tmp_path):
    x, coarse, fine = digits
    one, other = copy.deepcopy(coarse_net), copy.deepcopy(coarse_net)
    with torch.no_grad():
        for net, scale in ((one, [1e-6, 1e-6]), (other, [1e-6, 1.5e-6])):
            net[-1].weight.mul_(torch.tensor(scale)[:, None])
            net[-1].bias.mul_(torch.tensor(scale))
    asked = QUICK | {"folder": tmp_path}
    first = fa.audit(one, x, coarse, fine, **asked)
    second = fa.audit(other, x, coarse, fine, **asked)
    alone = fa.audit(other, x, coarse, fine, **QUICK)
    assert not np.array_equal(first.radii.attack, second.radii.attack)
    assert np.array_equal(second.radii.attack, alone.radii.attack)


class Scaled(nn.Module):
    """The same weights, another function."""

    def __init__(self, net, scale):
        super().__init__()
        self.net, self.scale = net, scale

    def forward(self, x):
        return self.net(x) * torch.tensor(self.scale)


def test_another_function_of_the_same_weights_gets_its_own_numbers(coarse_net, digits, tmp_path):
    asked = QUICK | {"folder": tmp_path}
    scales = [1e-6, 1e-6], [1e-6, 1.5e-6]
    one, other = (fa.audit(Scaled(coarse_net, scale), *digits, **asked) for scale in scales)
    assert not np.array_equal(one.radii.attack, other.radii.attack)


def test_weights_that_these_images_do_not_reach_are_part_of_the_key(coarse_net, digits, tmp_path):
    """The same outputs on the images, other radii around them."""
    x, coarse, fine = digits
    wider = nn.Sequential(*copy.deepcopy(coarse_net)[:1], nn.Linear(64, 13), nn.ReLU(), nn.Linear(13, 2))
    with torch.no_grad():
        wider[1].weight.copy_(torch.cat([coarse_net[1].weight, torch.full((1, 64), 0.1)]))
        wider[1].bias.copy_(torch.cat([coarse_net[1].bias, torch.tensor([-7.0])]))
        wider[3].weight.copy_(torch.cat([coarse_net[3].weight, torch.zeros(2, 1)], dim=1))
        wider[3].bias.copy_(coarse_net[3].bias)
    other = copy.deepcopy(wider)
    with torch.no_grad():
        other[3].weight[0, -1] = 1e3  # fires on images brighter than any of these
    asked = QUICK | {"folder": tmp_path}
    for net in (wider, other):
        fa.audit(net, x, coarse, fine, **asked)
    assert len(list(tmp_path.glob("radii-*.json"))) == 2


def test_a_folder_in_use_is_refused(coarse_net, digits, tmp_path):
    x, coarse, fine = digits
    folder = tmp_path / "parts"
    with locked(folder), pytest.raises(fa.InputError, match="in use by another run of featavg"):
        fa.audit(coarse_net, x, coarse, fine, folder=folder, **QUICK)
    assert fa.audit(coarse_net, x, coarse, fine, folder=folder, **QUICK).accuracy.n == 300
    assert not list(tmp_path.glob(".*lock"))


def test_mislabelled_images_are_counted(coarse_net, digits):
    x, coarse, fine = digits
    wrong = coarse.copy()
    wrong[[5, 17]] = 1 - wrong[[5, 17]]
    with pytest.raises(fa.InputError) as error:
        fa.audit(coarse_net, x, wrong, fine, **QUICK)
    assert "2 of 539 images have another class than most of their sub-class (images 5, 17)" in str(error.value)


class Token(nn.Module):
    """A trained value that belongs to no layer."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.full((64,), 3.0))
        self.last = nn.Linear(64, 2)

    def forward(self, x):
        return self.last(x.flatten(1) + self.token)


class Redrawn(Token):
    def reset_parameters(self):
        nn.init.zeros_(self.token)


def test_no_weight_stays_trained():
    task = fa.load_images("digits")
    recipe = fa.ImageRecipe(epochs=1, batch=64, rate=1e-9, crop=0)
    with pytest.raises(fa.InputError) as error:
        fa.retrain(Token(), task, recipe=recipe)
    assert str(error.value) == (
        "model has weights that no layer draws anew (token): give the module that has them a reset_parameters()."
    )
    model = Redrawn()
    again = fa.retrain(model, task, recipe=recipe)
    assert again.net.module.token.abs().max().item() < 0.1
    assert model.token.min().item() == 3.0
    attention = Attention()
    with torch.no_grad():
        attention.block.self_attn.in_proj_weight.fill_(7.0)
    fresh = fa.retrain(attention, task, recipe=recipe)
    assert fresh.net.module.block.self_attn.in_proj_weight.abs().max().item() < 2.0


def test_a_caption_names_a_layer_of_this_network():
    shared = SharedGradient(0.5, 0.4, 0.6, 1.0, 1.0, 1.0, np.eye(2), np.array([9, 9]), 0.0)
    layers = [LayerGradient(name, shared) for name in ("input", "activation 11 of 43")]
    assert "; 11/43 is activation 11 of 43." in layers_figure(layers).caption
    assert "5/19" not in layers_figure(layers).caption
    assert "/" not in layers_figure(layers[:1]).caption


# Few images.


def some(digits, per_digit):
    x, coarse, fine = digits
    rows = np.concatenate([np.flatnonzero(fine == j)[:per_digit] for j in range(10)])
    return x[rows], coarse[rows], fine[rows]


def test_two_hundred_images_of_ten_classes_are_audited(digits, tmp_path):
    x, _, fine = some(digits, 20)
    result = fa.audit(network(10), x, fine, radii=4, gradients=5)
    assert result.verdict.value == "cannot tell"
    assert len(result.by_class) == 10
    assert result.names[3] == "class 3"
    assert result.radii.median >= 0.0
    assert "class 3" in fa.write_audit(result, tmp_path).read_text()
    with pytest.raises(fa.InputError, match="coarse has 20 images of a class"):
        fa.audit(network(10), x, fine, clusters=2, radii=4, gradients=5)


def test_the_reason_is_the_number_of_images(coarse_net, digits):
    x, coarse, fine = some(digits, 3)
    found = fa.audit(coarse_net, x, coarse, fine, radii=4, gradients=5)
    assert found.judgement.reason == ("No class has two sub-classes of 5 images: give more images of each.")
    x, coarse, _ = some(digits, 6)
    found = fa.audit(coarse_net, x, coarse, radii=4, gradients=5)
    assert found.judgement.reason == (
        "There are 30 images of a class, too few to find sub-classes in it: give 40 of each, or fine labels."
    )
    assert found.accuracy.high - found.accuracy.low > 0.1


def test_fewer_images_give_wider_intervals_and_the_same_verdict(coarse_net, digits):
    widths = []
    for count in (50, 20, 8):
        x, coarse, fine = some(digits, count)
        found = fa.audit(coarse_net, x, coarse, fine, radii=4, gradients=5)
        assert found.verdict.value in ("averages", "cannot tell")
        shared = found.layers[0].shared
        widths.append(shared.high - shared.low)
    assert widths == sorted(widths)


def test_a_small_subclass_is_left_out_of_the_shared_gradient(coarse_net, digits):
    x, coarse, fine = digits
    rows = np.concatenate([np.flatnonzero(fine != 4), np.flatnonzero(fine == 4)[:3]])
    found = fa.audit(coarse_net, x[rows], coarse[rows], fine[rows], radii=4, gradients=5)
    assert found.layers[0].shared.counts[4] == 0
    assert found.by_subclass[4].n == 3
    assert found.verdict.value == "averages"


def test_the_page_on_reading_an_audit_explains_every_line(coarse_net, digits):
    page = (Path(__file__).parents[2] / "docs/howto/read-an-audit.md").read_text()
    table = page[page.index("## Every line") :]
    given = fa.audit(coarse_net, *digits, **QUICK)
    found = fa.audit(coarse_net, *digits[:2], clusters=3, **QUICK)
    for name, _ in (*given.rows(), *given.rows(details=True), *found.rows()):
        assert (name in table) or name.startswith("collapse (NC"), name
