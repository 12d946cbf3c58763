"""Which attacks there are: one visible list of modules, the attacks defined in each.

To add an attack, write a file with a subclass of `Attack` and add its module to `MODULES`: its name is
then known to `attack_suite`, to error messages, and, if `default` says so, part of every suite. The
order of `MODULES` is the order in which attacks run.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module

from featavg.errors import InputError
from featavg.robustness.attacks.attack import Attack, FeatureDirections
from featavg.robustness.attacks.foolbox_bridge import PREFIX, Foolbox
from featavg.robustness.models.model import Model

MODULES = (
    "featavg.robustness.attacks.strongest",
    "featavg.robustness.attacks.targeted_ddn",
    "featavg.robustness.attacks.deepfool",
    "featavg.robustness.attacks.directions",
    "featavg.robustness.attacks.fmn",
    "featavg.robustness.attacks.pgd",
    "featavg.robustness.attacks.apgd",
    "featavg.robustness.attacks.random_starts",
    "featavg.robustness.attacks.polish",
)


def known_attacks() -> dict[str, Attack]:
    """Every registered attack with its usual settings, by name.

    >>> ", ".join(known_attacks())
    'strongest, ddn, deepfool, directions, fmn, pgd, apgd, random-starts, polish'
    """
    return {attack.name: attack for module in MODULES for attack in _attacks_of(module)}


def _attacks_of(module: str) -> Iterator[Attack]:
    for thing in vars(import_module(module)).values():
        is_attack = isinstance(thing, type) and issubclass(thing, Attack)
        if is_attack and thing.__module__ == module and not inspect.isabstract(thing):
            yield thing()


def chosen_attacks(
    attacks: str | Attack | Sequence[str | Attack] | None,
    model: Model,
    norm: str,
    features: FeatureDirections | None = None,
) -> tuple[Attack, ...]:
    """The attacks to run, those that refine others last; one that does not apply is refused.

    Args:
        attacks: names, objects, or both; None for all that are usual and apply.
    """
    known = known_attacks()
    if attacks is None:
        usual = [attack for attack in known.values() if attack.default and attack.usual_for(model)]
        return tuple(attack for attack in usual if attack.applies_to(model, norm, features))
    if isinstance(attacks, str | Attack):
        attacks = [attacks]
    if len(attacks) == 0:
        raise InputError("attacks", "are empty", f"choose from {', '.join(known)}")
    chosen = [_named(item, known) if isinstance(item, str) else item for item in attacks]
    for attack in chosen:
        _refuse_what_is_no_attack(attack)
        obstacle = attack.obstacle(model, norm, features)
        if obstacle is not None:
            raise obstacle
    return tuple(sorted(chosen, key=lambda attack: attack.refines))


def _refuse_what_is_no_attack(thing: object) -> None:
    if not isinstance(thing, Attack):
        raise InputError(
            "attacks",
            f"hold a {type(thing).__name__}",
            "give names, or objects of a class derived from featavg.Attack",
        )


def _named(name: str, known: dict[str, Attack]) -> Attack:
    if name.startswith(PREFIX):
        return Foolbox(name.removeprefix(PREFIX))
    if name not in known:
        options = ", ".join((*known, f"{PREFIX}<class name>"))
        raise InputError("attacks", f"is {name!r}", f"choose one of {options}")
    return known[name]
