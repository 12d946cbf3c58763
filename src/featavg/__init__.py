"""featavg: does a network average its features, what does that cost, and how is it undone?

The public surface is stated once, in `__init__.pyi` beside this file: type checkers read it there,
and so does this module, which imports a name when it is first used. `import featavg` and
`featavg --help` therefore cost next to nothing.
"""

from functools import cache as _cache

from featavg.faces import face as _face
from featavg.faces import homes as _homes

__version__ = "0.2.0"
__all__ = ["__version__", *sorted(_homes(__file__))]  # noqa: PLE0604 (names, read from the page)

_look_up, _ = _face(__name__, __file__)


# Kept, unlike the names of a folder: what is guarded is one object, which can be pickled. And kept
# here, not in the module's own names: doctest would find every function that was used there once
# more, and run its example without what its own module imports.
@_cache
def __getattr__(name: str) -> object:
    public = _look_up(name)
    from featavg.boundary import guarded

    return guarded(public)


def __dir__() -> list[str]:
    return sorted(__all__)
