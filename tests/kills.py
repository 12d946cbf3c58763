"""Kill long commands at random times, go on, and compare the last bits.

    python -m tests.kills 100

Each run is killed (SIGKILL, in the middle of a write too) a few times and then left to end. It must end
as a run that nobody disturbed: weights, radii, tables and verdicts to the last bit. The commands run in
forks of one process, so that a kill costs no start of Python. Sweeps have their own: `tests.sweep.kills`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OUT = Path("out")


@dataclass(frozen=True)
class Victim:
    """Something that runs for a second or so into the folder `out`, and what its result is."""

    name: str
    run: Callable[[], int]
    result: Callable[[], str]


def _command(*line: str) -> Callable[[], int]:
    def run() -> int:
        from featavg.__main__ import main

        return main([*line, "--out", str(OUT)])

    return run


def _train_images() -> int:
    from featavg import ImageRecipe, load_images, train_images

    recipe = ImageRecipe(epochs=2, batch=32)
    train_images(load_images("digits"), "coarse", OUT, "convnet", 4, recipe, every=0.02)
    return 0


def _train_margins() -> int:
    from featavg import load_images
    from featavg.paper.margins.network.fit import fit
    from featavg.paper.margins.network.run import MarginCNN, MarginSettings

    settings = MarginSettings(network=MarginCNN(8, (4, 8), 16))
    fit(OUT, settings, load_images("digits").train, epochs=2)
    return 0


def _files(*names: str) -> Callable[[], str]:
    """The bytes of these files of the result."""

    def digest() -> str:
        digest = hashlib.sha256()
        for name in names:
            digest.update((OUT / name).read_bytes())
        return digest.hexdigest()

    return digest


def _verdicts() -> str:
    """All that the claims measured; not when and in how many seconds."""
    kept = []
    for path in sorted((OUT / "outcomes").glob("*.json")):
        told: dict[str, Any] = json.loads(path.read_text())
        kept.append([path.name, told["verdict"], told["evidence"]])
    return json.dumps(kept)


SMALL = ("--k=4", "--d=200", "--n=60")
VICTIMS = (
    Victim(
        "simulate",
        _command("simulate", *SMALL, "--steps=400", "--checkpoint-every=0.02", "--no-figures"),
        _files("coarse/arrays.safetensors", "fine/arrays.safetensors", "numbers.csv"),
    ),
    Victim(
        "reproduce",
        _command("reproduce", "--only=margin-linear-path", "--only=margin-linear-flow", "--seeds=1", "--resume"),
        _verdicts,
    ),
    Victim("margin network", _train_margins, _files("checkpoint/arrays.safetensors")),
    Victim("images train", _train_images, _files("arrays.safetensors")),
)


def life(victim: Victim, seconds: float | None = None) -> bool:
    """Run it, for at most so long; whether it ended by itself."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        if seconds is not None:
            os.dup2(quiet, 2)
        code = 99
        try:
            code = victim.run()
        finally:
            os._exit(code)
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, 0 if deadline is None else os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) != 0:
                raise RuntimeError(f"{victim.name} ended with {os.waitstatus_to_exitcode(status)}")
            return True
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.001)


def trial(victim: Victim, kills: int, whole: str, seconds: float, draw: random.Random) -> int:
    """Kill a run up to so many times, let it end, compare; how often it was killed."""
    shutil.rmtree(OUT, ignore_errors=True)
    count = 0
    while count < kills:
        if life(victim, draw.uniform(0.0, seconds)):
            break
        count += 1
    life(victim)
    if victim.result() != whole:
        raise AssertionError(f"{victim.name} ended in other bits after {count} kills")
    return count


def disturb(victim: Victim, kills: int, seed: int) -> int:
    """Undisturbed once, then killed until there were so many; in the working folder."""
    shutil.rmtree(OUT, ignore_errors=True)
    life(victim)  # imports, caches
    shutil.rmtree(OUT, ignore_errors=True)
    started = time.monotonic()
    life(victim)
    seconds = time.monotonic() - started
    whole, draw, count = victim.result(), random.Random(f"{victim.name} {seed}"), 0
    while count < kills:
        count += trial(victim, min(5, kills - count), whole, seconds, draw)
    return count


def run() -> int:
    """As many kills as were asked for, over all that can be killed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("kills", type=int)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="")
    asked = options.parse_args()
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    victims = [victim for victim in VICTIMS if asked.only in victim.name]
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for i, victim in enumerate(victims):
            share = (asked.kills + len(victims) - 1 - i) // len(victims)
            count = disturb(victim, share, asked.seed) if share else 0
            print(f"{victim.name}: {count} kills, the same bits", flush=True)
            total += count
        os.chdir("/")
    print(f"{total} kills, the same bits")
    return 0


def _imported() -> None:
    """Everything, before the first fork."""
    import featavg
    import featavg.__main__

    for name in featavg.__all__:
        getattr(featavg, name)


if __name__ == "__main__":
    _imported()
    sys.exit(run())
