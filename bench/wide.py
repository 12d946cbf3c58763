"""The decision at a radius for one wide hidden layer on MNIST: verified, attacked and open images, and seconds.

The public mark is 784-1024-10, trained plainly, at l2 radius 0.3: between 9.7% and 66.3% of all test images can
be attacked (Croce, Andriushchenko and Hein, AISTATS 2019, Table 1). That network is not at hand;
`DenseRecipe(epochs=100)` is its recipe. Networks that are at hand are in the claims `verification-*`.

`make bench` trains five epochs. `python bench/wide.py --epochs 100 --images 200 --folder nets` is the printed
recipe; a killed run goes on where it was.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from time import process_time

from row import Row

from featavg.data.image_sets.loading import data_folder, load
from featavg.errors import InputError
from featavg.robustness.certify import Certificate, certify
from featavg.robustness.exact.budget import Budget

EPOCHS, IMAGES, SECONDS, RADIUS = 5, 100, 10.0, 0.3


def rows(epochs: int = EPOCHS, images: int = IMAGES, seconds: float = SECONDS, folder: Path | None = None) -> list[Row]:
    if find_spec("torch") is None:
        return [Row("a wide network on MNIST", "", "", None, "PyTorch is not installed")]
    from featavg.training.torch.dense import DenseRecipe, train_dense

    try:
        task = load("mnist", data_folder())
    except InputError as error:
        return [Row("a wide network on MNIST", "", "", None, str(error))]
    recipe = DenseRecipe(epochs=epochs)
    net = train_dense(task, recipe, None if folder is None else folder / f"{recipe.hidden[0]}")
    x = task.test.unit[:images].reshape(images, -1).astype(float)
    y, start = task.test.fine[:images], process_time()
    found = certify(net, x, y, radius=RADIUS, budget=Budget(seconds=seconds), jobs=1)
    busy = (process_time() - start) / images
    low, high = found.robust_error
    counts = ", ".join(f"{int(found.mask(one).sum())} {one.value}" for one in Certificate)
    shape = "-".join(map(str, (net.dimension, *net.widths)))
    what = f"{shape} on MNIST, {epochs} epochs, l2 {RADIUS:g}, {images} images"
    told = f"robust error {100 * low:.1f} to {100 * high:.1f}%"
    about = f"{counts}; {busy:.2f} CPU-s an image, longest {found.seconds.max():.1f} of {seconds:g} s"
    return [Row(what, told, "gap <= 5 points", high - low <= 0.05, about)]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of training; papers have 100")
    parser.add_argument("--images", type=int, default=IMAGES, help="the first ones of the test set")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="budget of an image")
    parser.add_argument("--folder", type=Path, help="where networks are kept, for killed runs")
    return parser.parse_args()


if __name__ == "__main__":
    for row in rows(**vars(_options())):
        print(*row, sep="  ")
