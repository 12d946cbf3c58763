"""Modules that do what modules seldom do: sparse outputs, changed inputs, late failures, odd errors."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.audit.nets import QUICK, network  # noqa: E402
from torch import nn  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit.models import load_model  # noqa: E402
from featavg.audit.result import audit_page, pictures_of  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")


class ShiftsAlone(nn.Module):
    """Writes into its input without any function that the spy knows, so that hooks watch it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Conv2d(1, 2, 8)

    def forward(self, x):
        return self.last(x.sub_(0.5)).flatten(1)


class Clears(nn.Module):
    """Overwrites what the backward pass needs."""

    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x):
        logits = self.net(x)
        x.zero_()
        return logits


class Later(nn.Module):
    def __init__(self, error):
        super().__init__()
        self.net, self.error = network(), error

    def forward(self, x):
        if len(x) > 40:
            raise self.error
        return self.net(x)


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


def margins(model, digits):
    x, coarse, _ = digits
    wrapped = fa.torch_model(model, positive=[False, True]).shaped(x)
    rows = wrapped.rows(x[:60])
    label = wrapped.decision.labels(2 * coarse[:60] - 1)
    return wrapped.descend(rows, label)


def test_an_input_that_is_written_into_is_watched_by_hooks_too(digits):
    x, coarse, fine = digits
    before = x.copy()
    assert fa.audit(ShiftsAlone(), x, coarse, fine, **QUICK).accuracy.n == 300
    assert np.array_equal(x, before)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Later(ValueError("later")), "(ValueError: later)"),
        (Later(SystemExit(3)), "(SystemExit: 3)"),
        (Later(MuteError()), "(MuteError: its message cannot be printed)"),
        (Clears(), "RuntimeError: one of the variables needed for gradient"),
    ],
)
def test_a_model_that_stops_is_one_sentence(model, words, digits):
    x, coarse, fine = digits
    calls = (
        lambda: fa.audit(model, x, coarse, fine, **QUICK),
        lambda: fa.rehead(model, x, coarse, fine),
        lambda: margins(model, digits),
    )
    for number, call in enumerate(calls):
        if isinstance(model, Clears) and number == 1:
            continue  # nothing goes backwards there
        with pytest.raises(fa.InputError) as error:
            call()
        assert words in str(error.value)
        assert "images of shape (1, 8, 8)" in str(error.value)


def test_interrupts_and_lack_of_memory_are_not_the_models_fault(digits):
    with pytest.raises(KeyboardInterrupt):
        fa.audit(Later(KeyboardInterrupt()), *digits, **QUICK)
    with pytest.raises(fa.InputError, match="audit needs more memory than there is"):
        fa.audit(Later(MemoryError()), *digits, **QUICK)


MODULE = """
class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no words")
def net():
    raise MuteError()
"""


def test_a_factory_whose_error_cannot_be_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mute.py").write_text(MODULE)
    (tmp_path / "mute_import.py").write_text(MODULE + "net()\n")
    for source, words in (
        ("mute:net", "mute:net stopped (MuteError: its message cannot be printed)"),
        ("mute_import:net", "mute_import stopped while it was imported (MuteError: its message"),
    ):
        with pytest.raises(fa.InputError) as error:
            load_model(source)
        assert words in str(error.value)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_one_pixel(channels, digits):
    x, coarse, fine = digits
    pixel = x[:, :, 3, 3 : 3 + channels].reshape(-1, channels, 1, 1)
    net = nn.Sequential(nn.Flatten(), nn.Linear(channels, 5), nn.ReLU(), nn.Linear(5, 2))
    for labels in (fine, None):
        found = fa.audit(net, pixel, coarse, labels, **QUICK)
        assert "What was found" in audit_page(found, [], pictures_of(found, pixel))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_training_again_is_in_float32(dtype):
    task = fa.load_images("digits")
    model = network().to(dtype)
    again = fa.retrain(model, task, recipe=fa.ImageRecipe(epochs=1, batch=64, crop=0))
    assert again(torch.zeros(2, 1, 8, 8)).dtype is torch.float32
    assert {p.dtype for p in model.parameters()} == {dtype}


class Casts(nn.Sequential):
    def forward(self, x):
        return super().forward(x.bfloat16())


def test_a_model_that_casts_by_itself_is_one_sentence():
    with pytest.raises(fa.InputError, match="model stopped on 2 images of shape"):
        fa.retrain(Casts(*network()).bfloat16(), fa.load_images("digits"))


def test_more_clusters_than_images_are_refused():
    with pytest.raises(fa.InputError, match=r"clusters is 1000000 for \d+ images of a class"):
        fa.discover_labels(network(), fa.load_images("digits"), clusters=10**6)
