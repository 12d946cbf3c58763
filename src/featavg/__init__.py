"""featavg: does a network average its features, what does that cost, and how is it undone?

The public surface is stated once, in `__init__.pyi` beside this file: type checkers read it there,
and so does this module, which imports a name when it is first used. `import featavg` and
`featavg --help` therefore cost next to nothing.
"""

from functools import cache
from importlib import import_module
from pathlib import Path

__version__ = "0.2.0"


def _homes() -> dict[str, str]:
    """Which module each public name lives in."""
    stated = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    lines = [line.split() for line in stated.splitlines() if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in lines}


_HOME_OF = _homes()
__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 (names, read from the stub)


# Cached here and not in the module's own names: doctest would find every function that was used
# there once more, and run its example without what its own module imports.
@cache
def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'featavg' has no attribute {name!r}")
    from featavg.boundary import guarded

    return guarded(getattr(import_module(_HOME_OF[name]), name))


def __dir__() -> list[str]:
    return sorted(__all__)
