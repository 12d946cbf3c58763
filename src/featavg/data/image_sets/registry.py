"""All data sets by name. Importing this costs nothing: files are read by functions."""

from __future__ import annotations

from importlib import import_module

from featavg.data.image_sets.image_set import ImageSet
from featavg.errors import one_of

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
