"""Networks of others: each operator against torch or onnx, and what is refused."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import featavg as fa

torch = pytest.importorskip("torch")
nn = torch.nn


def sequential(*layers):
    torch.manual_seed(0)
    module = nn.Sequential(*layers)
    for part in module.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            with torch.no_grad():
                if part.affine:
                    part.weight.uniform_(0.5, 2.0)
                    part.bias.normal_()
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2.0)
    return module.eval()


def images(shape, count=7):
    return np.random.default_rng(1).normal(size=(count, *shape))


def agrees(net, x, expected, tolerance=1e-5):
    found = net(x.reshape(len(x), -1))
    error = np.abs(found - expected.reshape(len(x), -1)).max()
    assert error <= tolerance * np.abs(expected).max()


IMAGE = (2, 8, 6)
ROWS = {
    "linear": ((5,), [nn.Linear(5, 3)]),
    "mlp": (IMAGE, [nn.Flatten(), nn.Linear(96, 5), nn.ReLU(), nn.Linear(5, 3)]),
    "leaky": ((5,), [nn.Linear(5, 4), nn.LeakyReLU(0.2), nn.Linear(4, 3)]),
    "leaky and relu": (
        (5,),
        [nn.Linear(5, 4), nn.LeakyReLU(0.2), nn.Linear(4, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)],
    ),
    "two slopes": ((5,), [nn.LeakyReLU(0.2), nn.Linear(5, 4), nn.LeakyReLU(0.1), nn.Linear(4, 3)]),
    "convolution": (IMAGE, [nn.Conv2d(2, 3, 3)]),
    "strides, padding": (IMAGE, [nn.Conv2d(2, 3, (4, 3), (2, 1), (1, 2)), nn.ReLU(), nn.Conv2d(3, 1, 2)]),
    "same": (IMAGE, [nn.Conv2d(2, 2, (5, 3), padding="same", bias=False), nn.ReLU()]),
    "groups, dilation": (IMAGE, [nn.Conv2d(2, 4, 2, groups=2, dilation=(2, 3))]),
    "batch norm": (IMAGE, [nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()]),
    "batch norm 1d": ((5,), [nn.Linear(5, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.BatchNorm1d(4, affine=False)]),
    "average pool": (IMAGE, [nn.AvgPool2d(2), nn.AvgPool2d(2, 1, padding=1)]),
    "its pixels alone": (IMAGE, [nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)]),
    "its divisor": (IMAGE, [nn.AvgPool2d(3, 2, padding=1, divisor_override=5)]),
    "adaptive pool": (IMAGE, [nn.AdaptiveAvgPool2d((2, None)), nn.AdaptiveAvgPool2d(1), nn.Flatten()]),
    "max pool": (IMAGE, [nn.Conv2d(2, 2, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(12, 3)]),
    "max pool of three": (IMAGE, [nn.ReLU(), nn.MaxPool2d((3, 1), 2)]),
    "max pool of the input": (IMAGE, [nn.MaxPool2d(2), nn.LeakyReLU(0.3), nn.MaxPool2d(2)]),
    "padding": (IMAGE, [nn.ZeroPad2d((1, 2, 0, 3)), nn.Conv2d(2, 2, 3)]),
    "nested": (IMAGE, [nn.Sequential(nn.Identity(), nn.Flatten()), nn.Dropout(0.5), nn.Sequential(nn.Linear(96, 2))]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_sequential_answers_as_torch_does(name: str) -> None:
    shape, layers = ROWS[name]
    module, x = sequential(*layers), images(shape)
    with torch.no_grad():
        expected = module.double()(torch.from_numpy(x)).numpy()
    agrees(fa.load_network(module, shape=shape), x, expected, 1e-12)


def test_a_layer_that_occurs_twice_and_a_normalisation() -> None:
    twice = nn.Linear(4, 4)
    module, x = sequential(twice, nn.ReLU(), twice), images((4,))
    mean, std = 0.3, 0.5
    with torch.no_grad():
        expected = module(torch.from_numpy((x - mean) / std).float()).numpy()
    agrees(fa.load_network(module, mean=mean, std=std), x, expected)


def convolutional():
    return sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))


@pytest.mark.parametrize("kind", ["torch", "safetensors", "renamed", "parallel", "mapping"])
def test_weights_for_a_sequential(kind: str, tmp_path: Path) -> None:
    module, x = convolutional(), images((1, 8, 8))
    state, path = dict(module.state_dict()), tmp_path / "weights"
    if kind == "renamed":
        state = {f"layer{i}.{name}": value for i, (name, value) in enumerate(state.items())}
    if kind == "parallel":
        state = {f"module.{name}": value for name, value in state.items()}
    if kind == "safetensors":
        from safetensors.torch import save_file

        save_file(state, path)
    else:
        torch.save({"state_dict": [state]} if kind == "torch" else state, path)
    other = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    before = [tensor.clone() for tensor in other.state_dict().values()]
    net = fa.load_network(state if kind == "mapping" else path, other, shape=(1, 8, 8))
    with torch.no_grad():
        agrees(net, x, module(torch.from_numpy(x).float()).numpy())
    after = other.state_dict().values()
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


def test_linear_layers_need_no_module(tmp_path: Path) -> None:
    from featavg.audit.models import load_model

    module, x = sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3, bias=False)), images((5,))
    torch.save(module.state_dict(), tmp_path / "net.pth")
    with torch.no_grad():
        expected = module(torch.from_numpy(x).float()).numpy()
    agrees(fa.load_network(tmp_path / "net.pth"), x, expected)
    agrees(load_model(str(tmp_path / "net.pth")), x, expected)  # what `featavg audit` is given


def test_radii_and_certificates_of_a_convolutional_network() -> None:
    module = sequential(nn.Conv2d(1, 2, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    net, x = fa.load_network(module, shape=(1, 5, 5)), images((25,), 6)
    labels = net(x).argmax(axis=1)
    exact = fa.radii(net, x, labels)
    model = fa.torch_model(module.double(), None, readout="max", groups=range(3))
    attack = fa.attack_suite(model, x.reshape(-1, 1, 5, 5), labels, budget=200)
    assert np.all(exact.certified <= attack.radii * (1 + 1e-6))
    assert np.all(exact.attack <= attack.radii * (1 + 1e-6))
    at = 0.9 * float(exact.certified.min())
    assert fa.certify(net, x, labels, radius=at).robust_error == (0.0, 0.0)


class Code:
    def __reduce__(self):
        return (print, ("code ran",))


def files(kind: str, folder: Path) -> Path:
    path = folder / "net.pth"
    if kind == "code":
        path.write_bytes(pickle.dumps({"0.weight": Code()}))
    elif kind == "noise":
        path.write_bytes(b"noise" * 100)
    elif kind == "several":
        torch.save({"state_dict": [{"w": torch.eye(2)}, {"w": torch.eye(2)}]}, path)
    elif kind == "convolution":
        torch.save({"0.weight": torch.ones(2, 1, 3, 3)}, path)
    elif kind == "widths":
        torch.save({"0.weight": torch.ones(4, 5), "1.weight": torch.ones(3, 3)}, path)
    elif kind == "nan":
        torch.save({"0.weight": torch.full((2, 3), torch.nan)}, path)
    return path


SQUARE = nn.Linear(4, 4)


class Own(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.parametrize(
    ("source", "module", "shape", "sentence"),
    [
        ("code", None, None, "is a pickle that holds more than tensors"),
        ("noise", None, None, "is damaged|more than tensors"),
        ("missing", None, None, "is not a file"),
        ("several", None, None, "holds 2 networks"),
        ("convolution", None, None, "says too little of its layer: give the torch.nn.Sequential"),
        ("widths", None, None, "layer 2 has shape"),
        ("nan", None, None, "hold NaN"),
        ("widths", nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), None, "do not fit"),
        ("widths", nn.Sequential(nn.Linear(5, 4, bias=False)), None, "do not fit"),
        (nn.Sequential(SQUARE, nn.Tanh()), None, None, "has a Tanh: known are Linear, Conv2d"),
        (nn.Sequential(SQUARE, Own()), None, None, "has a Own"),
        (Own(), None, None, "is a Own, whose forward is code"),
        (nn.Sequential(nn.Conv2d(1, 1, 3)), None, None, "shape is missing"),
        (nn.Sequential(nn.Conv2d(3, 1, 3)), None, (1, 5, 5), "a convolution of 3 channels on 1"),
        (nn.Sequential(nn.Conv2d(1, 1, 7)), None, (1, 5, 5), "windows of"),
        (nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="circular", padding=1)), None, (1, 5, 5), "circular"),
        (nn.Sequential(nn.MaxPool2d(2, padding=1)), None, (1, 4, 4), "max-pooling with padding"),
        (nn.Sequential(nn.MaxPool2d(2, ceil_mode=True)), None, (1, 5, 5), "ceil_mode"),
        (nn.Sequential(nn.LeakyReLU(2.0)), None, (3,), "of slope 2"),
        (nn.Sequential(SQUARE), None, (5,), "multiplies tensors of shapes"),
        (nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False)), None, (4,), "statistics"),
        (nn.Sequential(nn.Conv2d(3, 64, 7, 2)), None, (3, 224, 224), "neurons.*unrolled"),
        (nn.Sequential(nn.ReLU()), None, (3, 200, 200), "120000 neurons"),
        (nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU()), None, (8, 40, 40), "weights with its conv"),
        (7, None, None, "source is a int"),
        ({}, None, None, "holds no table of tensors"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_a_sentence(source, module, shape, sentence, tmp_path, capsys) -> None:
    given = files(source, tmp_path) if isinstance(source, str) else source
    with pytest.raises(fa.InputError, match=sentence):
        fa.load_network(given, module, shape=shape)
    assert "code ran" not in capsys.readouterr().out


def test_a_hook_is_refused() -> None:
    module = nn.Sequential(nn.Linear(3, 2))
    module[0].register_forward_hook(lambda *given: None)
    with pytest.raises(fa.InputError, match="has a hook"):
        fa.load_network(module)
