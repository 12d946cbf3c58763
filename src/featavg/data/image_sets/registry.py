"""All data sets by name. Importing this costs nothing: files are read by functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featavg.errors import one_of

if TYPE_CHECKING:
    from featavg.data.images import ImageTask


@dataclass(frozen=True)
class Archive:
    """Something to download: one compressed file, or a tar file of several."""

    url: str
    md5: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class ImageSet:
    """A published data set: its files, how to get them, and how to read them.

    Attributes:
        name: on the command line and in results.
        title: for tables.
        read: makes the task from the paths of the files (by name) and the seed of a split.
        folder: inside the data folder; empty for data that come with a package.
        md5: of each file, as published; empty where the content does not matter.
        sha256: of the files where it is known: an md5 does not prove that nobody meddled with one.
        optional: files that `read` can do without.
        archives: what to download for the files.
        presets: networks and recipes, see `featavg.training.torch.presets`; plain values, because
            this stage knows nothing of training.
    """

    name: str
    title: str
    read: Callable[[Mapping[str, Path], int], ImageTask]
    folder: str = ""
    md5: Mapping[str, str] = field(default_factory=dict)
    sha256: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    archives: tuple[Archive, ...] = ()
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


# Modules of this folder, in the order of help texts.
MODULES: tuple[str, ...] = ("digits", "mnist", "cifar10", "cifar100")


def image_sets() -> dict[str, ImageSet]:
    """Every registered data set.

    >>> list(image_sets())
    ['digits', 'mnist', 'cifar10', 'cifar100']
    """
    modules = (import_module(f"featavg.data.image_sets.{name}") for name in MODULES)
    return {module.SET.name: module.SET for module in modules}


def image_set(name: str) -> ImageSet:
    """One of them, or a sentence that lists them."""
    sets = image_sets()
    return sets[one_of("data", name, sets)]


def named(downloads: bool = False) -> str:
    """The names for a help text, perhaps only of those that are downloaded.

    >>> named(downloads=True)
    'mnist, cifar10, cifar100'
    """
    return ", ".join(each.name for each in image_sets().values() if each.md5 or not downloads)
