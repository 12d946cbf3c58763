"""Where the published files come from and how they are told from damaged ones."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from featavg.errors import InputError, one_of


@dataclass(frozen=True)
class Archive:
    """Something to download: one compressed file, or a tar file of several."""

    url: str
    md5: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Published:
    """The folder of a data set, the md5 of each file in it, and what to download for them."""

    folder: str
    md5: dict[str, str]
    archives: tuple[Archive, ...]


_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_CIFAR = "https://www.cs.toronto.edu/~kriz/"
_CIFAR10_MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}
FILES = {
    "mnist": Published(
        "mnist",
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
        tuple(
            Archive(f"{_MNIST}{name}.gz", md5, (name,))
            for name, md5 in (
                ("train-images-idx3-ubyte", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                ("train-labels-idx1-ubyte", "d53e105ee54ea40749a09fcbcd1e9432"),
                ("t10k-images-idx3-ubyte", "9fb629c4189551a2d022fa330f9573f3"),
                ("t10k-labels-idx1-ubyte", "ec29112dd5afa0611ce80d1b7f02629c"),
            )
        ),
    ),
    "cifar10": Published(
        "cifar-10-batches-bin",
        _CIFAR10_MD5,
        (
            Archive(
                _CIFAR + "cifar-10-binary.tar.gz",
                "c32a1d4ab5d03f1284b67883e8d87530",
                tuple(_CIFAR10_MD5),
            ),
        ),
    ),
    "cifar100": Published(
        "cifar-100-binary",
        # The archive has an md5 that is published; those of the files in it follow from it.
        {"train.bin": "", "test.bin": "4499cfba6c016c1be1438163640a0898"},
        (
            Archive(
                _CIFAR + "cifar-100-binary.tar.gz",
                "03b5dce01913d631647c71ecec9e9cb8",
                ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"),
            ),
        ),
    ),
}


def checked(name: str, folder: Path, optional: Collection[str] = ()) -> dict[str, Path]:
    """The files of a data set by name, each there and whole; `optional` ones may be missing."""
    published = FILES[name]
    found = {}
    for file, md5 in published.md5.items():
        path = folder / published.folder / file
        if not path.exists():
            if file in optional:
                continue
            raise InputError(
                str(path),
                "is not there",
                f"give --data-dir (or $FEATAVG_DATA) the folder that holds {published.folder}, "
                f"or run `featavg data get {name}`",
            )
        if md5 and _md5(path, path.stat().st_mtime_ns) != md5:
            raise InputError(
                str(path), "is damaged: its md5 is not the published one", "delete it, get it again"
            )
        found[file] = path
    return found


@cache
def _md5(path: Path, changed: int) -> str:
    """Of a file that was last changed at `changed`: hashing CIFAR-10 twice in a run is a waste."""
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def download(name: str, folder: Path, progress: bool = True) -> list[Path]:
    """Get what is missing of a data set with pooch, check it and lay it out as published."""
    import pooch

    published = FILES[one_of("data", name, FILES)]
    target = folder / published.folder
    target.mkdir(parents=True, exist_ok=True)
    for archive in published.archives:
        if all((target / file).exists() for file in archive.files):
            continue
        try:
            path = Path(
                pooch.retrieve(
                    archive.url,
                    known_hash=f"md5:{archive.md5}",
                    path=folder / "downloads",
                    fname=archive.url.rsplit("/", 1)[1],
                    progressbar=_Bar() if progress else False,
                )
            )
        except ValueError as error:  # pooch's word for a wrong hash
            raise InputError(
                archive.url, "arrived damaged", "try again, or use a mirror"
            ) from error
        except OSError as error:
            raise InputError(
                archive.url,
                f"cannot be downloaded ({type(error).__name__})",
                f"get it yourself and unpack it as {target}",
            ) from error
        _unpack(path, archive.files, target)
    return list(checked(name, folder, optional=()).values())


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
        """So many more bytes have come."""
        if not self._bar.live.is_started:
            self._bar.start()
            self._bar.update(self._task, total=self.total)
        self._bar.advance(self._task, amount)

    def reset(self) -> None:
        """Back to nothing."""
        self._bar.reset(self._task, total=self.total)

    def close(self) -> None:
        """The end."""
        self._bar.stop()
