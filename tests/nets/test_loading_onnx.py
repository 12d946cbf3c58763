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
    """Nodes from x to y: each (operator, inputs, output, attributes)."""
    made = [helper.make_node(kind, given.split(), gives.split(), **about) for kind, given, gives, about in nodes]
    held = [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    takes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in inputs]
    gives = [helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = helper.make_graph(made, "net", takes, gives, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def saved(proto, folder: Path) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


IMAGE = [1, 2, 6, 6]
W = numbers(4, 2, 3, 3)
NORM = {n: numbers(4, seed=i) for i, n in enumerate("sbm")} | {"v": np.float32([0.5, 1.0, 2.0, 3.0])}
ROWS = {
    "gemm": ([("Gemm", "x w b", "y", {"alpha": 0.5, "beta": 2.0})], [1, 3], {"w": numbers(3, 4), "b": numbers(4)}, 17),
    "gemm turned": ([("Gemm", "x w", "y", {"transB": 1})], [1, 3], {"w": numbers(4, 3)}, 17),
    "columns": (
        [("MatMul", "w x", "z", {}), ("Add", "b z", "h", {}), ("Relu", "h", "y", {})],
        [1, 3, 1],
        {"w": numbers(4, 3), "b": numbers(4, 1)},
        17,
    ),
    "rows": ([("MatMul", "x w", "y", {})], [1, 5, 3], {"w": numbers(3, 4)}, 17),
    "scaling": (
        [("Sub", "x m", "a", {}), ("Div", "a s", "b", {}), ("Mul", "k b", "c", {}), ("Sub", "m c", "y", {})],
        IMAGE,
        {"m": numbers(2, 1, 1), "s": np.float32(0.3), "k": numbers(1, 2, 1, 1)},
        17,
    ),
    "convolution": (
        [("Conv", "x w b", "y", {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]})],
        IMAGE,
        {"w": W, "b": numbers(4)},
        17,
    ),
    "batch norm": (
        [("Conv", "x w", "h", {}), ("BatchNormalization", "h s b m v", "y", {"epsilon": 1e-3})],
        IMAGE,
        {"w": W, **NORM},
        17,
    ),
    "pools": (
        [
            ("AveragePool", "x", "a", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
            ("MaxPool", "a", "b", {"kernel_shape": [2, 2], "strides": [2, 2]}),
            ("GlobalAveragePool", "b", "y", {}),
        ],
        IMAGE,
        {},
        17,
    ),
    "padding counts": (
        [("AveragePool", "x", "y", {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1})],
        IMAGE,
        {},
        17,
    ),
    "leaky": ([("LeakyRelu", "x", "h", {"alpha": 0.1}), ("Gemm", "h w", "y", {})], [1, 3], {"w": numbers(3, 4)}, 17),
    "residual": (
        [
            ("Conv", "x w", "h", {"pads": [1, 1, 1, 1]}),
            ("Relu", "h", "a", {}),
            ("Conv", "a v", "b", {"pads": [1, 1, 1, 1]}),
            ("Add", "b x", "c", {}),
            ("Relu", "c", "d", {}),
            ("Conv", "d w", "e", {}),
            ("LeakyRelu", "e", "f", {}),
            ("Flatten", "f", "g", {}),
            ("Flatten", "d", "i", {}),
            ("Concat", "g k i", "y", {"axis": 1}),
        ],
        IMAGE,
        {"w": W, "v": numbers(2, 4, 3, 3), "k": numbers(1, 3)},
        17,
    ),
    "leaky residual": (
        [
            ("LeakyRelu", "x", "h", {}),
            ("Gemm", "h w", "a", {}),
            ("LeakyRelu", "a", "b", {}),
            ("Gemm", "b w", "c", {}),
            ("Add", "c h", "d", {}),
            ("LeakyRelu", "d", "e", {}),
            ("Gemm", "e w", "f", {}),
            ("Add", "f h", "g", {}),
            ("Add", "g x", "y", {}),
        ],
        [1, 3],
        {"w": numbers(3, 3)},
        17,
    ),
    "a computed shape": (
        [
            ("Shape", "x", "s", {}),
            ("Gather", "s zero", "n", {}),
            ("Unsqueeze", "n axes", "u", {}),
            ("Concat", "u rest", "to", {"axis": 0}),
            ("Reshape", "x to", "f", {}),
            ("Transpose", "f", "t", {"perm": [1, 0]}),
            ("Slice", "t one three", "y", {}),
        ],
        IMAGE,
        {
            "zero": np.int64(0),
            "axes": np.int64([0]),
            "rest": np.int64([-1]),
            "one": np.int64([1]),
            "three": np.int64([-3]),
        },
        17,
    ),
    "old squeeze": ([("Squeeze", "x", "y", {"axes": [0]})], [1, 3], {}, 9),
    "padded": ([("Pad", "x p", "y", {})], IMAGE, {"p": np.int64([0, 0, 1, 2, 0, 0, 0, 3])}, 17),
    "unknown number of images": (
        [("Flatten", "x", "f", {}), ("Identity", "f", "i", {}), ("Dropout", "i", "y", {})],
        ["n", 2, 3],
        {},
        17,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_onnx_file_answers_as_onnx_does(name: str, tmp_path: Path) -> None:
    nodes, shape, weights, opset = ROWS[name]
    proto = model(nodes, shape, weights, opset)
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
        ("Conv", "x 0weight 0bias", "h", {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("Relu", "h", "a", {}),
        ("Flatten", "a", "f", {}),
        ("Gemm", "f 3weight 3bias", "y", {"transB": 1}),
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
    nodes = [("Gemm", "x w", "h", {}), ("Relu", "h", "a", {}), ("Gemm", "a v", "y", {})]
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


GEMM = [("Gemm", "x w", "y", {})]
SQUARE = {"w": np.eye(3, dtype=np.float32)}
TWO = [("Gemm", "x w", "h", {}), ("Gemm", "z w", "k", {}), ("Add", "h k", "y", {})]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"noise", "is no ONNX file, or damaged"),
        (b"", "has 0 inputs and 0 outputs"),
        (lambda: outside(model(GEMM, [1, 3], SQUARE)), "keeps its weights in another file"),
        (lambda: with_function(model(GEMM, [1, 3], SQUARE)), "brings a function of its own"),
        (lambda: model([("Tanh", "x", "y", {})], [1, 3], {}), "has the operator Tanh: known are Add"),
        (lambda: model([("Mine", "x", "y", {"domain": "a.b"})], [1, 3], {}), "Mine of a.b"),
        (lambda: model([("Relu", "x", "y", {"domain": "a.b"})], [1, 3], {}), "Relu of a.b"),
        (lambda: model([("If", "x", "y", {})], [1, 3], {}), "has the operator If"),
        (lambda: model(GEMM, [1, 4], SQUARE), "multiplies tensors of shapes"),
        (lambda: model([("Add", "x w", "y", {})], [1, 4], SQUARE), "combines tensors of shapes"),
        (lambda: model(TWO, [1, 3], SQUARE, inputs=("x", "z")), "has 2 inputs"),
        (lambda: model(GEMM, [7, 3], SQUARE), "export it for one image"),
        (lambda: model(GEMM, [1, "n"], SQUARE), "export it for one image"),
        (lambda: model(GEMM, [1, 10**6, 10**6], SQUARE), "has a tensor of shape"),
        (lambda: model([("Pad", "x p", "y", {})], [1, 3], {"p": np.int64([0, 0, 0, 10**12])}), "has a tensor of shape"),
        (lambda: model([("Conv", "x w", "y", {"pads": [10**6] * 4})], IMAGE, {"w": W}), "has a tensor of shape"),
        (
            lambda: model([("Add", "x w", "y", {})], [1, 1, 9000], {"w": np.zeros((1, 9000, 1), "f")}),
            "has a tensor of shape",
        ),
        (lambda: model([("Mul", "x x", "y", {})], [1, 3], {}), "a Mul of two tensors"),
        (lambda: model([("MatMul", "x x", "y", {})], [1, 1], {}), "a MatMul of two tensors"),
        (lambda: model([("Div", "w x", "y", {})], [1, 3], SQUARE), "divides by a tensor"),
        (lambda: model([("Conv", "x w", "y", {"auto_pad": "SAME_UPPER"})], IMAGE, {"w": W}), "SAME_UPPER"),
        (lambda: model([("Reshape", "x s", "y", {})], [1, 3], {"s": np.int64([2, 2])}), "a Reshape that cannot"),
        (lambda: model([("Relu", "nobody", "y", {})], [1, 3], {}), "a Relu that cannot be read"),
        (lambda: model([("Identity", "w", "y", {})], [1, 3], SQUARE), "does not depend on its input"),
        (lambda: model(GEMM, [1, 3], {"w": np.full((3, 2), np.nan, np.float32)}), "hold NaN"),
        (lambda: model([("LeakyRelu", "x", "y", {"alpha": 1.5})], [1, 3], {}), "slope 1.5"),
        (
            lambda: model([("Pad", "x p v", "y", {})], [1, 3], {"p": np.int64([0, 1, 0, 1]), "v": np.float32(1)}),
            "zeros",
        ),
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
