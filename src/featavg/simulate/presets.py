"""Settings with a name: the paper's experiments, the talk's, and the theorems' own regime."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from featavg.boundary.public import public
from featavg.errors import InputError, one_of
from featavg.simulate.setting import FIELDS, Setting, read_table


@dataclass(frozen=True)
class Preset:
    """A name for some values of a setting.

    Args:
        summary: what it is, in one line.
        values: from what else was given (some values follow d or k) to the preset's values.
    """

    summary: str
    values: Callable[[Mapping[str, Any]], dict[str, Any]]


def preset_values(name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values of a preset, where they follow from d or k for those of `given`.

    >>> preset_values("talk", {"d": 10_000})["sigma_w"]
    0.01
    """
    return PRESETS[one_of("preset", name, PRESETS)].values(given or {})


@public
def compose(preset: str | None = None, config: str | Path | None = None, **given: Any) -> Setting:
    """A setting from a preset, over which a TOML file has its way, over which `given` has.

    Args:
        preset: "paper" unless `config` has a key `preset`.
        config: a TOML file.
        given: single values.

    >>> import featavg as fa
    >>> fa.compose("theorem", k=2).d
    1024
    """
    merged = (read_table(Path(config)) if config is not None else {}) | given
    named = merged.pop("preset", "paper")
    name = preset if preset is not None else named
    if not isinstance(name, str):
        raise InputError("preset", f"is {name!r}", f"choose one of {', '.join(PRESETS)}")
    if merged.get("data") is not None:
        if name != "paper":
            remedy = "it is about a task of its own, leave it out"
            raise InputError("preset", f"is {name} beside data", remedy)
        return Setting(**merged)
    return Setting(**(preset_values(name, merged) | merged))


def _whole(given: Mapping[str, Any], name: str, default: int = Setting.d) -> int:
    # Anything else than a number is for the setting to refuse, with a sentence of its own.
    value = given.get(name, default)
    return value if isinstance(value, int) and value > 0 else default


def _paper(given: Mapping[str, Any]) -> dict[str, Any]:
    names = ("k", "d", "m", "h", "n", "alpha", "sigma", "lr", "sigma_w", "sigma_b", "steps")
    return {name: FIELDS[name].default for name in names}


def _talk(given: Mapping[str, Any]) -> dict[str, Any]:
    d = _whole(given, "d")
    return _paper(given) | {"sigma_w": 1 / math.sqrt(d), "sigma_b": 1 / d}


def _theorem(given: Mapping[str, Any]) -> dict[str, Any]:
    k = _whole(given, "k", 3)
    d = _whole(given, "d", k**10)
    # sigma^2 = eta k^-5 with the learning rate eta = d^-2 that the flow stands for.
    scale = math.sqrt(k**-5) / d
    return {
        "k": k,
        "d": d,
        "n": k**7,
        "m": k,
        "h": 1,
        "alpha": 1.0,
        "sigma": 1.0,
        "sigma_w": scale,
        "sigma_b": scale,
        "stepper": "flow",
        "time": float(k**8),
        # The end is the time; the flow takes tens of steps, so this only stops a run gone wrong.
        "steps": 100_000,
    }


PRESETS: dict[str, Preset] = {
    "paper": Preset("the synthetic experiments of the paper", _paper),
    "talk": Preset("the same from larger weights: sigma_w^2 = 1/d, sigma_b^2 = 1/d^2", _talk),
    "theorem": Preset(
        "the theorems' regime, d = k^10, n = k^7, m = k, as gradient flow to time k^8 "
        "(k = 2, 3 or 4; 3 by default)",
        _theorem,
    ),
}
