"""An ONNX file as layers (onnx): its standard operators are read, no code of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from featavg.errors import InputError, message_of
from featavg.nets.deep import Deep
from featavg.nets.loading.affine import Affine, Layers, joined, refused
from featavg.nets.loading.operators import LEAK, OPERATORS, About
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
    nodes = [(node, _attributes(node)) for node in graph.node]
    slopes = {"Relu": 0.0, "MaxPool": 0.0, "LeakyRelu": LEAK}
    bends = [about.get("alpha", slopes[n.op_type]) for n, about in nodes if n.op_type in slopes]
    net = Layers(_shape(inputs[0], str(path)), bends)
    net.known = known | {inputs[0].name: net.input}
    opsets = {d.domain: d.version for d in model.opset_import}
    output = graph.output[0].name
    # Where each tensor is read for the last time: no layer carries it further.
    last = {name: number for number, (node, _) in enumerate(nodes) for name in node.input} | {output: len(nodes)}
    for number, (node, about) in enumerate(nodes):
        try:
            inputs = [net.known[name] if name else None for name in node.input]
            net.known = {name: one for name, one in net.known.items() if last.get(name, -1) > number}
            given = _given_by(node, about, inputs, net, opsets)
            net.known |= given  # after what it may have changed
        except (InputError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file makes NumPy say
            article = "an" if node.op_type[:1] in "AEIOU" else "a"
            problem = f"has {article} {node.op_type} that cannot be read ({message_of(error)})"
            raise InputError(str(path), problem, "export it again") from error
    found = net.known.get(output)
    if not isinstance(found, Affine):
        raise InputError(str(path), "has an output that does not depend on its input", "export it again")
    return net.network(found)


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


def _attributes(node: Any) -> About:
    from onnx.helper import get_attribute_value

    return {a.name: get_attribute_value(a) for a in node.attribute}


def _given_by(node: Any, about: About, inputs: list[Any], net: Layers, opsets: dict[str, int]) -> dict[str, Any]:
    """What one node gives, by name: tensors, and NumPy arrays that depend on no input."""
    kind, operator = node.op_type, OPERATORS.get(node.op_type)
    if node.domain not in ("", "ai.onnx") or not (kind in MOVES or operator):
        where = f" of {node.domain}" if node.domain else ""
        raise refused(f"has the operator {kind}{where}", f"known are {', '.join(sorted({*MOVES, *OPERATORS}))}")
    if operator is None or not any(isinstance(one, Affine) for one in inputs):
        return _moved(node, inputs, opsets)
    return {node.output[0]: operator(net, about, *inputs)}


def _moved(node: Any, inputs: list[Any], opsets: dict[str, int]) -> dict[str, Any]:
    """The node evaluated on constants, and on the numbers of the entries in place of tensors."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    given = {name: one for name, one in zip(node.input, inputs, strict=True) if name}
    some = next((one for one in inputs if isinstance(one, Affine)), None)
    if node.op_type == "Concat" and some is not None:
        given = {name: one if isinstance(one, Affine) else some.constant(one) for name, one in given.items()}
    tensors = [one for one in given.values() if isinstance(one, Affine)]
    fed, start = {}, 0
    for name, one in given.items():
        fed[name] = start + one.places if isinstance(one, Affine) else one
        start += len(one.offset) if isinstance(one, Affine) else 0
    outputs = [name for name in node.output if name]
    named: Any = [[helper.make_empty_tensor_value_info(n) for n in names] for names in (fed, outputs)]
    found = ReferenceEvaluator(helper.make_graph([node], "one", *named), opsets=opsets).run(None, fed)
    if not tensors or node.op_type == "Shape":
        return dict(zip(outputs, found, strict=True))
    whole = joined(tensors)
    return {name: whole.taken(places) for name, places in zip(outputs, found, strict=True)}
