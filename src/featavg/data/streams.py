"""Independent streams of random numbers: one for each purpose of each seed."""

from __future__ import annotations

import zlib

import numpy as np

from featavg.errors import whole


def stream(seed: int, purpose: str) -> np.random.Generator:
    """The generator that `seed` has for `purpose`.

    Two purposes of one seed are independent, so a test point never repeats the noise of a training
    point, and drawing more of one thing leaves the others as they were.

    >>> bool(stream(0, "noise").normal() == stream(0, "noise").normal())
    True
    >>> bool(stream(0, "noise").normal() == stream(0, "weights").normal())
    False
    """
    return np.random.default_rng([whole("seed", seed, least=0), zlib.crc32(purpose.encode())])
