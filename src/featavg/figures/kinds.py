"""The kinds of panel: one table for each renderer, keyed by the panel's type.

A kind is a frozen dataclass with a `title` and the methods of `Panel`. To add one, write a file that
holds the dataclass and its two drawings and calls `add_panel`, and import it in `figure`:

    @dataclass(frozen=True)
    class Rose:
        angles: Numbers
        title: str = ""
        square: ClassVar[bool] = True

        def table(self) -> Iterator[Row]: ...
        def labels(self) -> Iterator[Label]: ...

    add_panel(Rose, on_paper, on_screen)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

Row: TypeAlias = dict[str, Any]
Json: TypeAlias = dict[str, Any]


class Label(NamedTuple):
    """An entry of the legend; `look` is a line style, "markers" or "block"."""

    text: str
    role: str
    shade: float
    look: str


@runtime_checkable
class Panel(Protocol):
    """What every kind of panel can say of itself."""

    @property
    def title(self) -> str:
        """What stands above it."""

    @property
    def square(self) -> bool:
        """Whether it wants to be about as high as wide."""

    def table(self) -> Iterator[Row]:
        """Its numbers, for the CSV file: rows with some of the columns of `figure.COLUMNS`."""

    def labels(self) -> Iterator[Label]:
        """Its entries in the legend."""


@runtime_checkable
class Drawable(Protocol):
    """What a renderer asks of a figure; so `Figure` may use the renderers to show itself."""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Left to right, top to bottom."""

    def csv(self) -> str:
        """Its numbers."""


# Draws a panel on matplotlib's axes and returns the legend's entries by label.
OnPaper: TypeAlias = Callable[[Any, Any], dict[str, Any]]
# The panel as plotly's `{data, layout, aspect}`.
OnScreen: TypeAlias = Callable[[Any], Json]

PARTS: dict[str, type[Any]] = {}
MATPLOTLIB: dict[type[Any], OnPaper] = {}
PLOTLY: dict[type[Any], OnScreen] = {}


def add_panel(kind: type[Any], on_paper: OnPaper, on_screen: OnScreen) -> None:
    """Let figures have panels of this kind: drawn by both, and read back from JSON."""
    PARTS[kind.__name__], MATPLOTLIB[kind], PLOTLY[kind] = kind, on_paper, on_screen
