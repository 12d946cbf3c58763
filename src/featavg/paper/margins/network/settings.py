"""What makes a run of the margin network what it is: network, seed, rates, passes over the support."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from featavg.errors import InputError, finite, one_of, whole
from featavg.paper.margins.network.margin_cnn import MarginCNN, network_of
from featavg.training.controllers.constant import Constant
from featavg.training.controllers.loss_based import LossBased

CONTROLLERS: dict[str, type[Constant] | type[LossBased]] = {
    "constant": Constant,
    "loss-based": LossBased,
}
STEPS = ("implicit", "gradient")


@dataclass(frozen=True)
class SupportRule:
    """How a round over the support is made.

    Args:
        step: "implicit" (the samples' weights are those after the step) or "gradient" (passes of SGD).
        share: of the loss that may lie outside the support.
        spare: the support is so many times as large as that needs: samples just outside follow.
        least: samples, however concentrated the loss is.
        passes: steps or passes tried over the support, between two looks at everything.
        heaviest: samples of the support whose gradients an implicit step begins with, at least.
        most: the same at most, where more would be needed to hold all but 1% of the loss.
        corrections: of an implicit step by the losses that it was found to lead to.
        first_rate: the constant rate of the first pass, over everything.
        first_until: log10 of the loss at which the constant rate ends (or when the data is fitted).
        first_share, first_passes: share and passes until then, when the loss is still spread out.

    >>> import featavg as fa
    >>> fa.SupportRule(passes=10).share
    0.01
    """

    step: str = "implicit"
    share: float = 1e-2
    spare: float = 1.5
    least: int = 4000
    passes: int = 12
    heaviest: int = 800
    most: int = 1600
    corrections: int = 2
    first_rate: float = 0.1
    first_until: float = -2.3
    first_share: float = 0.03
    first_passes: int = 2

    def __post_init__(self) -> None:
        one_of("step", self.step, STEPS)
        finite("first_until", self.first_until)
        finite("first_rate", self.first_rate, above=0)
        if not (0 < self.share < 1 and 0 < self.first_share < 1):
            raise InputError("share", "is no part of the loss", "give shares between 0 and 1")
        if (
            min(self.passes, self.first_passes, self.least, self.heaviest, self.most) < 1
            or self.spare < 1
        ):
            raise InputError("support", f"is {self}", "give at least one pass over one sample")
        whole("corrections", self.corrections, least=0)


@dataclass(frozen=True)
class MarginSettings:
    """What makes a run what it is; a checkpoint with other settings belongs to another run.

    The controllers are the driver's. Their constants are used and not their `judge`: a pass that
    raises the loss is known to have failed after a few heavy samples, before it has a loss to judge.
    With `support`, passes are made over the samples that hold the loss (`margin_network.support`).

    >>> import featavg as fa
    >>> fa.MarginSettings(seed=1, batch=50).seed
    1
    """

    network: MarginCNN = field(default_factory=MarginCNN)
    seed: int = 0
    batch: int = 100
    controller: Constant | LossBased = field(default_factory=LossBased)
    threads: int = 1
    save_at: tuple[float, ...] = (-10.04, -15.12, -20.07, -120.01, -881.51)
    support: SupportRule | None = None

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("batch", 1), ("threads", 1)):
            whole(name, getattr(self, name), least=least)

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "network": self.network.settings(),
            "seed": self.seed,
            "batch": self.batch,
            "controller": {"name": self.controller.name, **asdict(self.controller)},
            "threads": self.threads,
            "save_at": list(self.save_at),
            "support": None if self.support is None else asdict(self.support),
        }


def settings_of(plain: dict[str, Any]) -> MarginSettings:
    """The settings that `plain` described."""
    given = dict(plain["controller"])
    rule = CONTROLLERS[given.pop("name")]
    parts = {
        **plain,
        "network": network_of(plain["network"]),
        "controller": rule(**given),
        "save_at": tuple(plain["save_at"]),
        "support": SupportRule(**plain["support"]) if plain.get("support") else None,
    }
    return MarginSettings(**parts)
