"""featavg: does a network average its features, what does that cost, and how is it undone?

The public surface is stated once, here; what is not listed is private. Names are imported when they
are first used, so `import featavg` and `featavg --help` cost next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "featavg.errors": ["InputError"],
    "featavg.data.clusters": ["MultiCluster", "Sample"],
    "featavg.data.compress": ["TrainingSet", "draw", "draw_many"],
    "featavg.nets.two_layer": ["TwoLayer", "binary"],
    "featavg.nets.grouped": ["grouped"],
    "featavg.nets.readout": ["READOUTS", "score"],
    "featavg.nets.ideal": ["biased_robust", "feature_averaging", "feature_decoupling"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604

if TYPE_CHECKING:
    from featavg.data.clusters import MultiCluster as MultiCluster
    from featavg.data.clusters import Sample as Sample


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'featavg' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
