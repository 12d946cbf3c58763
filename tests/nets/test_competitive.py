"""Modules whose neurons compete: against NumPy's poolings, exact radii, the audit, and ONNX."""

import numpy as np
import pytest

import featavg as fa
from featavg.errors import InputError
from featavg.nets.readouts._readout import readout_of, score

torch = pytest.importorskip("torch")
from featavg.audit.models import classifier  # noqa: E402
from featavg.nets.torch.competitive import Compete, CompetitiveHead  # noqa: E402

POOLED = ("max", "mean", "top:q=2", "soft:temperature=0.3")


def head(pooling: str = "max", classes: int = 2) -> CompetitiveHead:
    torch.manual_seed(0)
    return CompetitiveHead(6, classes, neurons=3, pooling=pooling).double()


@pytest.mark.parametrize("pooling", POOLED)
def test_the_layer_pools_as_numpy_does(pooling) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 2, 3))
    pooled = Compete(2, pooling)(torch.tensor(x)).numpy()
    parts = np.moveaxis(x.reshape(4, 2, 3, 2, 3), 2, -1)
    np.testing.assert_allclose(pooled, readout_of(pooling).class_score(parts), atol=1e-12)


def test_one_winner_learns() -> None:
    """A tie, too, has one winner."""
    x = torch.tensor([[1.0, 2.0, 2.0, 0.0]], requires_grad=True)
    Compete(1)(x).sum().backward()
    assert sorted(x.grad[0].tolist()) == [0, 0, 0, 1]


@pytest.mark.parametrize("pooling", POOLED)
def test_the_exact_twin_is_the_head(pooling) -> None:
    module, x = head(pooling), np.random.default_rng(1).normal(size=(20, 6))
    net, mask = module.exact()
    with torch.no_grad():
        outputs = module(torch.tensor(x)).numpy()
    np.testing.assert_allclose(score(net(x), mask, pooling), outputs[:, 1] - outputs[:, 0], atol=1e-12)
    y = np.where(outputs[:, 1] > outputs[:, 0], 1, -1)
    found = fa.radii(net, x, y=y, readout=pooling, positive=mask)
    attacked = fa.attack_suite(fa.torch_model(module, bounds=None, positive=[False, True]), x, y)
    assert np.all(attacked.radii >= found.certified * (1 - 1e-6))
    # `soft` is bracketed within 1%, so that the attack is held against the upper end.
    both = np.isfinite(attacked.radii) & (found.certified > 0)
    assert np.median(attacked.radii[both] / found.attack[both]) < 1.01


def test_the_audit_takes_no_pooled_head_for_a_plain_one() -> None:
    x = np.random.default_rng(2).uniform(size=(20, 6))
    for module in (head(), torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU(), Compete(2)).double()):
        taken = classifier(module, x)
        assert taken.outputs == 2
        assert taken.exact is None


@pytest.mark.parametrize("pooling", POOLED)
@pytest.mark.parametrize("kind", ["head", "layer"])
@pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning")  # torch's exporter, about itself
@pytest.mark.filterwarnings("ignore:`isinstance:DeprecationWarning")
def test_onnx(kind, pooling) -> None:
    """The exported network answers as the module does, in another runtime."""
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    import onnxruntime

    shape = (5, 6) if kind == "head" else (5, 6, 4, 4)
    module = head(pooling).float().eval() if kind == "head" else Compete(2, pooling).eval()
    x = torch.tensor(np.random.default_rng(3).normal(size=shape), dtype=torch.float32)
    program = torch.onnx.export(module, (torch.zeros_like(x),), dynamo=True, verbose=False)
    exported = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(exported, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLED)
def test_torch_export(pooling) -> None:
    """What the ONNX exporter begins with: the exported program answers as the module does."""
    module, rng = head(pooling), np.random.default_rng(3)
    x = torch.tensor(rng.normal(size=(5, 6)))
    program = torch.export.export(module, (torch.zeros_like(x),))
    torch.testing.assert_close(program.module()(x), module(x))


BAD = {
    "classes is 1: a decision needs two or more": lambda: CompetitiveHead(6, 1, 3),
    "neurons is 0: give a whole number, 1 or more": lambda: CompetitiveHead(6, 2, 0),
    "features is 0: give a whole number, 1 or more": lambda: CompetitiveHead(0, 2, 3),
    "scale is -1: give a finite number of at least 0": lambda: CompetitiveHead(6, 2, 3, scale=-1),
    "x has 5 numbers a point: give 6": lambda: head()(torch.zeros(2, 5)),
    "groups is 2.5: give a whole number": lambda: Compete(2.5),
    "x has shape (4,): give points x channels": lambda: Compete(2)(torch.zeros(4)),
    "pooling is 'median': choose max, mean, top or soft": lambda: Compete(2, "median"),
    "q is 4 for 3 neurons a class: give at most 3": lambda: CompetitiveHead(6, 2, 3, "top:q=4"),
    "q is 4 for groups of 3: give at most 3": lambda: Compete(2, "top:q=4")(torch.zeros(1, 6)),
    "x has 5 channels: give a multiple of 2": lambda: Compete(2)(torch.zeros(1, 5)),
    "temperature is 0.0: give a number above 0": lambda: Compete(2, "soft:temperature=0"),
    "pooling is 'probability': choose max, mean, top or soft": lambda: Compete(2, "probability"),
    "classes are 3: exact radii of a pooled head are for two": lambda: head(classes=3).exact(),
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_input_is_one_sentence(sentence) -> None:
    with pytest.raises(InputError) as caught:
        BAD[sentence]()
    assert sentence in str(caught.value)
