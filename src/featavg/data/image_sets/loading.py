"""Images by name, file or folder: the one door to every task on real data, published or your own."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.boundary.kinds import Seed
from featavg.boundary.public import public
from featavg.data.image_sets.archives import checked
from featavg.data.images import Images, ImageTask, partition, split
from featavg.data.user_points import read_npz
from featavg.errors import InputError
from featavg.registry import IMAGE_SETS
from featavg.storage.reading import is_file, is_folder, read_bytes

FOLDER_VARIABLE = "FEATAVG_DATA"
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


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
        name: see `featavg.registry.IMAGE_SETS`.
        folder: see `data_folder`.
        seed: of the split into training and test images where none is published.
    """
    chosen = IMAGE_SETS[name]
    return chosen.read(checked(chosen, data_folder(folder)) if chosen.md5 else {}, seed)


@public
def load_images(
    source: str | Path, groups: str | None = None, data_dir: str | Path | None = None, seed: Seed = 0
) -> ImageTask:
    """Images with fine labels and their partition into coarse ones.

    Args:
        source: a registered name (digits, mnist, cifar10, cifar100), an npz file, or a folder of
            pictures; see `own_images` for the last two.
        groups: another partition: `parity`, `halves`, or classes as `0,1,2/3,4,5`.
        data_dir: the folder with published data sets; $FEATAVG_DATA or pooch's unless given.
        seed: of the split into training and test images where none is given.

    >>> import featavg as fa
    >>> fa.load_images("digits", groups="0,1,2,3,4/5,6,7,8,9")
    digits: 1258 training and 539 test images of 1 x 8 x 8, 10 fine classes in 2 coarse ones (...)
    """
    if str(source) in IMAGE_SETS:
        task = load(str(source), None if data_dir is None else Path(data_dir), seed)
        return task.with_partition(groups) if groups else task
    path = Path(source)
    if not is_folder(path) and not is_file(path):
        raise InputError("data", f"is {str(source)!r}", f"give {', '.join(IMAGE_SETS)}, an npz file or a folder")
    return own_images(path, groups, seed=seed)


def own_images(path: Path, groups: str | None = None, share: float = 0.8, seed: int = 0) -> ImageTask:
    """Read images with two kinds of labels and split off test images where none are given.

    - npz: `images` (n x h x w, n x h x w x c or n x c x h x w; bytes, or floats in [0, 1]), `fine`
      (n numbers 0..k-1), and `coarse` (n numbers 0..C-1) unless `groups` says how they follow.
      `images_test`, `fine_test` are used as test images if they are there.
    - folder: `coarse/fine/picture.png`, or `fine/picture.png` with `groups`.

    Args:
        groups: a partition, see `featavg.data.images.partition`.
        share: of the images that are for training.
    """
    if path.is_dir():
        return _folder(path, groups, share, seed)
    if path.suffix == ".npz":
        try:
            return _npz(path, groups, share, seed)
        except InputError as error:
            if error.argument in ("data", "groups", str(path)):
                raise
            problem = f"({path}) is no task: {error.argument} {error.problem}"
            raise InputError("data", problem, error.remedy) from error
    raise InputError(str(path), "is neither an npz file nor a folder", "give one of the two")


def _npz(path: Path, groups: str | None, share: float, seed: int) -> ImageTask:
    arrays = read_npz(path, "images=..., fine=..., coarse=...")
    for name in ("images", "fine"):
        if name not in arrays:
            raise InputError(str(path), f"has no {name!r}", "give images and fine labels")
    pixels, fine = _channel_first(arrays["images"]), _classes(arrays["fine"], "fine")
    k = int(fine.max()) + 1
    if groups is not None:
        coarse_of = partition(groups, k)
    elif "coarse" in arrays:
        coarse_of = _derived(fine, _classes(arrays["coarse"], "coarse"), k)
    else:
        raise InputError(str(path), "has no 'coarse'", "add it, or give a partition")
    train = Images(pixels, fine)
    if "images_test" in arrays and "fine_test" in arrays:
        test = Images(_channel_first(arrays["images_test"]), _classes(arrays["fine_test"], "fine_test", k))
    else:
        train, test = split(train, share, seed)
    names = tuple(str(g) for g in range(int(coarse_of.max()) + 1))
    return ImageTask(path.stem, train, test, coarse_of, tuple(map(str, range(k))), names)


def _classes(labels: ndarray, name: str, most: int | None = None) -> Int[ndarray, " n"]:
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or not len(labels):
        raise InputError(name, "is not a list of whole numbers", "give one per image")
    if labels.min() < 0:
        raise InputError(name, f"holds {labels.min()}", "number classes from 0")
    # Nothing may be sized by a label before this: n images have at most n classes.
    if labels.max() >= (len(labels) if most is None else most):
        problem = f"holds {labels.max()} for {len(labels)} images"
        raise InputError(name, problem, "number classes 0, 1, 2, ...")
    return labels.astype(int)


def _derived(fine: Int[ndarray, " n"], coarse: Int[ndarray, " m"], k: int) -> Int[ndarray, " k"]:
    """The coarse class of each fine one; a fine class in two coarse ones is refused."""
    if fine.shape != coarse.shape:
        raise InputError("coarse", f"has {len(coarse)} labels", f"there are {len(fine)} fine ones")
    groups = np.full(k, -1)
    groups[fine] = coarse
    if np.any(groups[fine] != coarse):
        bad = int(fine[np.flatnonzero(groups[fine] != coarse)[0]])
        raise InputError("coarse", f"puts class {bad} into two classes", "make fine labels finer")
    if groups.min() < 0:
        raise InputError("fine", f"skips class {int(groups.argmin())}", "number classes 0, 1, ...")
    return groups


def _channel_first(pixels: ndarray) -> ndarray:
    if pixels.ndim == 3:
        return pixels[:, None]
    if pixels.ndim == 4 and pixels.shape[3] in (1, 3) and pixels.shape[1] not in (1, 3):
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    if pixels.ndim != 4 or pixels.shape[1] not in (1, 3):
        raise InputError("images", f"have shape {pixels.shape}", "give 1 or 3 channels")
    return pixels


def _folder(path: Path, groups: str | None, share: float, seed: int) -> ImageTask:
    depth = 1 if groups is not None else 2
    files = sorted(f for f in _files(path, depth + 2) if f.suffix.lower() in PICTURES)
    where = "fine/picture.png" if groups is not None else "coarse/fine/picture.png"
    if not files or any(len(f.relative_to(path).parts) != depth + 1 for f in files):
        raise InputError(str(path), f"is not laid out as {where}", "sort the pictures into folders")
    folders = sorted({f.parent.relative_to(path) for f in files})
    fine = np.array([folders.index(f.parent.relative_to(path)) for f in files])
    if groups is not None:
        coarse_of = partition(groups, len(folders))
        coarse = tuple(str(g) for g in range(int(coarse_of.max()) + 1))
    else:
        coarse = tuple(sorted({folder.parts[0] for folder in folders}))
        coarse_of = np.array([coarse.index(folder.parts[0]) for folder in folders])
    train, test = split(Images(_pictures(files), fine), share, seed)
    names = tuple(folder.name for folder in folders)
    return ImageTask(path.name, train, test, coarse_of, names, coarse, flips=True)


def _files(path: Path, depth: int) -> Iterator[Path]:
    """All files down to `depth` names below: the root of a disk is not walked."""
    for folder, folders, names in os.walk(path):
        yield from (Path(folder, name) for name in (*folders, *names))
        if len(Path(folder).relative_to(path).parts) >= depth - 1:
            folders.clear()


def _pictures(files: list[Path]) -> ndarray:
    from PIL import Image

    pixels = []
    for file in files:
        content = io.BytesIO(read_bytes(file))
        try:
            with warnings.catch_warnings(), Image.open(content) as picture:
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                pixels.append(np.asarray(picture.convert("RGB")))
        except Exception as error:  # each format has errors of its own, syntax errors among them
            raise InputError(str(file), "is damaged", "delete or replace it") from error
        if pixels[-1].shape != pixels[0].shape:
            problem = f"is {pixels[-1].shape[:2]} pixels where others are {pixels[0].shape[:2]}"
            raise InputError(str(file), problem, "scale all pictures to one size")
    return np.stack(pixels).transpose(0, 3, 1, 2)
