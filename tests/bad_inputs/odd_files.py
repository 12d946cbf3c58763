"""Odd files: what is no file, what promises more than it holds, and tables with one wrong value."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Maker = Callable[[Path], object]


def _socket(path: Path) -> None:
    """A socket; names of sockets must be short, so it is made where it lies."""
    before = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(before)


def _sparse(path: Path) -> None:
    """A terabyte that takes no room."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


class _Evil:
    """Unpickling it writes a file, which the judge would find."""

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return exec, ("open('owned.txt', 'w').write('owned')", "")[:1]  # type: ignore[return-value]


NO_FILES: dict[str, Maker] = {
    "socket.EXT": _socket,
    "sparse.EXT": _sparse,
    "endless.EXT": lambda path: path.symlink_to("/dev/zero"),
    "random.EXT": lambda path: path.symlink_to("/dev/urandom"),
    "dangling.EXT": lambda path: path.symlink_to("nowhere"),
    "link-to-folder.EXT": lambda path: path.symlink_to("."),
    "utf16.EXT": lambda path: path.write_bytes("k = 4".encode("utf-16")),
    "gzip.EXT": lambda path: path.write_bytes(gzip.compress(b"k = 4")),
    "page.EXT": lambda path: path.write_text("<!doctype html><title>404</title>"),
    "zeros-inside.EXT": lambda path: path.write_bytes(b"k\0 = 4\n"),
    "evil.EXT": lambda path: path.write_bytes(pickle.dumps(_Evil())),
    "evil-zip.EXT": lambda path: zipfile.ZipFile(path, "w").writestr("archive/data.pkl", pickle.dumps(_Evil())),
}


def _npz(**members: bytes) -> Maker:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)

    return make


def _npy(header: str, data: bytes = bytes(64), version: int = 1) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def _header(descr: str = "'<f8'", order: str = "False", shape: str = "(2, 4)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


def _same(content: bytes) -> Maker:
    return _npz(x=content, images=content, fine=content, clusters=content, y=content)


def _encrypted(path: Path) -> None:
    _same(_npy(_header()))(path)
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := content.find(mark, at + 1)) >= 0:
            content[at + offset] |= 1
    path.write_bytes(content)


NO_ARRAY_FILES: dict[str, Maker] = {
    "negative-shape.npz": _same(_npy(_header(shape="(-2, 4)"))),
    "huge-shape.npz": _same(_npy(_header(shape="(99999999999999999999, 2)"))),
    "many-axes.npz": _same(_npy(_header(shape="(" + "1, " * 200 + ")"))),
    "truth-shape.npz": _same(_npy(_header(shape="(True, 4)"))),
    "words-shape.npz": _same(_npy(_header(shape="'ab'"))),
    "code-header.npz": _same(_npy("__import__('os').system('touch owned.txt')")),
    "deep-header.npz": _same(_npy("(" * 60000, version=2)),
    "no-type.npz": _same(_npy(_header(descr="'<q99'"))),
    "records.npz": _same(_npy(_header(descr="[('a', '<f8'), ('b', '<i4')]"))),
    "dates.npz": _same(_npy(_header(descr="'<M8[D]'"))),
    "version-nine.npz": _same(b"\x93NUMPY\x09\x00" + _npy(_header())[8:]),
    "half-a-header.npz": _same(_npy(_header())[:40]),
    "wide-text.npz": _same(_npy(_header(descr="'<U2147483647'", shape="(4,)"))),
    "encrypted.npz": _encrypted,
}


def _tensors(header: Any, data: bytes = bytes(64), length: int | None = None) -> Maker:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = struct.pack("<Q", len(text) if length is None else length)
    return lambda path: path.write_bytes(size + text + data)


def _entry(kind: str = "F32", shape: Any = (4, 4), offsets: Any = (0, 64)) -> dict[str, Any]:
    return {"a": {"dtype": kind, "shape": shape, "data_offsets": offsets}}


NO_TENSORS: dict[str, Maker] = {
    "absurd-length.safetensors": _tensors(_entry(), length=2**63),
    "long-length.safetensors": _tensors(_entry(), length=10**6),
    "no-length.safetensors": lambda path: path.write_bytes(b"\1\0\0"),
    "deep-table.safetensors": _tensors(b'{"a":' * 20000),
    "list-table.safetensors": _tensors([1, 2]),
    "no-dtype.safetensors": _tensors(_entry("F99")),
    "short-data.safetensors": _tensors(_entry(shape=(40, 40), offsets=(0, 6400))),
    "other-shape.safetensors": _tensors(_entry(shape=(4, 5))),
    "negative-shape.safetensors": _tensors(_entry(shape=(-4, -4))),
    "huge-shape.safetensors": _tensors(_entry(shape=(2**62, 2**62))),
    "backward.safetensors": _tensors(_entry(offsets=(64, 0))),
    "no-tensors.safetensors": _tensors({}, b""),
}
VALUES = {
    "nan": "nan", "inf": "inf", "overflow": "1e400", "huge": "1" + "0" * 40, "truth": "true",
    "word": '"four"', "list": "[4]", "table": "{a = 1}", "date": "2020-01-01",
    "empty": '""', "negative": "-3", "endless": "9" * 5000,
}  # fmt: skip
FIELDS = ("k", "d", "n", "m", "lr", "steps", "seed", "sigma_w", "cosine", "labels", "stepper")
# A seed may be of any length, these may be negative or nothing, and words are words.
MEANT = {("seed", "huge"), ("cosine", "negative"), ("d", "huge"), ("lr", "huge"), ("sigma_w", "huge")}
LINES = {
    "twice": "k = 4\nk = 6\n",
    "deep-key": ".".join(["a"] * 5000) + " = 1\n",
    "deep-table": "[" + ".".join(["a"] * 5000) + "]\n",
    "deep-list": "k = " + "[" * 3000 + "]" * 3000 + "\n",
    "deep-braces": "k = " + "{a = " * 3000 + "1" + "}" * 3000 + "\n",
    "no-key": '"" = 1\n',
    "nobody": "nobody = 1\n",
    "section": "[nobody]\nk = 4\n",
    "mark": "﻿k = nan\n",
    "full-width": "k = ４\n",
    "no-value": "k =\n",
    "return": "k = 4\rd = 3",
    "escape": 'labels = "\\u001b[31mcoarse"\n',
    "mapping": "positive = [[0, 1]]\n",
    "mixed": 'norms = [1.0, "a", 2.0]\n',
}
GRAMS = {
    "text": '"eye"', "number": "4", "nothing": "null", "table": '{"a": 1}', "flat": "[1, 2]",
    "ragged": "[[1, 0], [0]]", "words": '[["a", "b"], ["c", "d"]]', "truth": "[[true]]",
    "nan": "[[NaN, 0], [0, 1]]", "overflow": "[[1e400, 0], [0, 1]]", "asymmetric": "[[1, 2], [0, 1]]",
    "indefinite": "[[1, 2], [2, 1]]", "digits": f"[[{'9' * 5000}]]", "deep": "[" * 900 + "]" * 900,
    "none": "[]", "empty-rows": "[[], []]", "twice": '{"a": 1, "a": 2}', "surrogate": '"\\ud800"',
}  # fmt: skip
ROWS = {
    "letters": "a,b\nc,d\n", "ragged": "1,0\n0\n", "nan": "nan,0\n0,1\n", "overflow": "1e400,0\n0,1\n",
    "semicolons": "1;0\n0;1\n", "complex": "1j,0\n0,1\n", "quotes": '"1","0"\n"0","x"\n',
}  # fmt: skip


def odd_tables(folder: Path) -> None:
    """Write all of the tables."""
    for name, line in _toml_lines():
        (folder / name).write_text(line, encoding="utf-8")
    for name, text in GRAMS.items():
        (folder / f"gram-{name}.json").write_text(text)
    for name, text in ROWS.items():
        (folder / f"gram-{name}.csv").write_text(text)


def _toml_lines() -> Iterator[tuple[str, str]]:
    for field in FIELDS:
        for name, value in VALUES.items():
            text = field in ("labels", "stepper")
            if (field, name) not in MEANT and not (text and name == "negative"):
                yield f"table-{field}-{name}.toml", f"{field} = {value}\n"
    for name, line in LINES.items():
        yield f"table-{name}.toml", line


def table_names(extension: str) -> list[str]:
    """The names of those with this extension."""
    names = [name for name, _ in _toml_lines()]
    names += [f"gram-{name}.json" for name in GRAMS] + [f"gram-{name}.csv" for name in ROWS]
    return [name for name in names if name.endswith(f".{extension}")]


def table_words(name: str) -> tuple[str, ...]:
    """What the sentence may name beside the file: the field with the wrong value."""
    parts = name.split("-")
    if parts[0] != "table":
        return ()
    return (parts[1],) if parts[1] in FIELDS else ("nobody", "positive", "norms", "labels", "k is")


def _png(width: int = 8, height: int = 8, rows: bytes | None = None) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes((width + 1) * height) if rows is None else rows)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


PICTURES: dict[str, Maker] = {
    "words": lambda path: path.write_text("no picture"),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(_png()[:45]),
    "short": lambda path: path.write_bytes(_png(rows=b"abc")),
    "bomb": lambda path: path.write_bytes(_png(60000, 60000, b"abc")),
    "absurd": lambda path: path.write_bytes(_png(2**31 - 1, 2**31 - 1, b"abc")),
    "no-width": lambda path: path.write_bytes(_png(0, 8, b"abc")),
    "other-size": lambda path: path.write_bytes(_png(9, 7)),
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "loop": lambda path: path.symlink_to(path.name),
    "endless": lambda path: path.symlink_to("/dev/zero"),
    "socket": _socket,
}


def picture_folders(folder: Path) -> None:
    """One folder of pictures for each way in which one picture of it is bad."""
    for name, make in PICTURES.items():
        for coarse, fine in (("a", "0"), ("a", "1"), ("b", "2"), ("b", "3")):
            inside = folder / f"pictures-{name}" / coarse / fine
            inside.mkdir(parents=True)
            for i in range(3):
                (inside / f"{i}.png").write_bytes(_png())
        make(folder / f"pictures-{name}" / "b" / "3" / "9.png")


def data_folders(folder: Path) -> None:
    """Folders of data sets in which a file of MNIST is none, or another one."""
    from featavg.registry import IMAGE_SETS

    mnist = IMAGE_SETS["mnist"]
    makers = NO_FILES | {"pipe.EXT": os.mkfifo, "folder.EXT": Path.mkdir}
    for name, make in makers.items():
        if not name.startswith(("evil", "sparse", "endless", "random")):
            inside = folder / f"data-{name.removesuffix('.EXT')}" / mnist.folder
            inside.mkdir(parents=True)
            for file in mnist.md5:
                make(inside / file)


def data_folder_names() -> list[str]:
    skipped = ("evil", "sparse", "endless", "random")
    names = [name.removesuffix(".EXT") for name in NO_FILES if not name.startswith(skipped)]
    return [f"data-{name}" for name in (*names, "pipe", "folder")]
