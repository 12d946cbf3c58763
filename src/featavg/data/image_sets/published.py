"""Images by name, file or folder: the one door to every task on real data."""

from __future__ import annotations

import os
from pathlib import Path

from featavg.data.image_sets.archives import checked
from featavg.data.image_sets.registry import image_set, image_sets, named
from featavg.data.images import ImageTask
from featavg.data.user_images import own_images
from featavg.errors import InputError

FOLDER_VARIABLE = "FEATAVG_DATA"


def data_folder(given: Path | None = None) -> Path:
    """`given`, or $FEATAVG_DATA, or where pooch keeps downloads."""
    if given is not None:
        return given
    if os.environ.get(FOLDER_VARIABLE):
        return Path(os.environ[FOLDER_VARIABLE])
    import pooch

    return Path(pooch.os_cache("featavg"))


def load(name: str, folder: Path | None = None, seed: int = 0) -> ImageTask:
    """A registered data set, from files that are checked by their published md5.

    Args:
        name: see `featavg.data.image_sets.registry`.
        folder: see `data_folder`.
        seed: of the split into training and test images where none is published.
    """
    chosen = image_set(name)
    return chosen.read(checked(chosen, data_folder(folder)) if chosen.md5 else {}, seed)


def load_images(
    source: str | Path,
    groups: str | None = None,
    data_dir: str | Path | None = None,
    seed: int = 0,
) -> ImageTask:
    """Images with fine labels and their partition into coarse ones.

    Args:
        source: a registered name (digits, mnist, cifar10, cifar100), an npz file, or a folder of
            pictures; see `featavg.data.user_images.own_images` for the last two.
        groups: another partition: `parity`, `halves`, or classes as `0,1,2/3,4,5`.
        data_dir: the folder with published data sets; $FEATAVG_DATA or pooch's unless given.
        seed: of the split into training and test images where none is given.

    >>> load_images("digits", groups="0,1,2,3,4/5,6,7,8,9")
    digits: 1258 training and 539 test images of 1 x 8 x 8, 10 fine classes in 2 coarse ones (...)
    """
    if str(source) in image_sets():
        task = load(str(source), None if data_dir is None else Path(data_dir), seed)
        return task.with_partition(groups) if groups else task
    path = Path(source)
    try:
        there = path.is_dir() or path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        there = False
    if not there:
        raise InputError("data", f"is {str(source)!r}", f"give {named()}, an npz file or a folder")
    return own_images(path, groups, seed=seed)
