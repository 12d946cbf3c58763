"""Parts that are chosen by name, in one table: a name is an entry here, or a file in a folder.

`training/steppers/x.py` holds the stepper "x": settings, flags, help texts and error messages know it
because the file is there. The entries of a table below are parts that share a file with others, or
whose folder holds other files too. Names are known without importing anything, so that
`featavg --help` answers at once; a part is imported when it is first built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from featavg.errors import InputError, one_of

_PACKAGE = Path(__file__).parent
_TYPES: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": {"true": True, "false": False}.__getitem__,
}


class Registry(Mapping[str, Any]):
    """The parts of one kind, by name.

    A part is a dataclass whose fields are its options. Where an object is expected, so is its name,
    with options behind colons: `momentum` or `momentum:beta=0.5`.

    Args:
        kind: what the parts are called in settings and messages.
        folder: their folder, relative to the package.
        table: the files of the parts that share one with others, by name.
        scanned: whether every other file of the folder (but `_x.py`) is a part; otherwise `table`
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
        self, kind: str, folder: str, table: Mapping[str, str] = MappingProxyType({}), scanned: bool = True
    ) -> None:
        self.kind, self.folder, self._table, self._scanned = kind, folder, table, scanned
        self._added: dict[str, Any] = {}
        self._found: dict[str, Any] = {}

    @cached_property
    def _listed(self) -> list[str]:
        """The names of table and folder, read once: a sweep builds thousands of settings."""
        if not self._scanned:
            return list(self._table)
        files = (path.stem for path in (_PACKAGE / self.folder).glob("*.py"))
        return sorted({*self._table, *(name.replace("_", "-") for name in files if not name.startswith("_"))})

    def __iter__(self) -> Iterator[str]:
        names = [*self._listed, *self._added]
        return iter(sorted(names) if self._scanned else names)

    def __len__(self) -> int:
        return len(self._listed) + len(self._added)

    def __contains__(self, name: object) -> bool:
        return name in self._listed or name in self._added

    def __str__(self) -> str:
        """For a help text, such as "adam, flow, gd or momentum"."""
        *most, last = self
        return f"{', '.join(most)} or {last}"

    def add(self, part: Any) -> Any:
        """Make a class of your own known under its `name`; usable as a decorator."""
        name = str(part.name)
        if name in self:
            raise InputError(self.kind, f"{name!r} exists already", "choose another name")
        self._added[name] = part
        return part

    def remove(self, name: str) -> None:
        """Forget a class that was added."""
        del self._added[name]

    def __getitem__(self, name: str) -> Any:
        """The class of a part (the object, where parts are objects)."""
        if name in self._added:
            return self._added[name]
        if name not in self._found:
            one_of(self.kind, name, self)
            file = self._table.get(name, name.replace("-", "_"))
            module = import_module(f"featavg.{self.folder.replace('/', '.')}.{file}")
            parts = (thing for thing in vars(module).values() if getattr(thing, "name", None) == name)
            self._found[name] = next(parts)
        return self._found[name]

    def build(self, part: Any, **settings: object) -> Any:
        """The part that `part` names; an object is returned as it is.

        Args:
            part: a name, perhaps with options, or a part.
            settings: options that every part of the kind may have; a part takes those it knows.
        """
        if isinstance(part, type):
            raise InputError(self.kind, f"is the class {part.__name__}", f"give {part.__name__}(...) or a name")
        if not isinstance(part, str):
            if not hasattr(part, "name"):
                raise InputError(self.kind, f"is {part!r:.40}", f"give {self}, or a part of yours")
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
            field = known[option]
            wanted = getattr(field.type, "__name__", str(field.type)).split(" ", maxsplit=1)[0]
            try:
                options[option] = _TYPES[wanted](value)
            except (KeyError, ValueError):
                remedy = f"give {option} as {wanted}, such as {option}={field.default}"
                raise InputError(self.kind, f"is {part!r}", remedy) from None
        return made(**options)


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


def _table(**files: str) -> dict[str, str]:
    """The file of each name, from the names of each file."""
    return {name: file for file, names in files.items() for name in names.split()}


STEPPERS = Registry("stepper", "training/steppers", _table(_descent="adam gd momentum sgd sign weight-decay"))
CONTROLLERS = Registry(
    "controller", "training/controllers", _table(_rules="constant cosine error loss-based step-decay warmup")
)
LOSSES = Registry(
    "loss",
    "training/losses",
    _table(
        _binary="exponential logistic pooled-logistic smoothed-logistic",
        _outputs="cross-entropy partial-cross-entropy smoothed-cross-entropy",
    ),
)
ACTIVATIONS = Registry("activation", "nets/activations", _table(_activation="relu leaky-relu"))
POOLINGS = Registry("pooling", "nets/readouts", _table(_readout="max mean sum", soft="probability"))
# Those of the poolings that also make the outputs of clusters a class.
READOUTS = ("probability", "max", "sum")
# The kinds of networks that a saved run may hold; the paper layer adds its own.
NETWORKS = Registry("net", "nets", {"two-layer": "two_layer", "deep": "deep"}, scanned=False)
# In the order of help texts.
_SETS = {"digits": "digits", "mnist": "digits", "cifar10": "cifar", "cifar100": "cifar"}
IMAGE_SETS = Registry("data", "data/image_sets", _SETS, scanned=False)
