"""What can stand for an array, as a plain one: lists, tensors, tables, subclasses, other byte orders."""

from __future__ import annotations

from typing import Any

_NUMBERS = "biuf"  # kinds of NumPy: bool, whole, unsigned, float


def plain_array(value: Any) -> Any:
    """The numbers of `value` as a plain array in this machine's byte order; None if it has none.

    Subclasses count by their numbers: `numpy.matrix` multiplies in a way of its own. What is masked
    is missing, and nobody asked to count it as it lies in memory.

    >>> import numpy as np
    >>> plain_array([[1, 2], [3, 4]]).shape, plain_array([[1], [2, 3]]), plain_array(np.eye(2) * 1j)
    ((2, 2), None, None)
    >>> plain_array(np.ma.masked_less(np.eye(2), 0.5)) is None
    True
    """
    import numpy as np

    if type(value) is np.ndarray and value.dtype.isnative:
        return value if value.dtype.kind in _NUMBERS else None
    if np.ma.is_masked(value):
        return None
    try:
        array = np.asarray(_off_the_graph(value))
    except Exception:  # ragged, nested without end, or an object with an error of its own
        return None
    if array.dtype.kind not in _NUMBERS:
        return None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _off_the_graph(value: Any) -> Any:
    """A tensor of PyTorch without its gradient, and in a type that NumPy has."""
    if not (hasattr(value, "detach") and hasattr(value, "is_floating_point")):
        return value
    tensor = value.detach().cpu()
    return tensor.double() if tensor.is_floating_point() else tensor
