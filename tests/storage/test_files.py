"""Writing and reading: whole or not at all, one sentence for every trouble."""

import errno
import io
import json
import os
import resource
import stat
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import featavg as fa
from featavg.errors import InputError
from featavg.storage import places
from featavg.storage.files import check_writable, dumps, usable_file, usable_folder, write
from featavg.storage.reading import read_arrays, read_json, read_safetensors, read_text, read_toml


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "new" / "result.json"
    write(path, "first")
    write(path, "second")
    assert path.read_text() == "second"
    assert [file.name for file in path.parent.iterdir()] == ["result.json"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_link_in_the_way_is_refused_and_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    link, broken = tmp_path / "result.json", tmp_path / "broken"
    link.symlink_to(precious)
    broken.symlink_to(tmp_path / "nowhere")
    for path in (link, broken):
        with pytest.raises(InputError, match="link"):
            write(path, "theirs")
        with pytest.raises(InputError, match="link"):
            usable_file(path)
    check_writable(tmp_path)
    assert precious.read_text() == "mine"
    assert link.is_symlink()


def test_devices_and_pipes_are_written_through(tmp_path):
    pipe, device = tmp_path / "pipe", tmp_path / "device"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    device.symlink_to("/dev/null")
    for path in (pipe, device, Path("/dev/null")):
        assert usable_file(path) == path
        write(path, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert device.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_the_umask_is_obeyed(tmp_path):
    before = os.umask(0o077)
    try:
        write(tmp_path / "private", "mine")
    finally:
        os.umask(before)
    assert (tmp_path / "private").stat().st_mode & 0o777 == 0o600


def test_a_page_of_the_users_is_not_overwritten(tmp_path):
    page = tmp_path / "mine.html"
    page.write_text("<title>mine</title>")
    with pytest.raises(InputError, match="is not a playground"):
        fa.playground(page)
    assert page.read_text() == "<title>mine</title>"
    assert fa.playground(fa.playground(tmp_path)).name == "playground.html"


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path):
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with pytest.raises(InputError, match=r"out .*cannot be written"):
            write(tmp_path / "large", bytes(5000))
        with pytest.raises(InputError, match=r"out .*cannot be written"):
            check_writable(tmp_path / "large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_says_so(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match="is on a full disk: free space"):
        write(tmp_path / "x", "text")
    assert list(tmp_path.iterdir()) == []


def test_asking_whether_one_could_write_makes_nothing(tmp_path):
    usable_folder(tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError):
            usable_folder(path)
    with pytest.raises(InputError, match="free and the result takes about"):
        check_writable(tmp_path, size=1e18)
    with pytest.raises(InputError, match=r"out .*too long|cannot be written"):
        write(tmp_path / ("x" * 300), "text")


def npy(array, version=(1, 0)):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(array), version, allow_pickle=True)
    return buffer.getvalue()


def archive(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content)
    return buffer.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_arrays_come_back(tmp_path, version):
    x, y = np.arange(30000.0).reshape(100, 300), np.array([], dtype=np.int64)
    (tmp_path / "a.npz").write_bytes(archive(x=npy(x, version), y=npy(y, version)))
    (tmp_path / "a.npy").write_bytes(npy(x.T, version))
    arrays = read_arrays(tmp_path / "a.npz")
    assert np.array_equal(arrays["x"], x)
    assert arrays["y"].shape == (0,)
    assert np.array_equal(read_arrays(tmp_path / "a.npy")[""], x.T)


def liar(count):
    """A header that promises `count` numbers over nothing."""
    head = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(head, described)
    return head.getvalue()


GOOD = archive(x=npy(np.ones(100)))
ARRAYS = {
    "empty": b"",
    "text": b"hello",
    "only magic": b"\x93NUMPY",
    "cut": GOOD[: len(GOOD) // 2],
    "cut array": npy(np.ones(100))[:-8],
    "flipped": GOOD[:60] + bytes(b ^ 255 for b in GOOD[60:80]) + GOOD[80:],
    "promises too much": liar(10**15),
    "promises too much, zipped": archive(x=liar(10**15)),
    "promises what memory has": liar(2**28),
    "promises what memory has, zipped": archive(x=liar(2**28)),
    "endless header": b"\x93NUMPY\x02\x00\xff\xff\xff\xff{",
    "no array inside": archive(x=b"nothing"),
    "pickled": npy(np.array([{}], dtype=object)),
    "pickled, zipped": archive(x=npy(np.array([{}], dtype=object))),
    "strange version": b"\x93NUMPY\x09\x00" + bytes(100),
    "negative shape": liar(-5),
    "header is code": b"\x93NUMPY\x01\x00\x10\x00__import__('os') ",
}


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_damaged_arrays_are_one_sentence(tmp_path, content):
    path = tmp_path / "bad.npz"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_arrays(path)
    told = str(caught.value)
    assert told.startswith(str(path))
    assert "\n" not in told
    assert len(told) < len(str(path)) + 300


def test_a_bomb_is_refused_before_it_unpacks(tmp_path):
    path = tmp_path / "bomb.npz"
    path.write_bytes(archive(x=bytes(1 << 22)))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(InputError, match="unpacks to"):
        read_arrays(path, limit=1 << 20)


TEXTS = {
    "deep list": (read_json, "[" * 100_000 + "]" * 100_000, "nested too deeply"),
    "deep object": (read_json, '{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    "deep array": (read_toml, "a = " + "[" * 100_000 + "]" * 100_000, "deep|valid TOML"),
    "cut": (read_json, '{"a": ', "not valid JSON"),
    "long number": (read_json, "9" * 10_000, "not valid JSON"),
    "not toml": (read_toml, "a = = b", "not valid TOML"),
    "latin": (read_json, b'{"a": "\xe9"}', "is not text"),
    "utf-16": (read_text, "k = 3".encode("utf-16"), "is not text"),
    "not tensors": (read_safetensors, "hello", "not a safetensors file"),
    "long header": (read_safetensors, b"\xff" * 100, "not a safetensors file"),
}


@pytest.mark.parametrize(("read", "content", "told"), TEXTS.values(), ids=TEXTS)
def test_damaged_texts_are_one_sentence(tmp_path, read, content, told):
    path = tmp_path / "bad"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=told) as caught:
        read(path)
    assert "\n" not in str(caught.value)


READERS = [read_text, read_json, read_toml, read_arrays, read_safetensors]


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_only_regular_files_are_read(tmp_path, read):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, told in {
        fifo: "is not a regular file",
        tmp_path: "is a folder",
        tmp_path / "nothing": "is not there",
        tmp_path / "zero\0byte": "cannot be read",
        tmp_path / ("x" * 300): "cannot be read",
        loop: "cannot be read",
    }.items():
        failed = []

        def attempt(path=path, failed=failed):
            try:
                read(path)
            except InputError as error:
                failed.append(str(error))

        # In a thread: the test must fail, not hang, if a reader waits for the other end.
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(5)
        assert failed
        assert told in failed[0]


def test_a_file_that_is_too_large_is_refused(tmp_path):
    path = tmp_path / "large.json"
    path.write_text(json.dumps(list(range(1000))))
    with pytest.raises(InputError, match="over the limit of 100"):
        read_json(path, limit=100)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_that_nobody_else_reads_is_not_written(value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        dumps({"value": value})


def test_an_installed_copy_names_what_an_extra_needs(tmp_path, monkeypatch):
    """Not featavg itself, which need not be on the reader's package index."""
    monkeypatch.setattr(places, "__file__", str(tmp_path / "featavg" / "storage" / "a" / "places.py"))
    assert places.install_command("torch").endswith("-m pip install 'torch>=2.6'")
