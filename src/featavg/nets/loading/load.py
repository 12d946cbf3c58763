"""A published network, from a file or a torch module. ONNX files are read here: no code of them is run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from featavg.boundary.public import public
from featavg.errors import InputError, message_of, torch_needed
from featavg.nets.deep import Deep
from featavg.nets.loading.affine import Affine, Layers, joined, refused
from featavg.nets.loading.operators import LEAK, OPERATORS, About
from featavg.storage.reading import ARRAY_LIMIT, read_bytes

# Operators of ONNX that move entries, or compute shapes from constants: evaluated on the entries' numbers.
MOVES = (
    *("Cast", "Concat", "Constant", "Dropout", "Flatten", "Gather", "Identity", "Reshape", "Shape"),
    *("Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"),
)


@public
def load_network(
    source: Any, module: Any = None, *, shape: Sequence[int] | None = None, mean: Any = 0.0, std: Any = 1.0
) -> Deep:
    """A piecewise linear network of others as the `Deep` that `radii`, `certify` and `audit` take.

    Linear and convolutional layers, ReLU and leaky ReLU, batch norm, average and max-pooling, constant
    scaling and, in ONNX, residual additions become plain layers with the same outputs on flat inputs
    (channel first). Convolutions are unrolled, and what a residual addition adds passes the layers
    between through neurons of its own, so the network is larger than the file: print it to see how
    large. Anything else is refused by name. Files are read, never run.

    Args:
        source: an ONNX file (needs the extra `onnx`), a file of torch tensors or safetensors, a mapping
            of tensors, or a `torch.nn.Sequential`.
        module: for tensors, the `torch.nn.Sequential` that they are the weights of, by name or else in
            their order. Without it they are linear layers with ReLUs between them.
        shape: of one input, such as (1, 28, 28): needed for a Sequential that begins with a
            convolution.
        mean: subtracted from the inputs first, one number or one for each channel.
        std: what they are divided by then; radii are in the units before.

    >>> import torch
    >>> import featavg as fa
    >>> layers = torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(18, 3)
    >>> fa.load_network(torch.nn.Sequential(*layers), shape=(1, 5, 5))
    Deep(25 to 18 to 3, ReLU())
    """
    net = _loaded(source, module, None if shape is None else tuple(shape))
    shape = (net.dimension,) if shape is None else shape
    if net.dimension != int(np.prod(shape)):
        problem = f"is {tuple(shape)} for a network of {net.dimension} inputs"
        raise InputError("shape", problem, "give that of one input")
    return behind_normalisation(net, mean, std, tuple(shape))


def _loaded(source: Any, module: Any, shape: tuple[int, ...] | None) -> Deep:
    if not isinstance(source, str | os.PathLike):
        torch_needed("load_network")
        from featavg.nets.loading.sequential import sequential_network

        if isinstance(source, Mapping):
            return _tensors(source, module, shape, "source")
        if not hasattr(source, "forward"):
            remedy = "give a file, a mapping of tensors or a torch.nn.Sequential"
            raise InputError("source", f"is a {type(source).__name__}", remedy)
        return sequential_network(source, shape)
    path = Path(source)
    if path.suffix == ".onnx":
        if module is not None:
            raise InputError("module", "is given for an ONNX file", "leave it out")
        return _onnx(path)
    torch_needed("load_network")
    from featavg.nets.torch.image_nets import read_tensors

    return _tensors(read_tensors(path), module, shape, str(path))


def _tensors(tensors: Mapping[str, Any], module: Any, shape: tuple[int, ...] | None, source: str) -> Deep:
    """The weights of a Sequential, or linear layers with ReLUs between them."""
    from torch import Tensor

    from featavg.nets.loading.sequential import filled, sequential_network

    if not tensors or not all(isinstance(one, Tensor) for one in tensors.values()):
        raise InputError(source, "holds no table of tensors", "give a state dict")
    if module is not None:
        return sequential_network(filled(module, tensors, source), shape)
    weights: list[ndarray] = []
    biases: list[ndarray | None] = []
    for name, tensor in tensors.items():
        array = tensor.detach().cpu().double().numpy()
        if array.ndim == 2:
            weights.append(array)
            biases.append(None)
        elif array.ndim == 1 and weights and biases[-1] is None and name.endswith("bias"):
            biases[-1] = array
        else:
            problem = f"holds {name} of shape {array.shape}, which says too little of its layer"
            raise InputError(source, problem, "give the torch.nn.Sequential as `module`")
    return Deep(tuple(weights), tuple(biases))


def _onnx(path: Path) -> Deep:
    """The network of an ONNX file, on flat inputs."""
    content = read_bytes(path, ARRAY_LIMIT)
    try:
        import onnx
        from onnx.helper import get_attribute_value
        from onnx.numpy_helper import to_array
    except ModuleNotFoundError as error:
        from featavg.storage.places import install_command

        problem = "is an ONNX file, and onnx is not installed"
        raise InputError(str(path), problem, install_command("onnx")) from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # of protobuf
        raise InputError(str(path), "is no ONNX file, or damaged", "export it again") from error
    _refuse_code(model, str(path))
    graph = model.graph
    known: dict[str, Any] = {t.name: to_array(t) for t in graph.initializer}
    inputs = [one for one in graph.input if one.name not in known]
    if len(inputs) != 1 or len(graph.output) != 1:
        problem = f"has {len(inputs)} inputs and {len(graph.output)} outputs"
        raise InputError(str(path), problem, "export one of each")
    # An axis without a number is that of the images.
    sizes = [d.dim_value for d in inputs[0].type.tensor_type.shape.dim]
    if not sizes or not all(sizes[1:]) or (sizes[0] > 1 and len(sizes) > 1):
        problem = f"has an input of shape {sizes}, 0 where it is open"
        raise InputError(str(path), problem, "export it for one image")
    nodes = [(node, {a.name: get_attribute_value(a) for a in node.attribute}) for node in graph.node]
    slopes = {"Relu": 0.0, "MaxPool": 0.0, "LeakyRelu": LEAK}
    bends = [about.get("alpha", slopes[n.op_type]) for n, about in nodes if n.op_type in slopes]
    net = Layers((sizes[0] or 1, *sizes[1:]), bends)
    net.known = known | {inputs[0].name: net.input}
    opsets = {d.domain: d.version for d in model.opset_import}
    output = graph.output[0].name
    # Where each tensor is read for the last time: no layer carries it further.
    last = {name: number for number, (node, _) in enumerate(nodes) for name in node.input} | {output: len(nodes)}
    for number, (node, about) in enumerate(nodes):
        try:
            given = [net.known[name] if name else None for name in node.input]
            net.known = {name: one for name, one in net.known.items() if last.get(name, -1) > number}
            found = _given_by(node, about, given, net, opsets)
            net.known |= found  # after what it may have changed
        except (InputError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file makes NumPy say
            article = "an" if node.op_type[:1] in "AEIOU" else "a"
            problem = f"has {article} {node.op_type} that cannot be read ({message_of(error)})"
            raise InputError(str(path), problem, "export it again") from error
    value = net.known.get(output)
    if not isinstance(value, Affine):
        raise InputError(str(path), "has an output that does not depend on its input", "export it again")
    return net.network(value)


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


def behind_normalisation(net: Deep, mean: Any, std: Any, shape: tuple[int, ...]) -> Deep:
    """The network of x where `net` is that of (x - mean) / std."""
    shift, scale = normalisation(mean, std, shape)
    first = net.weights[0] / scale
    biases = list(net.biases or (None,) * net.depth)
    biases[0] = (0.0 if biases[0] is None else biases[0]) - first @ shift
    return Deep((first, *net.weights[1:]), tuple(biases), net.activation, net.residual)


def normalisation(mean: Any, std: Any, shape: tuple[int, ...]) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    """What is subtracted from each coordinate and what it is divided by."""
    flat = []
    for name, value in (("mean", mean), ("std", std)):
        array = np.asarray(value, dtype=float)
        array = array[:, None, None] if array.ndim == 1 and len(shape) == 3 else array
        if not np.all(np.isfinite(array)):
            raise InputError(name, "holds a number that is not finite", "give finite numbers")
        try:
            flat.append(np.broadcast_to(array, shape).reshape(-1))
        except ValueError as error:
            problem = f"has {array.size} numbers for inputs of shape {tuple(shape)}"
            raise InputError(name, problem, "give one number, or one for each channel") from error
    if not np.all(flat[1] > 0):
        raise InputError("std", "is not positive", "give what the inputs are divided by")
    return flat[0], flat[1]
