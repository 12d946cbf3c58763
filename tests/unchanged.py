"""Call every public name once on small things: nothing of the user's changes, answers fit a screen.

    python -m tests.unchanged [--fast] [NAME ...]

A process of its own, without pytest: the shape checker of the tests draws from Python's generator.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.public_calls import CALLS, SLOW, inside

import featavg as fa

LINES, COLUMNS = 40, 120


def fingerprint(thing: Any) -> str:
    """All bytes that a call could change: arrays, weights, gradients, modes, hooks."""
    if isinstance(thing, np.ndarray):
        flags = (thing.dtype.str, thing.shape, thing.flags.writeable)
        return hashlib.sha256(repr(flags).encode() + thing.tobytes()).hexdigest()
    if hasattr(thing, "named_modules"):
        parts = [
            (n, m.training, len(m._forward_hooks), len(m._backward_hooks))
            for n, m in thing.named_modules()
        ]
        state = {n: v.detach().numpy() for n, v in thing.state_dict().items()}
        grads = [(n, p.requires_grad, p.grad is None) for n, p in thing.named_parameters()]
        return repr(parts) + repr(grads) + fingerprint(state)
    if isinstance(thing, dict):
        return repr([(repr(key), fingerprint(value)) for key, value in thing.items()])
    if isinstance(thing, (list, tuple)):
        return repr([fingerprint(item) for item in thing])
    if type(thing).__name__.endswith("Model"):  # it counts what it was asked
        return fingerprint({n: v for n, v in vars(thing).items() if n != "cost"})
    if is_dataclass(thing) and not isinstance(thing, type):
        return repr([(f.name, fingerprint(getattr(thing, f.name))) for f in fields(thing)])
    if hasattr(thing, "__dict__") and type(thing).__module__.startswith("featavg"):
        return fingerprint({n: v for n, v in vars(thing).items() if isinstance(v, np.ndarray)})
    return type(thing).__name__ if callable(thing) else repr(thing)


def randomness() -> str:
    """The state of everybody's generators."""
    numpy_state = np.random.get_state()[1]  # noqa: NPY002
    states = repr(random.getstate()) + np.asarray(numpy_state).tobytes().hex()
    try:
        import torch
    except ImportError:
        return states
    return states + torch.get_rng_state().numpy().tobytes().hex()


def problems(name: str, folder: Path) -> Iterator[str]:
    """What a call of this name does that it should not."""
    given = CALLS[name]() | inside(folder).get(name, {})
    before, states = fingerprint(given), randomness()
    try:
        answer = getattr(fa, name)(**given)
    except Exception as error:
        yield f"was refused: {type(error).__name__} {error}"
        return
    if fingerprint(given) != before:
        yield "changed its arguments"
    if randomness() != states:
        yield "drew from a generator of the user's"
    if not isinstance(answer, (np.ndarray, tuple, list, dict)):  # of records: as many as there are
        lines = repr(answer).splitlines()
        if sum(1 + len(line) // COLUMNS for line in lines) > LINES:
            yield f"has a repr of {len(lines)} lines, {len(repr(answer))} characters"


def run(names: list[str]) -> int:
    """The number of problems."""
    warnings.simplefilter("ignore")
    import sklearn.datasets  # noqa: F401 (draws when it is first imported, which is not ours)

    count = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            for problem in problems(name, Path(folder)):
                print(f"{name} {problem}", flush=True)
                count += 1
        os.chdir("/")
    print(f"{len(names)} names, {count} problems")
    return count


if __name__ == "__main__":
    asked = [name for name in sys.argv[1:] if name != "--fast"] or sorted(CALLS)
    sys.exit(min(1, run([name for name in asked if "--fast" not in sys.argv or name not in SLOW])))
