"""A sabotage: a mutation of the simulated truth under which a claim must no longer hold.

A theme's rows are in `sabotage_<theme>.py`, a tuple `ROWS` of `Sabotage`; `test_sabotage.py` collects
them all. A row's `small` shrinks the experiment (so that it runs in a second or two) and `mutate`
breaks the truth; both get pytest's monkeypatch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType

import pytest

Patch = Callable[[pytest.MonkeyPatch], None]


def _nothing(patch: pytest.MonkeyPatch) -> None:
    """The claim is small enough as it is."""


@dataclass(frozen=True)
class Sabotage:
    """Claims, what is broken in words, and how.

    Attributes:
        claims: their ids, comma-separated; they may share runs.
        what: the mutation of the truth, in words.
        mutate: makes it.
        small: shrinks the experiment, for the honest run too.
        given: parameters of the claims, for both runs.
        seeds: what both runs are told.
        improves: for a claim that fails honestly: under this mutation a failed check must pass.
        needs: packages without which the claim cannot be run.
        found: the verdict of the honest run, where it is that of the claim on one seed.
    """

    claims: str
    what: str
    mutate: Patch
    small: Patch = _nothing
    given: Mapping[str, object] = field(default_factory=dict)
    seeds: tuple[int, ...] = (0,)
    improves: bool = False
    needs: tuple[str, ...] = ()
    found: str = ""

    def __repr__(self) -> str:
        return f"{self.claims}: {self.what}"


def together(*patches: Patch) -> Patch:
    """Several patches as one."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for each in patches:
            each(patch)

    return apply


def setting(module: ModuleType, **changes: object) -> Patch:
    """A patch that sets names of one module."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in changes.items():
            patch.setattr(module, name, value)

    return apply


def giving(module: ModuleType, **values: object) -> Patch:
    """A patch that replaces functions of one module by ones that give these values, whatever they are asked."""
    return setting(module, **{name: lambda *_, value=value, **__: value for name, value in values.items()})


def everywhere(patch: pytest.MonkeyPatch, module: ModuleType, name: str, value: object) -> None:
    """Replace `module.name` there and in every featavg module that imported the same object."""
    original = getattr(module, name)
    for other in list(sys.modules.values()):
        known = getattr(other, "__name__", "").startswith("featavg.")
        if known and getattr(other, "__dict__", {}).get(name) is original:
            patch.setattr(other, name, value)


def forget_results() -> None:
    """Empty every cache of an experiment or a claim: nothing may be remembered across a sabotage."""
    for name, module in list(sys.modules.items()):
        if name.startswith("featavg.paper."):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if clear is not None and getattr(value, "__name__", "") != "all_claims":
                    clear()
