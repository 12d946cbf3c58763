"""Image data: the published layouts, the user's own, and what is refused."""

import gzip
import hashlib
import os
import struct
import zipfile

import numpy as np
import pytest

from featavg.data.image_sets.archives import DAMAGED, HERE, MISSING, Archive, ImageSet, checked, download, state
from featavg.data.image_sets.cifar import read_cifar
from featavg.data.image_sets.digits import read_idx
from featavg.data.image_sets.loading import load, load_images, own_images
from featavg.data.images import Images, ImageTask, partition, split
from featavg.errors import InputError
from featavg.registry import IMAGE_SETS


def idx(array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def test_idx_and_cifar_are_read_back(tmp_path):
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    (tmp_path / "a").write_bytes(idx(images))
    assert np.array_equal(read_idx(tmp_path / "a"), images)
    rows = np.random.default_rng(0).integers(0, 256, (5, 3074)).astype(np.uint8)
    (tmp_path / "b").write_bytes(rows.tobytes())
    labels, pixels = read_cifar(tmp_path / "b", 2)
    assert np.array_equal(labels, rows[:, :2])
    assert pixels[3, 1, 0, 0] == rows[3, 2 + 1024]


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x0d\x01aaaa", idx(np.zeros((2, 2)))[:-1], b"\0\0\x08\x03\0"],
    ids=["empty", "type", "short", "header"],
)
def test_a_damaged_idx_file_is_named(tmp_path, content):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(InputError, match="bad is damaged"):
        read_idx(tmp_path / "bad")


def published(monkeypatch, tmp_path):
    """A data set of one file, with a local archive to download it from."""
    raw = idx(np.arange(6).reshape(2, 3))
    packed = gzip.compress(raw, mtime=0)
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "a.gz").write_bytes(packed)
    md5 = hashlib.md5(packed).hexdigest()
    archive = Archive((tmp_path / "server" / "a.gz").as_uri(), md5, ("a",))

    def read(files, seed):
        images = Images(read_idx(files["a"])[:, None, None], np.arange(2))
        return ImageTask("toy", images, images, np.array([0, 1]), ("u", "v"), ("u", "v"))

    entry = ImageSet(
        name="toy",
        title="Toy",
        read=read,
        folder="toy",
        md5={"a": hashlib.md5(raw).hexdigest()},
        archives=(archive,),
        presets={"toy": {"network": "convnet", "width": 4, "recipe": {"epochs": 1}, "minutes": 0.1, "about": "a toy"}},
    )
    monkeypatch.setitem(IMAGE_SETS._added, "toy", entry)
    return entry


def test_a_new_data_set_is_one_file_and_one_name(monkeypatch, tmp_path):
    from featavg.cli.doctor import doctor
    from featavg.training.torch.recipe import image_presets

    entry = published(monkeypatch, tmp_path)
    local_retrieve(monkeypatch)
    assert [*IMAGE_SETS][-1] == "toy"
    assert doctor(tmp_path / "data").data["toy"] == MISSING
    download("toy", tmp_path / "data", progress=False)
    assert state(entry, tmp_path / "data") == HERE
    assert doctor(tmp_path / "data").data["toy"] == HERE
    assert load_images("toy", data_dir=tmp_path / "data").name == "toy"
    assert image_presets()["toy"].recipe.epochs == 1
    with pytest.raises(InputError, match=r"cifar100, toy"):
        load_images("nothing of the kind")


@pytest.mark.parametrize("name", ["mnist", "cifar10", "cifar100"])
def test_doctor_believes_only_what_the_loader_reads(name, tmp_path):
    """Folders of other names or layouts, or with other files, are no data."""
    from featavg.cli.doctor import doctor

    entry = IMAGE_SETS[name]
    for folder in (name, name.upper(), "cifar-10", "cifar-10-batches-py", "cifar-100-python"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "data_batch_1").write_bytes(b"x")
    assert doctor(tmp_path).data[name] == MISSING
    (tmp_path / entry.folder).mkdir(exist_ok=True)
    for file in entry.md5:
        (tmp_path / entry.folder / file).write_bytes(b"no such data")
    assert doctor(tmp_path).data[name] == DAMAGED
    with pytest.raises(InputError, match="damaged"):
        load(name, tmp_path)


def local_retrieve(monkeypatch):
    """pooch's retrieve over a file address, its hash check included."""
    import urllib.request

    import pooch

    real = pooch.retrieve

    def copy(url, output_file, pooch):
        with urllib.request.urlopen(url) as source, open(output_file, "wb") as out:
            out.write(source.read())

    def retrieve(url, **given):
        given.pop("progressbar", None)
        return real(url, downloader=copy, **given)

    monkeypatch.setattr(pooch, "retrieve", retrieve)


def test_download_checks_unpacks_and_is_not_repeated(monkeypatch, tmp_path):
    published(monkeypatch, tmp_path)
    local_retrieve(monkeypatch)
    (path,) = download("toy", tmp_path / "data", progress=False)
    assert np.array_equal(read_idx(path), np.arange(6).reshape(2, 3))
    (tmp_path / "server" / "a.gz").unlink()
    assert download("toy", tmp_path / "data", progress=False) == [path]


def test_a_download_that_arrives_damaged_is_refused(monkeypatch, tmp_path):
    published(monkeypatch, tmp_path)
    local_retrieve(monkeypatch)
    (tmp_path / "server" / "a.gz").write_bytes(b"something else")
    with pytest.raises(InputError, match="arrived damaged"):
        download("toy", tmp_path / "data", progress=False)
    assert not (tmp_path / "data" / "toy" / "a").exists()


def test_a_damaged_and_a_missing_file_are_named(monkeypatch, tmp_path):
    entry = published(monkeypatch, tmp_path)
    with pytest.raises(InputError, match=r"is not there.*featavg data get toy"):
        checked(entry, tmp_path)
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a").write_bytes(b"broken")
    with pytest.raises(InputError, match="md5 is not the published one"):
        checked(entry, tmp_path)
    assert entry.folder == "toy"


def test_digits_need_no_download():
    task = load("digits")
    assert (len(task.train), len(task.test), task.shape) == (1258, 539, (1, 8, 8))
    assert task.positive.tolist() == [False, True] * 5
    assert task.train.unit.max() == 1.0
    assert task.with_partition("halves").positive.tolist() == [True] * 5 + [False] * 5


@pytest.mark.parametrize(
    ("text", "expected"), [("parity", [0, 1, 0, 1]), ("halves", [1, 1, 0, 0]), ("0,3/1/2", [0, 1, 2, 0])]
)
def test_partitions(text, expected):
    assert partition(text, 4).tolist() == expected


@pytest.mark.parametrize("text", ["0,1/2", "0,1/1,2,3", "a/b", "", "0,1,2,3/4"])
def test_bad_partitions_are_refused(text):
    with pytest.raises(InputError, match="groups"):
        partition(text, 4)


def test_labels_that_do_not_match_the_partition_are_refused():
    images = Images(np.zeros((4, 1, 2, 2), dtype=np.uint8), np.array([0, 1, 2, 3]))
    with pytest.raises(InputError, match="partition has 3 classes"):
        ImageTask("x", images, images, np.array([0, 1, 0]), ("a", "b", "c"), ("u", "v"))
    with pytest.raises(InputError, match="leaves a class empty"):
        ImageTask("x", images, images, np.array([0, 2, 0, 2]), tuple("abcd"), ("u", "v"))
    with pytest.raises(InputError, match="all in one class"):
        ImageTask("x", images, images, np.zeros(4, dtype=int), tuple("abcd"), ("u",))


@pytest.mark.parametrize("value", [1.5, -0.1, np.nan])
def test_images_outside_their_bounds_are_refused(value):
    pixels = np.full((2, 1, 2, 2), 0.5)
    pixels[0, 0, 0, 0] = value
    with pytest.raises(InputError, match=r"outside|not finite"):
        Images(pixels, np.array([0, 1]))


def test_split_keeps_the_share_of_every_class():
    images = Images(np.zeros((40, 1, 2, 2), dtype=np.uint8), np.repeat([0, 1], [10, 30]))
    first, second = split(images, 0.5, seed=0)
    assert np.bincount(first.fine).tolist() == [5, 15]
    assert len(second) == 20


def own_npz(path, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "images": rng.integers(0, 256, (40, 6, 6, 3)).astype(np.uint8),
        "fine": np.arange(40) % 4,
        "coarse": np.arange(40) % 2,
    } | changes
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_an_npz_of_the_users(tmp_path):
    task = own_images(own_npz(tmp_path / "mine.npz"))
    assert task.shape == (3, 6, 6)
    assert task.groups.tolist() == [0, 1, 0, 1]
    assert own_images(tmp_path / "mine.npz", "halves").groups.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"fine": None}, "has no 'fine'"),
        ({"coarse": None}, "has no 'coarse'"),
        ({"coarse": np.arange(40) % 3}, "into two classes"),
        ({"coarse": np.arange(39) % 2}, "39 labels"),
        ({"fine": np.arange(40) / 2}, "whole numbers"),
        ({"fine": 2 * (np.arange(40) % 4), "coarse": np.arange(40) % 2}, "skips class"),
        ({"images": np.zeros((40, 6, 6, 5))}, "channels"),
        ({"images": np.full((40, 6, 6), 2.0)}, "outside"),
        ({"fine": np.array([object()] * 40)}, "holds objects, and unpickling them could run code"),
        ({"fine": np.r_[np.arange(39) % 4, 10**9]}, "holds 1000000000 for 40 images"),
        ({"coarse": np.r_[np.arange(39) % 2, 10**9]}, "holds 1000000000 for 40 images"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_bad_npz_files_are_refused(tmp_path, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        own_images(own_npz(tmp_path / "bad.npz", **changes))


def test_a_folder_of_pictures(tmp_path):
    from PIL import Image

    for coarse, fine in (("animal", "cat"), ("animal", "dog"), ("thing", "car")):
        (tmp_path / "pictures" / coarse / fine).mkdir(parents=True)
        for i in range(5):
            picture = Image.new("RGB", (4, 4), (10 * i, 0, 0))
            picture.save(tmp_path / "pictures" / coarse / fine / f"{i}.png")
    task = own_images(tmp_path / "pictures")
    assert task.fine_names == ("cat", "dog", "car")
    assert task.groups.tolist() == [0, 0, 1]
    (tmp_path / "pictures" / "thing" / "car" / "0.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"0\.png is damaged"):
        own_images(tmp_path / "pictures")
    with pytest.raises(InputError, match="laid out"):
        own_images(tmp_path / "pictures", "halves")


def bomb(path, shape):
    """An npz of a few kilobytes whose header announces much more."""
    header = np.lib.format.header_data_from_array_1_0(np.zeros(0, dtype=np.uint8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("images", "fine", "coarse", "x", "clusters"):
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array_header_1_0(file, header | {"shape": shape})
                file.write(b"0" * 1000)


@pytest.mark.parametrize("shape", [(10**15,), (10**9, 10**9)], ids=str)
def test_a_file_that_unpacks_to_more_than_the_memory_is_refused(tmp_path, shape):
    from featavg.data.user_points import own_points

    bomb(tmp_path / "bomb.npz", shape)
    for read in (own_images, own_points):
        with pytest.raises(InputError, match=r"does not fit into memory"):
            read(tmp_path / "bomb.npz")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x05\x06" + bytes(18)], ids=["no bytes", "two", "no arrays"])
def test_an_empty_npz_is_refused(tmp_path, content):
    (tmp_path / "empty.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"empty\.npz"):
        own_images(tmp_path / "empty.npz")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.npz")
    with pytest.raises(InputError):
        load_images(tmp_path / "pipe.npz")
    with pytest.raises(InputError, match="is not a regular file"):
        own_images(tmp_path / "pipe.npz")
