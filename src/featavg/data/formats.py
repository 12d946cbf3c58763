"""How image data sets are published: MNIST's idx files and the binary versions of CIFAR."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from featavg.errors import InputError

IDX_BYTES = 0x08


def read_idx(path: Path) -> UInt8[ndarray, "..."]:
    """An idx file: two zero bytes, a type byte, the number of axes, the axes, then the bytes."""
    content = _bytes(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != IDX_BYTES:
        raise _damaged(path, "does not begin like an idx file of bytes")
    axes = content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise _damaged(path, "ends within its header")
    shape = struct.unpack(f">{axes}I", content[4:start])
    if len(content) - start != int(np.prod(shape)):
        raise _damaged(path, f"holds {len(content) - start} values where its header says {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_cifar(path: Path, label_bytes: int) -> tuple[UInt8[ndarray, "n b"], ndarray]:
    """Rows of label bytes (CIFAR-10: class; CIFAR-100: coarse, fine) and 3 x 32 x 32 pixels.

    Returns:
        the labels, and the pixels with the channel first.
    """
    content = _bytes(path)
    width = label_bytes + 3072
    if not content or len(content) % width:
        raise _damaged(path, f"holds {len(content)} bytes, no multiple of {width}")
    rows = np.frombuffer(content, np.uint8).reshape(-1, width)
    return rows[:, :label_bytes], rows[:, label_bytes:].reshape(-1, 3, 32, 32)


def read_names(path: Path) -> tuple[str, ...]:
    """The names of classes, one per line."""
    return tuple(path.read_text(encoding="utf-8").split())


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(str(path), problem, "run `featavg data` to see what is there") from error


def _damaged(path: Path, how: str) -> InputError:
    return InputError(str(path), f"is damaged: it {how}", "delete it and get it again")
