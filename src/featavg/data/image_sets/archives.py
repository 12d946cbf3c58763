"""What a published data set is, whether its files are here and whole, and how they are downloaded."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from featavg.errors import InputError, one_of
from featavg.registry import IMAGE_SETS
from featavg.storage.reading import is_file, opened

if TYPE_CHECKING:
    from featavg.data.images import ImageTask

HERE, IN_PART, DAMAGED, MISSING = "here", "here in part", "damaged", "not here"


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
        sha256: of the files where it is known: an md5 does not prove that a file is authentic.
        optional: files that `read` can do without.
        archives: what to download for the files.
        presets: networks and recipes, see `featavg.training.torch.recipe`; plain values, because
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


def checked(image_set: ImageSet, folder: Path) -> dict[str, Path]:
    """The files of a data set by name, each there and whole; optional ones may be missing."""
    files = {}
    for name, md5 in image_set.md5.items():
        path = folder / image_set.folder / name
        if not is_file(path):
            if name in image_set.optional:
                continue
            raise InputError(
                str(path),
                "is not there",
                f"give --data-dir (or $FEATAVG_DATA) the folder that holds {image_set.folder}, "
                f"or run `featavg data get {image_set.name}`",
            )
        wanted = {"md5": md5, "sha256": image_set.sha256.get(name, "")} if md5 else {}
        found = _digests(path, path.stat().st_mtime_ns) if md5 else {}
        for kind, digest in wanted.items():
            if digest and found[kind] != digest:
                problem = f"is damaged: its {kind} is not the published one"
                raise InputError(str(path), problem, "delete it, get it again")
        files[name] = path
    return files


def state(image_set: ImageSet, folder: Path) -> str:
    """`HERE`, `IN_PART` (an optional file is missing), `DAMAGED` or `MISSING`.

    What the loader would make of it: `featavg data` and `featavg doctor` say nothing else.
    """
    try:
        files = checked(image_set, folder)
    except InputError as error:
        return DAMAGED if "damaged" in error.problem else MISSING
    return HERE if len(files) == len(image_set.md5) else IN_PART


@cache
def _digests(path: Path, changed: int) -> dict[str, str]:
    """Of a file that was last changed at `changed`: hashing CIFAR-10 twice in a run is a waste."""
    digests = {"md5": hashlib.md5(usedforsecurity=False), "sha256": hashlib.sha256()}
    with opened(path) as file:
        while block := file.read(1 << 22):
            for digest in digests.values():
                digest.update(block)
    return {kind: digest.hexdigest() for kind, digest in digests.items()}


def file_bytes(path: Path) -> bytes:
    """The content of a published file."""
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise InputError(str(path), problem, "run `featavg data` to see what is there") from error


def damaged(path: Path, how: str) -> InputError:
    """What to say about a file that is not laid out as published."""
    return InputError(str(path), f"is damaged: it {how}", "delete it and get it again")


def download(name: str, folder: Path, progress: bool = True) -> list[Path]:
    """Get what is missing of a data set with pooch, check it and lay it out as published."""
    import pooch

    downloads = {known: each for known, each in IMAGE_SETS.items() if each.archives}
    image_set = downloads[one_of("data", name, downloads)]
    target = folder / image_set.folder
    target.mkdir(parents=True, exist_ok=True)
    for archive in image_set.archives:
        if all((target / file).exists() for file in archive.files):
            continue
        try:
            path = pooch.retrieve(
                archive.url,
                known_hash=f"md5:{archive.md5}",
                path=folder / "downloads",
                fname=archive.url.rsplit("/", 1)[1],
                progressbar=_Bar() if progress else False,
            )
        except ValueError as error:  # pooch's word for a wrong hash
            remedy = "try again, or use a mirror"
            raise InputError(archive.url, "arrived damaged", remedy) from error
        except OSError as error:
            problem = f"cannot be downloaded ({type(error).__name__})"
            remedy = f"get it yourself and unpack it as {target}"
            raise InputError(archive.url, problem, remedy) from error
        _unpack(Path(path), archive.files, target)
    return list(checked(image_set, folder).values())


def _unpack(path: Path, files: tuple[str, ...], target: Path) -> None:
    import gzip

    if path.name.endswith(".tar.gz"):
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                # Only the wanted names, and never a path of the archive's own choosing.
                name = Path(member.name).name
                source = archive.extractfile(member) if name in files else None
                if source is not None:
                    _put(source, target / name)
    else:
        with gzip.open(path) as unpacked:
            _put(unpacked, target / files[0])


def _put(source: Any, path: Path) -> None:
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        shutil.copyfileobj(source, file)
    partial.rename(path)


class _Bar:
    """The progress bar that pooch drives: `total`, then `update(bytes)`, `reset` and `close`."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

        self._bar = Progress(BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._task = self._bar.add_task("download", total=None)
        self.total = 0

    def update(self, amount: int) -> None:
        """Count `amount` more bytes."""
        if not self._bar.live.is_started:
            self._bar.start()
            self._bar.update(self._task, total=self.total)
        self._bar.advance(self._task, amount)

    def reset(self) -> None:
        """Begin to count again."""
        self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """Take the bar off the screen."""
        self._bar.stop()
