"""ONNX files: each operator against onnx's own evaluator and torch, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

import featavg as fa

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402


def numbers(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def model(nodes, shape, weights, opset=17, outputs=("y",), inputs=("x",)):
    """Nodes from x to y: each "output = operator inputs", or that and its attributes."""
    made = [_node(*each) if isinstance(each, tuple) else _node(each) for each in nodes]
    held = [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    takes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in inputs]
    gives = [helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = helper.make_graph(made, "net", takes, gives, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def _node(text, about=None):
    gives, _, kind, *given = text.split()
    return helper.make_node(kind, given, [gives], **(about or {}))


def saved(proto, folder: Path) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


IMAGE = [1, 2, 6, 6]
W = numbers(4, 2, 3, 3)
NORM = {n: numbers(4, seed=i) for i, n in enumerate("sbm")} | {"v": np.float32([0.5, 1.0, 2.0, 3.0])}
ROWS = {
    "gemm": ([("y = Gemm x w b", {"alpha": 0.5, "beta": 2.0})], [1, 3], {"w": numbers(3, 4), "b": numbers(4)}),
    "gemm turned": ([("y = Gemm x w", {"transB": 1})], [1, 3], {"w": numbers(4, 3)}),
    "columns": (["z = MatMul w x", "h = Add b z", "y = Relu h"], [1, 3, 1], {"w": numbers(4, 3), "b": numbers(4, 1)}),
    "rows": (["y = MatMul x w"], [1, 5, 3], {"w": numbers(3, 4)}),
    "scaling": (
        ["a = Sub x m", "b = Div a s", "c = Mul k b", "y = Sub m c"],
        IMAGE,
        {"m": numbers(2, 1, 1), "s": np.float32(0.3), "k": numbers(1, 2, 1, 1)},
    ),
    "convolution": (
        [("y = Conv x w b", {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]})],
        IMAGE,
        {"w": W, "b": numbers(4)},
    ),
    "batch norm": (["h = Conv x w", ("y = BatchNormalization h s b m v", {"epsilon": 1e-3})], IMAGE, {"w": W, **NORM}),
    "pools": (
        [
            ("a = AveragePool x", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("b = MaxPool a", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            "y = GlobalAveragePool b",
        ],
        IMAGE,
        {},
    ),
    "padding counts": (
        [("y = AveragePool x", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1})],
        IMAGE,
        {},
    ),
    "leaky": ([("h = LeakyRelu x", {"alpha": 0.1}), "y = Gemm h w"], [1, 3], {"w": numbers(3, 4)}),
    "residual": (
        [
            ("h = Conv x w", {"pads": [1, 1, 1, 1]}),
            "a = Relu h",
            ("b = Conv a v", {"pads": [1, 1, 1, 1]}),
            "c = Add b x",
            "d = Relu c",
            "e = Conv d w",
            "f = LeakyRelu e",
            "g = Flatten f",
            "i = Flatten d",
            ("y = Concat g k i", {"axis": 1}),
        ],
        IMAGE,
        {"w": W, "v": numbers(2, 4, 3, 3), "k": numbers(1, 3)},
    ),
    "leaky residual": (
        [
            "h = LeakyRelu x",
            "a = Gemm h w",
            "b = LeakyRelu a",
            "c = Gemm b w",
            "d = Add c h",
            "e = LeakyRelu d",
            "f = Gemm e w",
            "g = Add f h",
            "y = Add g x",
        ],
        [1, 3],
        {"w": numbers(3, 3)},
    ),
    "a computed shape": (
        [
            "s = Shape x",
            "n = Gather s zero",
            "u = Unsqueeze n axes",
            ("to = Concat u rest", {"axis": 0}),
            "f = Reshape x to",
            ("t = Transpose f", {"perm": [1, 0]}),
            "y = Slice t one three",
        ],
        IMAGE,
        {
            "zero": np.int64(0),
            "axes": np.int64([0]),
            "rest": np.int64([-1]),
            "one": np.int64([1]),
            "three": np.int64([-3]),
        },
    ),
    "old squeeze": ([("y = Squeeze x", {"axes": [0]})], [1, 3], {}, 9),
    "padded": (["y = Pad x p"], IMAGE, {"p": np.int64([0, 0, 1, 2, 0, 0, 0, 3])}),
    "unknown number of images": (["f = Flatten x", "i = Identity f", "y = Dropout i"], ["n", 2, 3], {}),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_onnx_file_answers_as_onnx_does(name: str, tmp_path: Path) -> None:
    nodes, shape, weights, *opset = ROWS[name]
    proto = model(nodes, shape, weights, *opset)
    net = fa.load_network(saved(proto, tmp_path))
    one = [size if isinstance(size, int) else 1 for size in shape]
    for seed in range(5):
        x = numbers(*one, seed=seed)
        expected = ReferenceEvaluator(proto).run(None, {"x": x})[0].ravel()
        found = net(x.reshape(1, -1).astype(float))[0]
        assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_an_onnx_file_answers_as_torch_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    body = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3, 2, 1), torch.nn.ReLU(), torch.nn.Flatten())
    module = body.append(torch.nn.Linear(27, 4))
    held = {name.replace(".", ""): value.numpy() for name, value in module.state_dict().items()}
    nodes = [
        ("h = Conv x 0weight 0bias", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        "a = Relu h",
        "f = Flatten a",
        ("y = Gemm f 3weight 3bias", {"transB": 1}),
    ]
    net = fa.load_network(saved(model(nodes, IMAGE, held), tmp_path))
    x = numbers(9, 2, 6, 6)
    with torch.no_grad():
        expected = module(torch.from_numpy(x)).numpy()
    assert np.allclose(net(x.reshape(9, -1).astype(float)), expected, rtol=1e-5, atol=1e-6)
    same = fa.load_network(module, shape=(2, 6, 6))
    assert np.allclose(same.weights[0], net.weights[0])


def test_an_onnx_classifier_is_audited(tmp_path: Path) -> None:
    task = fa.MultiCluster(k=10, d=300)
    averaged, points = fa.feature_averaging(task, task.d), task.sample(1000, seed=1)
    nodes = ["h = Gemm x w", "a = Relu h", "y = Gemm a v"]
    held = {"w": averaged.weights.T.astype(np.float32), "v": averaged.head.T.astype(np.float32)}
    net = fa.load_network(saved(model(nodes, [1, 300], held), tmp_path))
    report = fa.audit(net, points.x, points.y, points.clusters, bounds=None, radii=5)
    assert report.verdict.value == "averages"


def outside(proto):
    proto.graph.initializer[0].data_location = TensorProto.EXTERNAL
    entry = proto.graph.initializer[0].external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    return proto


def with_function(proto):
    proto.functions.add().name = "Mine"
    return proto


GEMM = ["y = Gemm x w"]
SQUARE = {"w": np.eye(3, dtype=np.float32)}
TWO = ["h = Gemm x w", "k = Gemm z w", "y = Add h k"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"noise", "is no ONNX file, or damaged"),
        (b"", "has 0 inputs and 0 outputs"),
        (lambda: outside(model(GEMM, [1, 3], SQUARE)), "keeps its weights in another file"),
        (lambda: with_function(model(GEMM, [1, 3], SQUARE)), "brings a function of its own"),
        (lambda: model(["y = Tanh x"], [1, 3], {}), "has the operator Tanh: known are Add"),
        (lambda: model([("y = Mine x", {"domain": "a.b"})], [1, 3], {}), "Mine of a.b"),
        (lambda: model([("y = Relu x", {"domain": "a.b"})], [1, 3], {}), "Relu of a.b"),
        (lambda: model(["y = If x"], [1, 3], {}), "has the operator If"),
        (lambda: model(GEMM, [1, 4], SQUARE), "multiplies tensors of shapes"),
        (lambda: model(["y = Add x w"], [1, 4], SQUARE), "combines tensors of shapes"),
        (lambda: model(TWO, [1, 3], SQUARE, inputs=("x", "z")), "has 2 inputs"),
        (lambda: model(GEMM, [7, 3], SQUARE), "export it for one image"),
        (lambda: model(GEMM, [1, "n"], SQUARE), "export it for one image"),
        (lambda: model(GEMM, [1, 10**6, 10**6], SQUARE), "has a tensor of shape"),
        (lambda: model(["y = Pad x p"], [1, 3], {"p": np.int64([0, 0, 0, 10**12])}), "has a tensor of shape"),
        (lambda: model([("y = Conv x w", {"pads": [10**6] * 4})], IMAGE, {"w": W}), "has a tensor of shape"),
        (lambda: model(["y = Add x w"], [1, 1, 9000], {"w": np.zeros((1, 9000, 1), "f")}), "has a tensor of shape"),
        (lambda: model(["y = Mul x x"], [1, 3], {}), "a Mul of two tensors"),
        (lambda: model(["y = MatMul x x"], [1, 1], {}), "a MatMul of two tensors"),
        (lambda: model(["y = Div w x"], [1, 3], SQUARE), "divides by a tensor"),
        (lambda: model([("y = Conv x w", {"auto_pad": "SAME_UPPER"})], IMAGE, {"w": W}), "SAME_UPPER"),
        (lambda: model(["y = Reshape x s"], [1, 3], {"s": np.int64([2, 2])}), "a Reshape that cannot"),
        (lambda: model(["y = Relu nobody"], [1, 3], {}), "a Relu that cannot be read"),
        (lambda: model(["y = Identity w"], [1, 3], SQUARE), "does not depend on its input"),
        (lambda: model(GEMM, [1, 3], {"w": np.full((3, 2), np.nan, np.float32)}), "hold NaN"),
        (lambda: model([("y = LeakyRelu x", {"alpha": 1.5})], [1, 3], {}), "slope 1.5"),
        (lambda: model(["y = Pad x p v"], [1, 3], {"p": np.int64([0, 1, 0, 1]), "v": np.float32(1)}), "zeros"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(content, sentence, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content().SerializeToString())
    with pytest.raises(fa.InputError, match=sentence):
        fa.load_network(path)


def test_without_onnx_a_sentence_says_what_to_install(monkeypatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(fa.InputError, match=r"onnx is not installed: .*install.*onnx"):
        fa.load_network(saved(model(GEMM, [1, 3], SQUARE), tmp_path))
