"""An ONNX file as layers (onnx): its standard operators are read, no code of it is run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from featavg.errors import InputError, told
from featavg.nets.deep import Deep
from featavg.nets.loading.affine import Affine, Levels, check_size, constant, joined, matrix_product
from featavg.nets.loading.windows import Windows
from featavg.storage.reading import ARRAY_LIMIT, read_bytes

# Operators that move entries, or compute shapes from constants: evaluated on the entries' numbers.
MOVES = (
    *("Cast", "Concat", "Constant", "Dropout", "Flatten", "Gather", "Identity", "Reshape", "Shape"),
    *("Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
)


def onnx_network(path: Path) -> Deep:
    """The network of an ONNX file, on flat inputs."""
    content = read_bytes(path, ARRAY_LIMIT)
    try:
        import onnx
        from onnx import numpy_helper
    except ModuleNotFoundError as error:
        from featavg.storage.places import install_command

        problem = "is an ONNX file, and onnx is not installed"
        raise InputError(str(path), problem, install_command("onnx")) from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # of protobuf
        raise InputError(str(path), "is no ONNX file, or damaged", "export it again") from error
    graph = model.graph
    _refuse_code(model, str(path))
    known: dict[str, Any] = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    inputs = [one for one in graph.input if one.name not in known]
    if len(inputs) != 1 or len(graph.output) != 1:
        problem = f"has {len(inputs)} inputs and {len(graph.output)} outputs"
        raise InputError(str(path), problem, "export one of each")
    slopes = {_slope(node) for node in graph.node if node.op_type in ("Relu", "LeakyRelu", "MaxPool")}
    levels = Levels(_shape(inputs[0], str(path)), slopes.pop() if len(slopes) == 1 else 0.0)
    opsets = {d.domain: d.version for d in model.opset_import}
    known[inputs[0].name] = levels.input
    for node in graph.node:
        try:
            known |= _given_by(node, known, levels, opsets)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file makes NumPy say
            problem = f"has {_article(node.op_type)} that cannot be read ({told(error)})"
            raise InputError(str(path), problem, "export it again") from error
    output = known.get(graph.output[0].name)
    if not isinstance(output, Affine):
        problem = "has an output that does not depend on its input"
        raise InputError(str(path), problem, "export it again")
    return levels.network(output)


def _refuse_code(model: Any, path: str) -> None:
    """External data and functions of its own, before anything is read."""
    from onnx import TensorProto

    if model.functions:
        problem = f"brings a function of its own ({model.functions[0].name})"
        raise InputError(path, problem, "export it with standard operators")
    tensors = [*model.graph.initializer]
    tensors += [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    if any(t.data_location == TensorProto.EXTERNAL or t.external_data for t in tensors):
        problem = "keeps its weights in another file"
        raise InputError(path, problem, "save them inside, with save_as_external_data=False")
    if model.graph.sparse_initializer:
        raise InputError(path, "has sparse weights", "save them as dense ones")


def _shape(given: Any, path: str) -> tuple[int, ...]:
    """Of the input, with one image: an axis without a number is the images'."""
    sizes = [d.dim_value for d in given.type.tensor_type.shape.dim]
    if not sizes or not all(sizes[1:]) or (sizes[0] > 1 and len(sizes) > 1):
        problem = f"has an input of shape {sizes}, 0 where it is open"
        raise InputError(path, problem, "export it for one image")
    return (sizes[0] or 1, *sizes[1:])


def _article(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOU" else f"a {name}"


def _slope(node: Any) -> float:
    slope = _attributes(node).get("alpha", 0.01) if node.op_type == "LeakyRelu" else 0.0
    if not 0.0 <= slope < 1.0:
        raise InputError("source", f"has a LeakyRelu of slope {slope:g}", "use one in [0, 1)")
    return float(slope)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx.helper import get_attribute_value

    return {a.name: get_attribute_value(a) for a in node.attribute}


def _given_by(node: Any, known: dict[str, Any], levels: Levels, opsets: dict[str, int]) -> dict[str, Any]:
    """What one node gives, by name: tensors, and NumPy arrays that depend on no input."""
    kind, operator = node.op_type, READ.get(node.op_type)
    if node.domain not in ("", "ai.onnx") or not (kind in MOVES or operator):
        where = f" of {node.domain}" if node.domain else ""
        remedy = f"known are {', '.join(sorted({*MOVES, *READ}))}"
        raise InputError("source", f"has the operator {kind}{where}", remedy)
    inputs = [known[name] if name else None for name in node.input]
    if operator is None or not any(isinstance(one, Affine) for one in inputs):
        return _moved(node, dict(zip(node.input, inputs, strict=True)), opsets)
    return {node.output[0]: operator(levels, _attributes(node), *inputs)}


def _moved(node: Any, inputs: dict[str, Any], opsets: dict[str, int]) -> dict[str, Any]:
    """The node evaluated on constants, and on the numbers of the entries in place of tensors."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    given = {name: one for name, one in inputs.items() if name}
    if node.op_type == "Concat" and any(isinstance(one, Affine) for one in given.values()):
        given = {n: one if isinstance(one, Affine) else constant(one) for n, one in given.items()}
    tensors = [one for one in given.values() if isinstance(one, Affine)]
    fed, start = {}, 0
    for name, one in given.items():
        fed[name] = start + one.places if isinstance(one, Affine) else one
        start += len(one.offset) if isinstance(one, Affine) else 0
    outputs = [name for name in node.output if name]
    named: Any = [[helper.make_empty_tensor_value_info(n) for n in some] for some in (fed, outputs)]
    found = ReferenceEvaluator(helper.make_graph([node], "one", *named), opsets=opsets).run(None, fed)
    if not tensors or node.op_type == "Shape":
        return dict(zip(outputs, found, strict=True))
    whole = joined(tensors)
    return {name: whole.taken(places) for name, places in zip(outputs, found, strict=True)}


def _gemm(levels: Levels, about: dict[str, Any], a: Any, b: Any, c: Any = 0.0) -> Affine:
    left = _turned(a) if about.get("transA") else a
    right = _turned(b) if about.get("transB") else b
    product = _product(levels, about, left, right)
    return product.scaled(about.get("alpha", 1.0)).plus(_times(c, about.get("beta", 1.0)))


def _product(levels: Levels, about: dict[str, Any], left: Any, right: Any) -> Affine:
    _one_constant("MatMul", left, right)
    return matrix_product(left, right)


def _sum(levels: Levels, about: dict[str, Any], a: Any, b: Any) -> Affine:
    return a.plus(b) if isinstance(a, Affine) else b.plus(a)


def _difference(levels: Levels, about: dict[str, Any], a: Any, b: Any) -> Affine:
    return _sum(levels, about, a, _times(b, -1.0))


def _scaled(levels: Levels, about: dict[str, Any], a: Any, b: Any) -> Affine:
    _one_constant("Mul", a, b)
    return a.scaled(b) if isinstance(a, Affine) else b.scaled(a)


def _divided(levels: Levels, about: dict[str, Any], a: Any, b: Any) -> Affine:
    if isinstance(b, Affine):
        raise InputError("source", "divides by a tensor", "divide by constants only")
    return a.scaled(1.0 / np.asarray(b, dtype=float))


def _rectified(levels: Levels, about: dict[str, Any], x: Affine) -> Affine:
    return levels.rectified(x)


def _leaky(levels: Levels, about: dict[str, Any], x: Affine) -> Affine:
    return levels.rectified(x, float(about.get("alpha", 0.01)))


def _convolution(levels: Levels, about: dict[str, Any], x: Any, w: Any, b: Any = 0.0) -> Affine:
    if not isinstance(x, Affine) or isinstance(w, Affine):
        raise InputError("source", "has a Conv with computed weights", "keep them constant")
    return _windows(about, w.shape[2:]).convolved(x, w, b, about.get("group", 1))


def _batch_norm(levels: Levels, about: dict[str, Any], x: Affine, *rest: ndarray) -> Affine:
    if about.get("training_mode"):
        problem = "has a BatchNormalization in training mode"
        raise InputError("source", problem, "export it after eval()")
    tail = (-1, *(1,) * (len(x.shape) - 2))
    scale, shift, mean, variance = (np.asarray(one, dtype=float).reshape(tail) for one in rest)
    factor = scale / np.sqrt(variance + about.get("epsilon", 1e-5))
    return x.scaled(factor).plus(shift - factor * mean)


def _average(levels: Levels, about: dict[str, Any], x: Affine) -> Affine:
    windows = _windows(about, about["kernel_shape"])
    return windows.averaged(x, bool(about.get("count_include_pad", 0)))


def _global_average(levels: Levels, about: dict[str, Any], x: Affine) -> Affine:
    return _windows({}, x.shape[2:]).averaged(x)


def _largest(levels: Levels, about: dict[str, Any], x: Affine) -> Affine:
    return _windows(about, about["kernel_shape"]).largest(levels, x)


def _padded(levels: Levels, about: dict[str, Any], x: Affine, *rest: Any) -> Affine:
    widths = np.asarray(about.get("pads", rest[0] if rest else ())).reshape(2, -1).T
    filling = about.get("value", rest[1] if len(rest) > 1 and rest[1] is not None else 0.0)
    zeros = about.get("mode", b"constant") == b"constant" and not np.any(filling)
    if not zeros or len(widths) != len(x.shape) or np.any(widths < 0):
        raise InputError("source", "has a Pad of more than zeros around", "pad with zeros")
    check_size((widths.sum(axis=1) + x.shape).tolist())
    return x.taken(np.pad(x.places, widths, constant_values=-1))


READ: dict[str, Callable[..., Affine]] = {
    "Add": _sum,
    "AveragePool": _average,
    "BatchNormalization": _batch_norm,
    "Conv": _convolution,
    "Div": _divided,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average,
    "LeakyRelu": _leaky,
    "MatMul": _product,
    "MaxPool": _largest,
    "Mul": _scaled,
    "Pad": _padded,
    "Relu": _rectified,
    "Sub": _difference,
}


def _windows(about: dict[str, Any], kernel: Any) -> Windows:
    if len(kernel) != 2:
        raise InputError("source", f"has windows of {len(kernel)} axes", "use images of two axes")
    if about.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID") or about.get("ceil_mode"):
        raise InputError("source", "has windows with auto_pad or ceil_mode", "export it without")
    strides, pads = about.get("strides", (1, 1)), about.get("pads", (0, 0, 0, 0))
    dilations = about.get("dilations", (1, 1))
    return Windows(tuple(kernel), tuple(strides), tuple(pads), tuple(dilations))


def _one_constant(name: str, *inputs: Any) -> None:
    if all(isinstance(one, Affine) for one in inputs):
        problem = f"has {_article(name)} of two tensors, which is not piecewise linear"
        raise InputError("source", problem, "multiply by constants only")


def _turned(value: Any) -> Any:
    return value.taken(value.places.T) if isinstance(value, Affine) else np.transpose(value)


def _times(value: Any, factor: float) -> Any:
    return value.scaled(factor) if isinstance(value, Affine) else factor * np.asarray(value, float)
