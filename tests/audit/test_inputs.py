"""Images as people have them: data sets, loaders, tables, pictures, words; and how a model takes them."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402
from tests.audit.nets import network  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

import featavg as fa  # noqa: E402
from featavg.audit import torch_classifier as taken  # noqa: E402
from featavg.audit.inputs import gathered, normalisation_of, size_of  # noqa: E402
from featavg.audit.models import named_input  # noqa: E402
from featavg.errors import InputError  # noqa: E402

torch.set_num_threads(1)
pytestmark = pytest.mark.usefixtures("without_gains")
QUICK = {"radii": 4, "gradients": 5}
PARITY = {digit: "odd" if digit % 2 else "even" for digit in range(10)}
WORDS = np.array(["nil", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])


class Pictures(Dataset):
    """Grey pictures and their digits, as a folder of files gives them; counts what is read."""

    def __init__(self, x, labels, targets=False):
        self.x, self.labels, self.read = x, labels, 0
        if targets:
            self.targets = labels.tolist()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        self.read += 1
        return Image.fromarray((255 * self.x[i, 0]).astype(np.uint8)), int(self.labels[i])


def tables(batches):
    return [{"pixel_values": images, "labels": labels, "fine": fine} for images, labels, fine in batches]


@pytest.mark.parametrize("kind", ["loader", "tables", "generator", "TensorDataset"])
def test_batches_and_data_sets_give_the_numbers_of_arrays(kind, coarse_net, digits):
    """All images are kept in every case, so nothing may differ but their order."""
    x, coarse, fine = digits
    tensors = TensorDataset(*(torch.from_numpy(np.asarray(a)) for a in (x, coarse, fine)))
    batches = DataLoader(tensors, batch_size=64)
    given = {
        "loader": batches,
        "tables": tables(batches),
        "generator": (batch for batch in batches),
        "TensorDataset": tensors,
    }[kind]
    expected = fa.audit(coarse_net, x, coarse, fine, images=2000, **QUICK)
    found = fa.audit(coarse_net, given, images=2000, **QUICK)
    assert found.accuracy == expected.accuracy
    assert found.shared_gradient == pytest.approx(expected.shared_gradient, abs=0.02)
    assert found.verdict is expected.verdict


def test_a_stream_is_sampled_evenly_and_in_bounded_memory():
    labels = np.sort(np.arange(5000) % 10 + (np.arange(5000) > 4900))  # sorted by class
    stream = ((np.full((50, 1, 2, 2), i / 100, np.float32), labels[50 * i : 50 * i + 50]) for i in range(100))
    x, kept, fine = gathered(stream, None, None, 100)
    assert fine is None
    assert 100 <= len(x) <= 110
    counts = np.bincount(kept)
    assert counts[:10].min() >= 9
    means = [x[np.asarray(kept) == j].mean() for j in range(10)]
    assert np.all(np.diff(means) > 0.05)  # images stay with their labels


def test_of_a_large_data_set_only_what_is_needed_is_read(digits):
    x, _, fine = digits
    for targets, most in ((True, 60), (False, 240)):
        pictures = Pictures(x, fine, targets)
        images, kept, _ = gathered(pictures, None, None, 60)
        assert pictures.read <= most
        assert 50 <= len(images) <= 70
        assert np.bincount(kept, minlength=10).min() >= 4
        assert images.dtype == np.uint8


def test_a_table_of_classes_divides_a_data_set_of_pictures(coarse_net, digits):
    x, _, fine = digits
    found = fa.audit(coarse_net, Pictures(x, fine), coarse=PARITY, images=300, **QUICK)
    assert found.about["class names"] == "even, odd"
    assert found.accuracy.value > 0.8
    assert len(found.names) == 10


def test_words_are_numbered_in_order_and_name_the_rows(coarse_net, digits):
    x, coarse, fine = digits
    words = WORDS[fine]
    by_word = {word: PARITY[i] for i, word in enumerate(WORDS)}
    expected = fa.audit(coarse_net, x, coarse, fine, **QUICK)
    for given in (by_word, np.array([by_word[word] for word in words])):
        found = fa.audit(coarse_net, x, given, words, **QUICK)
        assert found.accuracy == expected.accuracy
        assert found.names == tuple(sorted(WORDS))
    # The model's own order, where it has one.
    model = network(10)
    model.config = SimpleNamespace(label2id={word: i for i, word in enumerate(WORDS)})
    assert fa.audit(model, x, by_word, words, **QUICK).names == tuple(WORDS)


def test_pictures_of_several_sizes_need_a_size():
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 255, (h, w, 3), np.uint8)) for h, w in ((8, 8), (20, 12))]
    with pytest.raises(InputError, match=r"shapes \(3, 8, 8\) and \(3, 20, 12\): give size="):
        gathered(pictures, [0, 1], None, 10)
    for size in (6, (6, 6)):
        assert gathered(pictures, [0, 1], None, 10, size)[0].shape == (2, 3, 6, 6)
    floats = [rng.random((3, 8, 8)), rng.random((9, 5, 3)), rng.random((7, 7))[None].repeat(3, axis=0)]
    resized = gathered(floats, [0, 1, 1], None, 10, 4)[0]
    assert resized.shape == (3, 3, 4, 4)
    assert 0 <= resized.min() <= resized.max() <= 1
    plain = np.full((5, 5, 3), 77, np.uint8)
    assert np.all(gathered([plain], [0], None, 10, 3)[0] == 77)


class Patches(nn.Module):
    """As HuggingFace's: pixel_values by name, an object with logits; the first argument is another."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        self.config = SimpleNamespace(label2id={"even": 0, "odd": 1})

    def forward(self, labels=None, pixel_values=None):
        assert labels is None
        return SimpleNamespace(loss=None, logits=self.net(pixel_values))


class Table(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, batch):
        return self.net(batch["image"])


PROCESSOR = SimpleNamespace(image_mean=[0.3], image_std=[0.5], size={"height": 8, "width": 8}, do_normalize=True)


def test_models_that_take_names_and_state_their_normalisation(coarse_net, digits):
    expected = fa.audit(coarse_net, *digits, mean=[0.3], std=[0.5], **QUICK)
    timm = network()
    timm.load_state_dict(coarse_net.state_dict())
    timm.pretrained_cfg = {"mean": (0.3,), "std": (0.5,), "input_size": (1, 8, 8)}
    for model, asked in (
        (Patches(coarse_net), {"processor": PROCESSOR}),
        (timm, {}),
        (Table(coarse_net), {"mean": 0.3, "std": 0.5, "input_name": "image"}),
    ):
        found = fa.audit(model, *digits, **asked, **QUICK)
        assert found.accuracy == expected.accuracy
        assert found.shared_gradient == pytest.approx(expected.shared_gradient, abs=1e-5)
        assert np.allclose(found.radii.attack, expected.radii.attack, rtol=1e-4)
    assert normalisation_of(timm, 0.0, None, PROCESSOR) == (0.0, [0.5])
    without = SimpleNamespace(**(vars(PROCESSOR) | {"do_normalize": False}))
    assert normalisation_of(timm, None, None, without) == (0.0, 1.0)
    assert size_of(PROCESSOR) == (8, 8)
    assert size_of(SimpleNamespace(crop_size=None, size={"shortest_edge": 224})) == (224, 224)
    assert named_input(coarse_net, None) is coarse_net


def test_the_batch_follows_the_memory(coarse_net, digits, monkeypatch):
    expected = fa.audit(coarse_net, *digits, **QUICK)
    subject = taken.torch_classifier(coarse_net, digits[0])
    assert subject.batch == 100
    # What one image keeps: its 64 pixels and 12 activations, in float32, some of it twice.
    monkeypatch.setattr(taken, "available_bytes", lambda: 4 * 10 * 2 * 12 * 64)
    small = taken.torch_classifier(coarse_net, digits[0])
    assert 1 <= small.batch < 40
    monkeypatch.setattr(taken, "available_bytes", lambda: 1)
    found = fa.audit(coarse_net, *digits, images=60, **QUICK)
    assert found.about["images"] == 60
    assert expected.about["images"] == len(digits[0])
    whole = fa.audit(coarse_net, *digits, **QUICK)
    assert whole.shared_gradient == pytest.approx(expected.shared_gradient, abs=1e-5)


class Device:
    """A device that does not exist: whoever moves there is written down and stays where it was."""

    def __init__(self, monkeypatch):
        self.moves, real = [], nn.Module.to

        def to(module, *given, **named):
            if given and str(given[0]).startswith("fake"):
                self.moves.append((module, "fake"))
                return module
            self.moves.append((module, str(given[0]) if given else ""))
            return real(module, *given, **named)

        monkeypatch.setattr(nn.Module, "to", to)


def test_the_model_is_on_the_device_meanwhile_and_back_afterwards(coarse_net, digits, monkeypatch):
    other, device = network(), Device(monkeypatch)
    found = fa.audit(coarse_net, *digits, device="fake:0", twin=other, **QUICK)
    moved = [(module, where) for module, where in device.moves if module in (coarse_net, other)]
    assert moved == [(coarse_net, "fake"), (other, "fake"), (other, "cpu"), (coarse_net, "cpu")]
    assert found.accuracy == fa.audit(coarse_net, *digits, **QUICK).accuracy
    device.moves.clear()
    with pytest.raises(InputError, match="outside"):
        fa.audit(coarse_net, 9 * digits[0], *digits[1:], device="fake", **QUICK)
    assert device.moves == []  # what is wrong with the images is said before
    with pytest.raises(InputError, match="device is 'nowhere'"):
        fa.audit(coarse_net, *digits, device="nowhere", **QUICK)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"x": "pictures"}, "x is a str: give images"),
        ({"x": 3, "coarse": [0]}, "x"),
        ({"x": [(np.zeros((1, 2, 2)), 0, 1, 2)]}, "has items that are a tuple"),
        ({"x": [{"audio": 1}]}, "has tables of audio: name the images pixel_values"),
        ({"x": [(np.zeros((4, 1, 2, 2)), [0, 1])]}, "a batch of 4 images and 2 labels"),
        ({"x": iter([])}, "x has no images"),
        ({"x": [(np.zeros((1, 1, 2, 2)), [0])], "fine": [1]}, "fine is given beside a data set"),
        ({"x": np.zeros((4, 1, 2, 2))}, "coarse is missing"),
        ({"x": np.zeros((4, 1, 2, 2)), "coarse": {0: "a"}}, "coarse is a table, and no sub-classes"),
        ({"x": np.zeros((4, 1, 2, 2)), "coarse": {0: "a"}, "fine": [0, 1, 0, 1]}, "has no class for 1"),
        ({"x": np.zeros((4, 1, 2, 2)), "coarse": [0, 1, 0, 1], "size": (2, 0)}, "size is"),
        ({"x": np.zeros((4, 1, 2, 2)), "coarse": ["a", "b", "", "a"]}, "has an empty word"),
        ({"x": np.zeros((4, 1, 2, 2)), "coarse": [0, 1, 0, 1], "processor": 3}, "without image_mean"),
    ],
)
def test_what_is_no_data_is_one_sentence(given, words):
    with pytest.raises(InputError) as error:
        fa.audit(network(), **given)
    assert words in str(error.value)


def test_a_device_or_a_name_is_for_torch_modules():
    numpy_net = fa.feature_averaging(fa.MultiCluster(k=4, d=4))
    for asked in ({"device": "cpu"}, {"input_name": "image"}):
        with pytest.raises(InputError, match="only torch modules"):
            fa.audit(numpy_net, np.zeros((4, 4)), [0, 1, 0, 1], bounds=None, **asked)
