"""Whether the files of a data set are here and whole, and how they are downloaded."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from featavg.data.image_sets.registry import ImageSet, image_sets, named
from featavg.errors import InputError
from featavg.storage.reading import is_file, opened

HERE, IN_PART, DAMAGED, MISSING = "here", "here in part", "damaged", "not here"


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


def download(name: str, folder: Path, progress: bool = True) -> list[Path]:
    """Get what is missing of a data set with pooch, check it and lay it out as published."""
    import pooch

    image_set = image_sets().get(name)
    if image_set is None or not image_set.archives:
        raise InputError("data", f"is {name!r}", f"choose one of {named(downloads=True)}")
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
