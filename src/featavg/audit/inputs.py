"""Images and labels as people have them: arrays, pictures, data sets, loaders; and how a model takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from featavg.boundary.coerce import converted
from featavg.data.streams import stream
from featavg.errors import InputError
from featavg.progress import Progress, silent

# Names under which batches that are tables keep their parts, the first that is there counts.
IMAGES = ("pixel_values", "image", "images", "img", "x")
LABELS = ("coarse", "labels", "label", "targets", "target", "y")
FINE = ("fine", "fine_labels", "fine_label")
# How many times the audited images are read from a data set without `targets`, in random order.
READ = 4

Size = int | tuple[int, int] | None
Example = tuple[Any, Any, Any]  # an image, its label, and its finer label or None


def is_array(x: Any) -> bool:
    """Whether x is one array of images, or nested numbers that become one."""
    if hasattr(x, "__array__") or not isinstance(x, list | tuple):
        return hasattr(x, "__array__") or (not hasattr(x, "__iter__") and not hasattr(x, "__getitem__"))
    return not any(_is_picture(each) or isinstance(each, tuple | dict) for each in x[:1])


def gathered(
    x: Any, coarse: Any, fine: Any, count: int, size: Size = None, seed: int = 0, progress: Progress = silent
) -> tuple[ndarray, Any, Any]:
    """Images as one array, with their labels.

    Of a data set or a loader at most about `count` images are kept, as many of every label, so that
    memory does not grow with it. Pictures of several sizes are cut to the middle and resized.

    Args:
        x: an array, a list of pictures, a data set of (image, label) pairs or tables, or an iterable of
            batches of them, such as a `DataLoader`.
        coarse, fine: labels beside an array or a list; None where x brings its own.
        size: height and width, or one number for both.
    """
    if isinstance(x, str | bytes | dict | set):
        raise InputError("x", f"is a {type(x).__name__}", "give images, n x channels x height x width")
    if is_array(x):
        x = x.detach().cpu().numpy() if hasattr(x, "detach") else x
        array: ndarray = converted("x", ndarray, x)
        return (_stacked(array, size) if size is not None and array.ndim == 4 else array, coarse, fine)
    items = isinstance(x, list | tuple) and isinstance(next(iter(x), None), list | tuple | dict)
    if isinstance(x, list | tuple) and x and not items:
        return _stacked(x, size), coarse, fine
    if fine is not None or not (coarse is None or isinstance(coarse, Mapping)):
        name = "coarse" if fine is None else "fine"
        raise InputError(name, "is given beside a data set, which has its labels", "leave it out")
    kept = _sampled(_examples(x, count, seed), count, seed, progress)
    if not kept:
        raise InputError("x", "has no images", "give a data set, or batches of images and labels")
    images, labels, finer_ones = zip(*kept, strict=True)
    if isinstance(coarse, Mapping):
        return _stacked(images, size), coarse, list(labels)
    return _stacked(images, size), list(labels), None if finer_ones[0] is None else list(finer_ones)


def balanced(labels: Int[ndarray, " n"], count: int, seed: int) -> Int[ndarray, " m"]:
    """Rows in order, as many of every label as can be had, `count` in all."""
    rng = stream(seed, "audit sample")
    order = rng.permutation(len(labels))
    rank = np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        rank[members] = np.arange(len(members))
    return np.sort(order[np.argsort(rank[order], kind="stable")][:count])


def _sampled(examples: Iterable[Example], count: int, seed: int, progress: Progress) -> list[Example]:
    """A random sample of a stream, as many of every label, whatever the order; about `count` in all."""
    rng, rows = stream(seed, "gathered"), dict[int, Example]()
    of_label: dict[Any, list[tuple[float, int]]] = {}
    for i, (image, label, finer) in enumerate(examples):
        progress(0.0, f"images read: {i}")
        mine = of_label.setdefault(label if finer is None else finer, [])
        mine.append((float(rng.random()), i))
        rows[i] = image, label, finer
        most = -(-count // len(of_label))
        for others in (mine,) if len(mine) > 1 else of_label.values():
            while len(others) > most:
                others.sort()
                del rows[others.pop()[1]]
    return list(rows.values())


def _examples(x: Any, count: int, seed: int) -> Iterator[Example]:
    """Single examples of a data set, or of batches: those have as many labels as images."""
    items = x
    if hasattr(x, "__getitem__") and hasattr(x, "__len__"):
        order = stream(seed, "read").permutation(len(x))
        targets = getattr(x, "targets", None)
        if targets is not None and len(targets) == len(x):
            numbers = np.unique(np.asarray(targets), return_inverse=True)[1]
            order = balanced(numbers, count, seed)
        items = (x[int(i)] for i in order[: READ * count])
    elif not isinstance(x, Iterable):
        raise InputError("x", f"is a {type(x).__name__}", "give images, a data set or batches")
    for item in items:
        images, labels, finer = _parts(item)
        if not isinstance(labels, list | tuple | ndarray):
            yield images, labels, finer
            continue
        if len(images) != len(labels):
            problem = f"has a batch of {len(images)} images and {len(labels)} labels"
            raise InputError("x", problem, "give batches (images, labels)")
        finer = [None] * len(images) if finer is None else finer
        yield from zip(*(map(_plain, part) for part in (images, labels, finer)), strict=True)


def _parts(item: Any) -> Example:
    """Images, labels and finer labels of an example or a batch."""
    if isinstance(item, Mapping):
        found = [next((item[n] for n in names if n in item), None) for names in (IMAGES, LABELS, FINE)]
        if found[0] is None or found[1] is None:
            problem = f"has tables of {', '.join(map(str, item))}"
            raise InputError("x", problem, f"name the images {IMAGES[0]} and the labels labels")
        return found[0], _plain(found[1]), _plain(found[2])
    if isinstance(item, list | tuple) and len(item) in (2, 3):
        return item[0], _plain(item[1]), _plain(item[2] if len(item) == 3 else None)
    problem = f"has items that are a {type(item).__name__}"
    raise InputError("x", problem, "give pairs (image, label), or batches of them")


def _plain(value: Any) -> Any:
    """Tensors as arrays, labels of one number as that number."""
    value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
    return value.item() if isinstance(value, ndarray | np.generic) and value.ndim == 0 else value


def _is_picture(value: Any) -> bool:
    return (hasattr(value, "convert") and hasattr(value, "getbands")) or getattr(value, "ndim", 0) in (2, 3)


def _stacked(pictures: Sequence[Any] | ndarray, size: Size) -> ndarray:
    """Pictures as one array, n x channels x height x width, resized if a size is given."""
    arrays = [_channels_first(_plain(each)) for each in pictures]
    wanted = (size, size) if isinstance(size, int) else size
    if wanted is not None:
        if len(wanted) != 2 or min(wanted) < 1:
            raise InputError("size", f"is {size}", "give a height and a width")
        arrays = [_resized(each, (int(wanted[0]), int(wanted[1]))) for each in arrays]
    shapes = sorted({each.shape for each in arrays})
    if len(shapes) > 1:
        problem = f"has pictures of shapes {shapes[0]} and {shapes[-1]}"
        raise InputError("x", problem, "give size=, to which they are cut and resized")
    return np.stack(arrays)


def _channels_first(picture: Any) -> ndarray:
    if hasattr(picture, "convert"):
        picture = picture if picture.mode in ("L", "RGB") else picture.convert("RGB")
    array = np.asarray(picture)
    if array.ndim == 2:
        return array[None]
    if array.ndim != 3:
        problem = f"has a picture of shape {array.shape}"
        raise InputError("x", problem, "give channels x height x width")
    last = array.shape[2] in (1, 3) and array.shape[0] not in (1, 3)
    return array.transpose(2, 0, 1) if last else array


def _resized(array: ndarray, size: tuple[int, int]) -> ndarray:
    """The middle of a picture in the shape that is wanted, resized with antialiasing."""
    from PIL import Image, ImageOps

    if array.shape[1:] == size:
        return array
    layers = array if array.dtype == np.uint8 else array.astype(np.float32)
    way = Image.Resampling.BILINEAR
    made = [ImageOps.fit(Image.fromarray(layer), size[::-1], way) for layer in layers]
    return np.stack([np.asarray(each) for each in made])


def numbered(labels: Any, name: str, order: Mapping[str, int]) -> tuple[Any, tuple[str, ...] | None]:
    """Labels that are words, as numbers: in the model's own order if it knows them all, else sorted."""
    array = np.asarray(labels)
    if array.dtype.kind == "O" and all(isinstance(each, str) for each in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind != "U":
        return labels, None
    words = sorted(set(array.ravel().tolist()), key=lambda w: (order.get(w, 0), w))
    if "" in words:
        raise InputError(name, "has an empty word", "name every class")
    place = {word: i for i, word in enumerate(words)}
    return np.vectorize(place.__getitem__, otypes=[int])(array), tuple(words)


def order_of(model: Any) -> Mapping[str, int]:
    """The numbers of a HuggingFace model's classes by name; empty for any other."""
    table = getattr(getattr(model, "config", None), "label2id", None)
    return {str(k): int(v) for k, v in table.items()} if isinstance(table, Mapping) else {}


def normalisation_of(model: Any, mean: Any, std: Any, processor: Any) -> tuple[Any, Any]:
    """Mean and std: what was given, or those of a HuggingFace processor, or of a timm model."""
    cfg = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    of_timm = (cfg.get("mean"), cfg.get("std")) if isinstance(cfg, Mapping) else (None, None)
    of_processor: tuple[Any, Any] = (None, None)
    if processor is not None:
        if not hasattr(processor, "image_mean") or not hasattr(processor, "image_std"):
            problem = f"is a {type(processor).__name__} without image_mean and image_std"
            raise InputError("processor", problem, "give mean and std instead")
        plain = getattr(processor, "do_normalize", True)
        of_processor = (processor.image_mean, processor.image_std) if plain else (0.0, 1.0)
    found = []
    for given, first, second, neutral in zip((mean, std), of_processor, of_timm, (0.0, 1.0), strict=True):
        one = next((each for each in (given, first, second) if each is not None), neutral)
        found.append(list(one) if isinstance(one, tuple) else one)
    return found[0], found[1]


def size_of(processor: Any) -> Size:
    """The height and width that a HuggingFace processor crops or resizes to."""
    for name in ("crop_size", "size"):
        given = getattr(processor, name, None)
        given = vars(given) if hasattr(given, "__dict__") and not isinstance(given, Mapping) else given
        if isinstance(given, Mapping) and given.get("height") and given.get("width"):
            return int(given["height"]), int(given["width"])
        if isinstance(given, Mapping) and given.get("shortest_edge"):
            return int(given["shortest_edge"]), int(given["shortest_edge"])
    return None
