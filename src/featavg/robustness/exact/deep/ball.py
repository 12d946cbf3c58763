"""The ball in which a decision is asked for, what holds in it, and what a bound over it offers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from numpy import ndarray

from featavg.robustness.exact.deep.cuts import Split
from featavg.robustness.exact.deep.layered_network import Layered


@dataclass(frozen=True, eq=False)
class Ball:
    """The ball around a point, and what holds in it.

    Attributes:
        net: the network.
        gram: W W^T of its first layer.
        z: pre-activations of the first layer in the centre.
        radius: of the ball.
        lo, hi: bounds of the pre-activations of every layer in the ball.
        errors: for every layer, the rounding errors of a bound of each pre-activation.
    """

    net: Layered
    gram: Float[ndarray, "m m"]
    z: Float[ndarray, " m"]
    radius: float
    lo: list[Float[ndarray, " _"]]
    hi: list[Float[ndarray, " _"]]
    errors: list[Float[ndarray, " _"]]


@runtime_checkable
class Relaxed(Protocol):
    """A lower bound at some parameters."""

    @property
    def bound(self) -> float:
        """What it is, up to rounding."""
        ...

    @property
    def height(self) -> float:
        """What an ascent raises: the bound, or one behind a barrier."""
        ...

    @property
    def gradient(self) -> Float[ndarray, " n"]:
        """Of the height in the parameters."""
        ...

    @property
    def gaps(self) -> list[Float[ndarray, " _"]]:
        """For every hidden layer, what the relaxation of each neuron loses."""
        ...


@runtime_checkable
class Relaxation(Protocol):
    """A lower bound of inequalities on a part of a ball, for any parameters theta."""

    def start(self) -> Float[ndarray, " n"]:
        """Parameters at which there is a bound."""
        ...

    def value(self, theta: Float[ndarray, " n"]) -> Relaxed | None:
        """The bound and its gradient; None where there is none."""
        ...

    def levels(self) -> Sequence[Callable[[Float[ndarray, " n"]], Relaxed | None]]:
        """What an ascent raises, one after the other; the last is nearest to the bound itself."""
        ...

    def proven(self, theta: Float[ndarray, " n"]) -> float:
        """The bound with all rounding errors charged."""
        ...

    def step(self, value: Any, theta: Float[ndarray, " n"]) -> Float[ndarray, " r"]:
        """The step at which the relaxation is least."""
        ...

    def child(
        self, theta: Float[ndarray, " n"], value: Any, split: Split
    ) -> tuple[Relaxation, Float[ndarray, " n"]]:
        """The part with one more sign imposed, and parameters to start from."""
        ...
