"""Bad arguments of methods: of what public calls return, and of the networks inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tests import small
from tests.bad_inputs.calls import bad_values, shown
from tests.bad_inputs.case import Case
from tests.bad_inputs.odd_values import made

import featavg as fa
from featavg.boundary import resolved_annotations


@cache
def radii() -> fa.Radii:
    return fa.radii(small.run("fine"), small.points())


@cache
def simulation() -> fa.Simulation:
    return fa.simulate(k=4, d=30, n=20, steps=3, n_test=10)


OBJECTS: dict[str, Callable[[], Any]] = {
    "task": small.task,
    "points": small.points,
    "trajectory": small.run,
    "trajectory.net": lambda: small.run().net,
    "training_set": small.training_set,
    "deep": small.deep,
    "shallow": small.shallow,
    "radii": radii,
    "simulation": simulation,
    "image_task": small.pictures,
    "lattice": lambda: fa.Lattice(m=3),
    "slabs": lambda: fa.Slabs(blocks=[5, 7]),
    "on_subspace": lambda: fa.OnSubspace(k=4, d=40, r=10),
    "leaky_relu": fa.LeakyReLU,
    "power_relu": lambda: fa.PowerReLU(p=2.0),
    "useful_feature": lambda: fa.UsefulFeature(small.task(), [1.0, 1.0, 1.0, 1.0]),
    "setting": fa.Setting,
    "recipe": fa.Recipe,
    "save_at": fa.SaveAt,
    "step_decay": lambda: fa.StepDecay(rate=0.1),
    "image_recipe": fa.ImageRecipe,
    "attack": fa.PGD,
    "model": lambda: fa.network_model(small.run().net),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for name, make in OBJECTS.items():
        for method, function in _methods(type(make())):
            signature, annotations = resolved_annotations(inspect.unwrap(function))
            for parameter, annotation in annotations.items():
                if parameter == "self" or signature.parameters[parameter].kind in (
                    inspect.Parameter.VAR_POSITIONAL,
                    inspect.Parameter.VAR_KEYWORD,
                ):
                    continue
                for value in bad_values(parameter, annotation, whole=False):
                    yield _case(name, make, method, parameter, value)
            yield _case(name, make, method, "no_such_argument", 1)


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in inspect.getmembers(kind, inspect.isfunction):
        ours = member.__module__.startswith("featavg.")
        is_open = name == "__call__" or not name.startswith("_")
        if ours and is_open and len(inspect.signature(member).parameters) > 1:
            yield name, member


def _case(name: str, make: Callable[[], Any], method: str, parameter: str, value: Any) -> Case:
    def call() -> Any:
        return getattr(make(), method)(**{parameter: made(value)})

    return Case(
        f"{name}.{method}({parameter}={shown(value)})", (parameter,), call, is_command=False
    )
