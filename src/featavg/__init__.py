"""featavg: does a network average its features, what does that cost, and what helps?

The public names are stated once, in `__init__.pyi` beside this file. Type checkers read them there, and
so does this module, which imports a name when it is first used: `import featavg` loads nothing else.
"""

import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from types import ModuleType as _ModuleType

__version__ = "0.2.0"


def _homes() -> dict[str, str]:
    """The public names, each with the module that defines it."""
    page = _Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    page = page.replace("(\n    ", "").replace(",\n)", "")  # lines that the formatter has broken
    lines = (line.split() for line in page.splitlines() if line.startswith("from "))
    return {name: module for _, module, _, name, *_ in lines}


_HOMES = _homes()
__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 (names, read from the page)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if home == __name__:  # a folder such as `featavg.paper`
        return _import_module(f"{home}.{name}")
    try:
        module = _import_module(home)
        # A namespace such as `featavg.attacks` is a module itself.
        return getattr(module, name) if hasattr(module, name) else _import_module(f"{home}.{name}")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        from featavg.errors import torch_needed

        torch_needed(f"featavg.{name}")
        raise


def __dir__() -> list[str]:
    return sorted(__all__)


class _Package(_ModuleType):
    """Keeps `featavg.audit` the public function when Python imports the folder of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _HOMES or not isinstance(value, _ModuleType):
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
