"""The share of bad inputs that are answered right.

    python -m tests.bad_inputs [--sample N] [--seed S] [--only TEXT] [--kind KIND] [--part 1/4]

Parts are independent processes: each has a world of its own, and every fourth case of each kind.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

# A call that asks for all the memory is to fail here, not to take the machine with it.
MEMORY = 12 << 30


def run() -> int:
    """Try them; 0 if at least 99% are answered as they should be."""
    from tests.bad_inputs import calls, case, files, flags

    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sample", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="")
    options.add_argument("--kind", default="")
    options.add_argument("--part", default="1/1", type=_part)
    options.add_argument("--unhurried", action="store_true", help="do not judge how long it takes")
    asked = options.parse_args()
    if asked.unhurried:
        case.LIMIT = case.PATIENCE = case.WAIT = 3600.0
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    total: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        files.world(Path("."))
        kinds = {"words and numbers": flags, "files": files, "calls": calls}
        for kind, module in kinds.items():
            if asked.kind not in kind:
                continue
            if module is calls:  # they name no files: nothing to look at but what is new
                Path("elsewhere").mkdir(exist_ok=True)
                os.chdir("elsewhere")
            listed = [one for one in module.cases() if asked.only in one.text][asked.part]
            if asked.sample:
                count = min(len(listed), asked.sample // len(kinds))
                listed = random.Random(asked.seed).sample(listed, count)
            counts, started = total.setdefault(kind, [0, 0]), time.process_time()
            for one in listed:
                problem = one.problem()
                counts[0] += problem is None
                counts[1] += 1
                if problem is not None:
                    print(f"{one.text[:160]!r}\n    {problem}", flush=True)
            os.chdir(folder)
            print(f"{kind}: {time.process_time() - started:.0f} s of this process", flush=True)
        os.chdir("/")
    for kind, (right, count) in total.items():
        print(f"{kind}: {right} of {count}")
    right, count = (sum(column) for column in zip(*total.values(), strict=True))
    print(f"answered right: {right} of {count}, {100 * right / max(count, 1):.2f}%")
    return 0 if right >= 0.99 * count else 1


def _part(text: str) -> slice:
    """Every Nth case, from the Ith on."""
    first, _, step = text.partition("/")
    return slice(int(first) - 1, None, int(step))


if __name__ == "__main__":
    sys.exit(run())
