"""Rules of the margin network at the losses where they are equalities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from featavg.paper.margins.network import epoch, fit, support  # noqa: E402
from featavg.paper.margins.network.epoch import ImageTensors, Measured  # noqa: E402
from featavg.paper.margins.network.passes import ROUND_OFF, PassActivations  # noqa: E402
from featavg.paper.margins.network.run import MarginCNN, MarginRun, MarginSettings, SupportRule  # noqa: E402
from featavg.paper.margins.network.support import support_of  # noqa: E402

SETTINGS = MarginSettings(network=MarginCNN(size=8, channels=(1, 1), hidden=2), support=SupportRule())


def images(margins: list[float]) -> ImageTensors:
    """Images of one pixel, which is the margin that `plain_forward` gives them."""
    x = torch.tensor(margins, dtype=torch.float64).reshape(-1, 1, 1, 1)
    return ImageTensors(x, torch.zeros(len(margins), dtype=torch.int64))


def plain_forward(params, x):
    pixel = x.reshape(len(x), 1)
    outputs = torch.cat([pixel, torch.zeros_like(pixel)], dim=1)
    return PassActivations(*([outputs] * len(PassActivations._fields)))


@pytest.fixture
def _plain(monkeypatch):
    monkeypatch.setattr(epoch, "forward", plain_forward)
    monkeypatch.setattr(epoch, "outputs_of", lambda params, x: plain_forward(params, x).outputs)


@pytest.mark.usefixtures("_plain")
def test_a_loss_above_the_limit_by_a_hair_fails():
    data = images([2.0, 0.5, -1.0])
    whole = epoch.measure({}, data)
    assert whole.margins.tolist() == [2.0, 0.5, -1.0]
    truth = np.log(np.mean(np.logaddexp(0.0, [-2.0, -0.5, 1.0])))
    assert whole.log_loss == pytest.approx(truth, rel=1e-12)
    for before in (None, whole.log_losses):
        assert epoch.measure({}, data, before, truth + 1e-9) is not None
        assert epoch.measure({}, data, before, truth - 1e-9) is None


@pytest.mark.usefixtures("_plain")
def test_a_pass_that_left_all_bounds_ends(monkeypatch):
    steps = []
    monkeypatch.setattr(epoch, "descend", lambda *arguments: steps.append(1))
    data, none = images([0.0, 0.0]), np.zeros(2, dtype=bool)
    loss = math.log(math.log(2.0))
    for ratio, finished in ((599.0, True), (601.0, False)):
        options = {"log_scale": loss - math.log(ratio), "rate": 0.1, "batch": 2}
        assert epoch.descend_once({}, data, np.arange(2), none, **options) is finished
    assert len(steps) == 1


@pytest.mark.parametrize(("heavier", "light"), [(2.0e-9, 2), (2.2e-9, 1)])
def test_light_samples_are_light_together(heavier: float, light: int):
    """Of four samples, what together is at most 4e-9 of the scale; 1.9e-9 is alone in any case."""
    losses = np.log([1.0, heavier, 1.9e-9, 0.5])
    found = epoch.light_samples(losses, 0.0)
    assert np.flatnonzero(found).tolist() == ([1, 2] if light == 2 else [2])


@pytest.mark.parametrize(("share", "matter"), [(0.99, False), (1.01, True)])
def test_what_was_left_out_matters_above_round_off(share: float, matter: bool):
    losses = np.log([share * 2 * ROUND_OFF, 1.0])
    measured = Measured(losses, np.zeros(2))
    left_out = np.array([True, False])
    assert epoch.light_samples_matter(measured, left_out, 0.0) is matter


def test_the_support_is_the_fewest_that_hold_the_loss():
    losses = np.log([0.5, 1e-3, 0.4, 1e-6])
    assert support_of(losses, 1e-2, 1.0, 1).tolist() == [0, 2]
    assert support_of(losses, 1e-4, 1.0, 1).tolist() == [0, 1, 2]
    assert support_of(losses, 1e-2, 1.0, 3).tolist() == [0, 1, 2]
    assert support_of(losses, 1e-2, 2.0, 1).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("errors", "low"), [(0, True), (1, False)])
def test_a_round_must_not_raise_the_loss_once_the_data_is_fitted(monkeypatch, errors: int, low: bool):
    """A look at three samples, of which one was left out and holds the loss."""
    rule = SupportRule(least=2, spare=1.0, first_until=-9.0)
    run = MarginRun(replace(SETTINGS, support=rule), {}, -3.0, np.array([0.0, -1.0, -30.0]), rate=0.3)
    run.history.append({"errors": errors})
    monkeypatch.setattr(support.SupportSteps, "implicit", lambda self, *given: None)
    monkeypatch.setattr(support.SupportSteps, "constant", lambda self, *given: True)
    after = {-2.9: not low, -3.1: True}
    for log_loss, counts in after.items():
        losses = np.array([-50.0, -50.0, log_loss + np.log(3.0)])
        look = Measured(losses, np.zeros(3))
        monkeypatch.setattr(support, "measure", lambda params, data, look=look: look)
        result = support.play_round(run, images([0.0, 0.0, 0.0]))
        assert (result.measured is look) is counts
        assert result.left_out == 1
        assert result.outside == pytest.approx(1.0)
        assert result.watched is None if not low else result.watched.tolist() == [2]


def test_the_constant_rate_ends_at_a_loss_or_when_the_data_is_fitted():
    rule, losses = SupportRule(first_until=-2.0), np.zeros(3)
    cases = {(-1.9, 1): False, (-2.1, 1): True, (-1.9, 0): True}
    for (log10_loss, errors), low in cases.items():
        run = MarginRun(replace(SETTINGS, support=rule), {}, log10_loss * math.log(10), losses, 0.1)
        assert support.is_low(run) is False, "before any look"
        run.history.append({"errors": errors})
        assert support.is_low(run) is low


def test_implicit_steps_begin_anew_with_the_first_rate(monkeypatch):
    run = MarginRun(SETTINGS, {}, -3.0, np.log([0.5, 0.491, 0.009]), rate=0.3)
    rates = []
    monkeypatch.setattr(support.SupportSteps, "constant", lambda self, *given: True)
    monkeypatch.setattr(support.SupportSteps, "implicit", lambda self, *given: rates.append(self.rate))
    look = Measured(run.log_losses, np.zeros(3))
    monkeypatch.setattr(support, "measure", lambda params, data: look)
    for errors, step, expected in ((1, "constant", []), (0, "constant", [0.1]), (0, "implicit", [0.3])):
        run.history = [{"errors": errors, "step": step}]
        result = support.play_round(run, images([0.0, 0.0, 0.0]))
        assert sorted(set(rates)) == expected
        assert result.step == ("implicit" if expected else "constant")
        rates.clear()


def test_who_came_to_matter_is_in_the_next_support():
    run = MarginRun(SETTINGS, {}, -3.0, np.linspace(0.0, -50.0, 20), rate=0.3)
    run.history.append({"errors": 0})
    run.watched = np.array([3, 17])
    rule = SupportRule(share=0.5, spare=1.0, least=4)
    members, passes = support._members(run, rule, 20)
    assert members.tolist() == [0, 1, 2, 3, 17]
    assert passes == rule.passes
    run.attempt = 1
    assert support._members(run, rule, 20)[1] == rule.passes // 2


def test_attempts_ahead_have_smaller_rates_and_orders_of_their_own(monkeypatch):
    run = MarginRun(SETTINGS, {}, -3.0, None, rate=0.3, epoch=2, attempt=1)
    ahead = [fit.if_fail(run, failures) for failures in range(3)]
    shrink = SETTINGS.controller.shrink
    assert [each.rate for each in ahead] == pytest.approx([0.3, 0.3 / shrink, 0.3 / shrink**2])
    assert [each.attempt for each in ahead] == [1, 2, 3]
    orders = []

    def look(params, data, order, light, *, log_scale, **rest):
        orders.append(order.tolist())
        assert log_scale == -3.0
        return False

    monkeypatch.setattr(fit, "descend_once", look)
    for each in (*ahead, replace(run, epoch=3)):
        fit.attempt(each, images([0.0] * 20))
    assert len({tuple(order) for order in orders}) == 4


def test_settings_of_another_support_are_another_run():
    assert replace(SETTINGS, support=None).plain() != SETTINGS.plain()
