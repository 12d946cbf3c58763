"""Bad files and folders: for every path on every command line."""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from tests.bad_inputs.case import Case, command
from tests.bad_inputs.flags import NEEDED, Command, Flag, commands
from tests.bad_inputs.odd_files import (
    NO_ARRAY_FILES,
    NO_FILES,
    NO_TENSORS,
    data_folder_names,
    data_folders,
    odd_tables,
    picture_folders,
    table_names,
    table_words,
)
from tests.bad_inputs.odd_files import PICTURES as NO_PICTURES
from tests.public_calls import CALLS

import featavg as fa

MODEL = """
from torch import nn

def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 2))
"""
PICTURES = np.zeros((4, 8, 8))


def _bomb(path: Path) -> None:
    """Kilobytes that unpack to a gigabyte, and whose header promises a petabyte."""
    shape = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 100000000), }"
    header = b"\x93NUMPY\x01\x00v\x00" + shape
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x", "clusters", "images", "fine"):
            archive.writestr(f"{name}.npy", header.ljust(127) + b"\n" + bytes(1 << 20))


def _save(path: Path, x: np.ndarray, labels: np.ndarray, images: np.ndarray) -> None:
    """Whatever the command calls its arrays, here they are."""
    np.savez(path, x=x, clusters=labels, y=labels, images=images, fine=labels)


def _flipped(path: Path) -> None:
    random = np.random.default_rng(0)
    _save(path, random.random((40, 4)), np.arange(40) % 4, random.random((40, 8, 8)))
    content = bytearray(path.read_bytes())
    content[len(content) // 4] ^= 255
    path.write_bytes(content)


FILES: dict[str, Callable[[Path], object]] = {
    "empty.EXT": lambda path: path.write_bytes(b""),
    "pipe.EXT": os.mkfifo,
    "damaged.EXT": lambda path: path.write_bytes(b"PK\x03\x04 not really"),
    "binary.EXT": lambda path: path.write_bytes(bytes(range(256)) * 8),
    "deep.EXT": lambda path: path.write_text("a=" * ("toml" in path.name) + "[" * 100_000),
    "pickled.EXT": lambda path: path.write_bytes(pickle.dumps({"x": Path("a")})),
    "loop.EXT": lambda path: path.symlink_to(path.name),
    "folder.EXT": Path.mkdir,
    "latin.EXT": lambda path: path.write_bytes("é = 1".encode("latin-1")),
    "words.EXT": lambda path: path.write_text("no such thing"),
    "zero.EXT": lambda path: path.write_bytes(bytes(4096)),
} | NO_FILES
ARRAY_FILES: dict[str, Callable[[Path], object]] = {
    "no-member.npz": lambda path: zipfile.ZipFile(path, "w").close(),
    "bomb.npz": _bomb,
    "text-member.npz": lambda path: zipfile.ZipFile(path, "w").writestr("x.npy", "text"),
    "objects.npz": lambda path: np.savez(path, x=np.array([{}, 1], dtype=object)),
    "one.npy": lambda path: np.save(path, np.ones(3)),
    "other.npz": lambda path: np.savez(path, a=np.ones(3)),
    "strings.npz": lambda path: _save(path, np.array(["a"]), np.array(["a"]), np.array(["a"])),
    "scalars.npz": lambda path: _save(path, np.array(1.0), np.array(1), np.array(1)),
    "complex.npz": lambda path: _save(path, np.eye(4) * 1j, np.arange(4), PICTURES * 1j),
    "none.npz": lambda path: _save(path, np.eye(4)[:0], np.arange(0), PICTURES[:0]),
    "nan.npz": lambda path: _save(path, np.eye(4) * np.nan, np.arange(4), PICTURES * np.nan),
    "big-label.npz": lambda path: _save(path, np.eye(4), np.array([0, 1, 2, 10**9]), PICTURES),
    "negative-label.npz": lambda path: _save(path, np.eye(4), np.array([0, 1, 2, -3]), PICTURES),
    "short-label.npz": lambda path: _save(path, np.eye(4), np.arange(2), PICTURES),
    "one-class.npz": lambda path: _save(path, np.eye(4), np.zeros(4, int), PICTURES),
    "flipped.npz": _flipped,
} | NO_ARRAY_FILES
# A folder of featavg's with one file of it damaged in each of these ways.
DAMAGE: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:40]),
    "deep": lambda path: path.write_text("[" * 100_000),
    "other": lambda path: path.write_text("[1, 2]"),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "flipped": lambda path: path.write_bytes(
        (b := path.read_bytes())[: len(b) // 2] + bytes([b[len(b) // 2] ^ 1]) + b[len(b) // 2 + 1 :]
    ),
}


def world(folder: Path) -> None:
    """Everything that the bad command lines speak of."""
    from featavg.simulate.run import simulate

    for name, make in FILES.items():
        for extension in ("toml", "npz", "json", "csv", "npy", "safetensors", "pt", "dat"):
            make(folder / name.replace("EXT", extension))
    for name, make in (ARRAY_FILES | NO_TENSORS).items():
        make(folder / name)
    odd_tables(folder)
    picture_folders(folder)
    data_folders(folder)
    _stores(folder)
    (folder / "tiny_model.py").write_text(MODEL)
    np.savez(folder / "points.npz", x=np.eye(4) - 0.3, y=np.array([1, -1, 1, -1]))
    simulate(out=folder / "result", figures=False, k=4, d=40, n=12, steps=2, n_test=10)
    _damaged(folder, "result", ("numbers.json", "settings.toml", "coarse/meta.json", "coarse/arrays.safetensors"))


def _stores(folder: Path) -> None:
    """Results of a report, of a sweep and of training, each damaged in every way."""
    import shutil

    kept = next((Path(fa.__file__).parent / "paper" / "results").glob("*.json"))
    (folder / "claims" / "outcomes").mkdir(parents=True)
    shutil.copy(kept, folder / "claims" / "outcomes" / "lemma-12-epsilon.json")
    _damaged(folder, "claims", ("outcomes/lemma-12-epsilon.json",))
    fa.sweep({"cosine": [0.0]}, store=folder / "sweep", engine="serial", n=20, steps=1, seeds=1)
    _damaged(folder, "sweep", ("runs.sqlite",))


def _damaged(folder: Path, name: str, files: tuple[str, ...]) -> None:
    import shutil

    for file in files:
        for how, damage in DAMAGE.items():
            copy = folder / f"{name}-{file.replace('/', '-').replace('.', '-')}-{how}"
            shutil.copytree(folder / name, copy)
            damage(copy / file)


# What each path is: a table to read, arrays, pictures, a folder of featavg's, or a place to write.
READS = {
    "simulate --config": ("toml",), "simulate --data": ("npz",), "simulate --gram": ("json", "npy", "csv"),
    "sweep --config": ("toml",), "images train data": ("npz",),
    "audit --data": ("npz",), "audit --embedding": ("npy",),
    "audit --weights": ("safetensors", "pt"), "audit --twin-weights": ("safetensors", "pt"),
    "audit model": ("safetensors", "pt"),
}  # fmt: skip
# What else a flag needs to be read at all.
BESIDE = {"audit --embedding": ["--no-fine"], "audit --twin-weights": ["--twin=tiny_model:net"]}
FOLDERS = {"radius result": "result", "report folder": "claims", "sweep --out": "sweep"}
PYTHON_READS = {"load_images": ("source", ("npz",)), "read_labelled": ("path", ("npz",))}
PYTHON_FOLDERS = {"load_simulation": "result", "load_trajectory": "run", "load_trained": "none"}
# A new sweep may begin in an empty folder, in one that is not there, and in an empty database.
NEW_SWEEPS = {"missing", "folder.dat", "sweep-runs-sqlite-empty", "sweep-runs-sqlite-gone"}
OVERRULED = [("sweep --config", [field]) for field in ("n", "steps", "cosine")]
PICTURE_READS = {"images train data"}
# Commands that read MNIST from a folder of data sets, and what they need for it.
WITH_DATA = {
    "images train": ["mnist", "coarse", "--epochs=1"],
    "audit": ["tiny_model:net", "--data=mnist", "--images=20"],
}
WRITES = {"--out", "--json", "--checkpoint"}


def cases() -> Iterator[Case]:
    """All of them."""
    for each in commands():
        for flag in each.flags:
            what = f"{each.name} {flag.name}"
            if what in READS:
                for name in _read_names(READS[what]):
                    if name == "empty.toml" or (what, name.split("-")[1:2]) in OVERRULED:
                        continue  # every setting has a default, and flags win over the table
                    words = table_words(name)
                    yield _case(each, flag, name, name.rstrip("/"), flag.name.lstrip("-"), *words)
                if what in PICTURE_READS:
                    for name in (f"pictures-{name}" for name in NO_PICTURES):
                        yield _case(each, flag, name, name)
            elif flag.name == "--data-dir" and each.name in WITH_DATA:
                for name in ("words.csv", "missing", "loop.dat", *data_folder_names()):
                    yield _case(each, flag, name, name)
            elif what in FOLDERS:
                for name in _folder_names(FOLDERS[what]):
                    if what == "sweep --out" and name in NEW_SWEEPS:
                        continue
                    yield _case(each, flag, name, name, flag.name.lstrip("-"))
            elif flag.kind is Path and flag.name in WRITES and each.name != "doctor":
                for value in ("a" * 300, "a/" * 3000, "words.csv/below", "loop.dat/x", "/proc/1/x", "\0"):
                    yield _case(each, flag, value, flag.name.lstrip("-"), value)
                if flag.name != "--json" and each.name != "playground":
                    yield _case(each, flag, "words.csv", "out", "words.csv")
    yield from _python_cases()


def _python_cases() -> Iterator[Case]:
    for name, (argument, extensions) in PYTHON_READS.items():
        for file in _read_names(extensions):

            def call(name: str = name, argument: str = argument, file: str = file) -> object:
                return getattr(fa, name)(**CALLS.get(name, dict)() | {argument: file})

            text = f"featavg.{name}({argument}={file[:60]!r})"
            names = (file.rstrip("/"), repr(file)[1:-1], argument)
            yield Case(text, names, call, is_command=False)
    for name, kind in PYTHON_FOLDERS.items():
        for file in _folder_names(kind):
            text = f"featavg.{name}({file[:60]!r})"
            public = getattr(fa, name)
            yield Case(text, (file, "folder"), partial(public, file), is_command=False)


def _read_names(extensions: tuple[str, ...]) -> Iterator[str]:
    yield from ("missing." + extensions[0], "a" * 300 + "." + extensions[0], "missing/" * 5, "a\0b")
    for extension in extensions:
        yield from (name.replace("EXT", extension) for name in FILES)
        yield from table_names(extension)
    if "npz" in extensions:
        yield from ARRAY_FILES
    if "safetensors" in extensions:
        yield from NO_TENSORS


def _folder_names(kind: str) -> Iterator[str]:
    yield from ("missing", "words.csv", "pipe.dat", "folder.dat", "loop.dat", "a" * 300, "a\0b")
    if kind == "run":  # one run of a simulation
        for name in _folder_names("result"):
            if name.startswith("result-coarse"):
                yield f"{name}/coarse"
        return
    files = {
        "result": ("numbers.json", "settings.toml", "coarse/meta.json", "coarse/arrays.safetensors"),
        "claims": ("outcomes/lemma-12-epsilon.json",),
        "sweep": ("runs.sqlite",),
        "none": (),
    }
    # Another figure in a result is a result, and nobody can tell.
    ways = [how for how in DAMAGE if (kind, how) != ("claims", "flipped")]
    for file in files[kind]:
        yield from (f"{kind}-{file.replace('/', '-').replace('.', '-')}-{how}" for how in ways)


def _case(each: Command, flag: Flag, value: str, *names: str) -> Case:
    table = WITH_DATA if flag.name == "--data-dir" else NEEDED
    needed = [word for word in table.get(each.name, []) if not word.startswith(f"{flag.name}=")]
    needed += BESIDE.get(f"{each.name} {flag.name}", [])
    if flag.is_option:
        return command([*each.words, *needed, f"{flag.name}={value}"], *names)
    return command([*each.words, value, *needed[1:]], *names)
