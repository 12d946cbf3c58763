"""What every experiment returns: numbers with a figure, JSON, and a text that fits a screen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from typing import Any

from featavg.figures.figure import Figure


class Result(ABC):
    """A finished experiment; subclasses are frozen dataclasses with `repr=False`.

    A notebook shows the figure above the text; a terminal shows the text.

    >>> from dataclasses import dataclass
    >>> from featavg.figures.figure import Axis, Lines, Series
    >>> @dataclass(frozen=True, repr=False)
    ... class Line(Result):
    ...     slope: float
    ...     def figure(self):
    ...         series = (Series("line", [0.0, 1.0], [0.0, self.slope], "averaged"),)
    ...         return Figure("line", "A line", "Up.", (Lines(Axis("x"), Axis("y"), series),))
    ...     def to_json(self):
    ...         return {"slope": self.slope}
    ...     def summary(self):
    ...         return f"A line of slope {self.slope:g}."
    >>> Line(2.0)
    A line of slope 2.
    >>> Line(2.0)._repr_html_().startswith("<figure><svg")
    True
    """

    @abstractmethod
    def figure(self) -> Figure:
        """The figure that shows the result."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values that `json.dumps` takes."""

    @abstractmethod
    def summary(self) -> str:
        """The result in a few lines of text."""

    def __repr__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        # Summaries have long lines, and a notebook has no room beside it.
        text = f'<pre style="white-space: pre-wrap">{escape(self.summary())}</pre>'
        return self.figure()._repr_html_() + text
