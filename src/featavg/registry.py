"""Parts that are chosen by name: a file in a folder is a part, and its name is the file's.

`training/steppers/momentum.py` holds the stepper "momentum": settings, flags, help texts and error
messages know it because the file is there. Names are read from the folder without importing
anything, so that `featavg --help` answers at once; a part is imported when it is first built.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from featavg.errors import InputError, one_of

if TYPE_CHECKING:
    from featavg.nets.activations._activation import Activation
    from featavg.training.parts import Controller, Loss, Stepper

P = TypeVar("P")
_PACKAGE = Path(__file__).parent


class Registry(Generic[P]):
    """The parts of one kind, by name.

    A part is a dataclass whose fields are its options. Where an object is expected, so is its name,
    with options behind colons: `momentum` or `momentum:beta=0.5`.

    Args:
        kind: what the parts are called in settings and messages.
        folder: their folder, relative to the package.
        shared: the files of the parts that share one with others, by name.
        scanned: whether every other file of the folder (but `_x.py`) is a part; otherwise `shared`
            has all of them, in their order.

    >>> import featavg as fa
    >>> "momentum" in STEPPERS
    True
    >>> STEPPERS.build("momentum:beta=0.5")
    Momentum(beta=0.5)
    >>> STEPPERS.build("momentun")
    Traceback (most recent call last):
        ...
    featavg.errors.InputError: stepper is 'momentun': choose one of ...
    """

    def __init__(
        self, kind: str, folder: str, shared: Mapping[str, str] = MappingProxyType({}), scanned: bool = True
    ) -> None:
        self.kind, self.folder, self._shared, self._scanned = kind, folder, shared, scanned
        self._added: dict[str, type[P]] = {}

    def names(self) -> list[str]:
        """All of them, in alphabetical order unless they are listed in another."""
        if not self._scanned:
            return [*self._shared, *self._added]
        return sorted({*self._files, *self._shared, *self._added})

    @cached_property
    def _files(self) -> frozenset[str]:
        """The names of the files, read once: a sweep builds thousands of settings."""
        files = (path.stem for path in (_PACKAGE / self.folder).glob("*.py"))
        return frozenset(name.replace("_", "-") for name in files if not name.startswith("_"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __str__(self) -> str:
        """For a help text, such as "adam, flow, gd or momentum"."""
        *most, last = self.names()
        return f"{', '.join(most)} or {last}"

    def add(self, part: type[P]) -> type[P]:
        """Make a class of your own known under its `name`; usable as a decorator."""
        name = str(part.name)  # type: ignore[attr-defined]
        if name in self:
            raise InputError(self.kind, f"{name!r} exists already", "choose another name")
        self._added[name] = part
        return part

    def remove(self, name: str) -> None:
        """Forget a class that was added."""
        del self._added[name]

    def __getitem__(self, name: str) -> type[P]:
        """The class of a part."""
        one_of(self.kind, name, self)
        if name in self._added:
            return self._added[name]
        file = self._shared.get(name, name.replace("-", "_"))
        where = f"featavg.{self.folder.replace('/', '.')}.{file}"
        module = import_module(where)
        for thing in vars(module).values():
            if getattr(thing, "__module__", None) == where and getattr(thing, "name", None) == name:
                return thing
        raise TypeError(f"{where} has no class with the name {name!r}")

    def build(self, part: P | str, **settings: object) -> P:
        """The part that `part` names; an object is returned as it is.

        Args:
            part: a name, perhaps with options, or a part.
            settings: options that every part of the kind may have; a part takes those it knows.
        """
        if not isinstance(part, str):
            self._refuse_strangers(part)
            return part
        name, *given = part.split(":")
        made = self[name]
        known = {field.name: field for field in _options(made)}
        options = {option: value for option, value in settings.items() if option in known}
        for text in given:
            option, _, value = text.partition("=")
            if option not in known:
                remedy = f"{name} has {', '.join(known) or 'no options'}"
                raise InputError(self.kind, f"is {part!r} with the option {option!r}", remedy)
            options[option] = self._value(part, known[option], value)
        return made(**options)

    def _refuse_strangers(self, part: object) -> None:
        """A part has a name, and is an object: `Adam()`, not the class."""
        if isinstance(part, type):
            problem, remedy = (f"is the class {part.__name__}", f"give {part.__name__}(...) or a name")
            raise InputError(self.kind, problem, remedy)
        if not hasattr(part, "name"):
            raise InputError(self.kind, f"is {part!r:.40}", f"give {self}, or a part of yours")

    def _value(self, part: str, field: Field[Any], text: str) -> object:
        """An option as its annotation wants it."""
        wanted = getattr(field.type, "__name__", str(field.type)).split(" ", maxsplit=1)[0]
        try:
            if wanted == "bool":
                return {"true": True, "false": False}[text]
            return {"int": int, "float": float, "str": str}[wanted](text)
        except (KeyError, ValueError):
            remedy = f"give {field.name} as {wanted}, such as {field.name}={field.default}"
            raise InputError(self.kind, f"is {part!r}", remedy) from None


def spec(part: Any) -> str:
    """A part as text that `Registry.build` reads back to an equal one.

    >>> spec(STEPPERS.build("momentum"))
    'momentum:beta=0.9'
    """
    options = [(field.name, getattr(part, field.name)) for field in _options(part)]
    texts = [f"{n}={str(v).lower() if isinstance(v, bool) else v}" for n, v in options]
    return ":".join([part.name, *texts])


def _options(part: Any) -> list[Field[Any]]:
    """What can be chosen about a part: the fields of its dataclass."""
    return [field for field in fields(part) if field.init] if is_dataclass(part) else []


STEPPERS: Registry[Stepper] = Registry(
    "stepper", "training/steppers", dict.fromkeys(("adam", "gd", "momentum", "sgd", "sign", "weight-decay"), "_descent")
)
CONTROLLERS: Registry[Controller] = Registry(
    "controller",
    "training/controllers",
    dict.fromkeys(("constant", "cosine", "error", "loss-based", "step-decay", "warmup"), "_rules"),
)
LOSSES: Registry[Loss] = Registry(
    "loss",
    "training/losses",
    dict.fromkeys(("exponential", "logistic", "pooled-logistic", "smoothed-logistic"), "_binary")
    | dict.fromkeys(("cross-entropy", "partial-cross-entropy", "smoothed-cross-entropy"), "_outputs"),
)
ACTIVATIONS: Registry[Activation] = Registry(
    "activation", "nets/activations", {"relu": "_activation", "leaky-relu": "_activation"}
)
POOLINGS: Registry[Any] = Registry(
    "pooling", "nets/readouts", {"max": "_readout", "mean": "_readout", "sum": "_readout", "probability": "soft"}
)
