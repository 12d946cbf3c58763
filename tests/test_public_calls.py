"""Public names called once: nothing of the user's changes, and answers fit a screen."""

from __future__ import annotations

import hashlib
import inspect
import random
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.public_calls import CALLS, SLOW, inside

import featavg as fa
from featavg.boundary.public import hints

LINES, COLUMNS = 50, 120  # an audit explains each of its numbers


def fingerprint(thing: Any) -> str:
    """All bytes that a call could change: arrays, weights, gradients, modes, hooks."""
    if isinstance(thing, np.ndarray):
        flags = (thing.dtype.str, thing.shape, thing.flags.writeable)
        return hashlib.sha256(repr(flags).encode() + thing.tobytes()).hexdigest()
    if hasattr(thing, "named_modules"):
        parts = [(n, m.training, len(m._forward_hooks), len(m._backward_hooks)) for n, m in thing.named_modules()]
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


FULL = [pytest.param(name, marks=pytest.mark.full) for name in SLOW]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*sorted(set(CALLS) - SLOW), *FULL])
def test_a_call_changes_nothing_of_the_users_and_its_answer_fits_a_screen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    import sklearn.datasets  # noqa: F401 (draws when it is first imported, which is not ours)

    monkeypatch.chdir(tmp_path)
    given = CALLS[name]() | inside(tmp_path).get(name, {})
    before, states = fingerprint(given), randomness()
    answer = getattr(fa, name)(**given)
    assert fingerprint(given) == before, "changed its arguments"
    assert randomness() == states, "drew from a generator of the user's"
    if not isinstance(answer, (np.ndarray, tuple, list, dict)):  # of records: as many as there are
        lines = repr(answer).splitlines()
        assert sum(1 + len(line) // COLUMNS for line in lines) <= LINES


def test_the_table_has_every_function_that_takes_arguments() -> None:
    functions = {name for name in fa.__all__ if inspect.isfunction(getattr(fa, name))}
    assert functions - set(CALLS) == set()


def test_a_public_function_says_so_and_its_annotations_can_be_resolved() -> None:
    for name in fa.__all__:
        thing = getattr(fa, name)
        if inspect.isfunction(thing):
            assert hints(thing.__wrapped__), name
