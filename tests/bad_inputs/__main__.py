"""`python -m tests.bad_inputs [--sample N] [--seed S] [--only TEXT]`: the share answered right."""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
from pathlib import Path

# A call that asks for all the memory is to fail here, not to take the machine with it.
MEMORY = 12 << 30


def run() -> int:
    """Try them; 0 if at least 99% are answered as they should be."""
    from tests.bad_inputs import calls, files, flags

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", default="")
    asked = options.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    total: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        files.world(Path("."))
        for kind, module in (("words and numbers", flags), ("files", files), ("calls", calls)):
            listed = [case for case in module.cases() if asked.only in case.text]
            if asked.sample:
                count = min(len(listed), asked.sample // 3)
                listed = random.Random(asked.seed).sample(listed, count)
            counts = total.setdefault(kind, [0, 0])
            for case in listed:
                problem = case.problem()
                counts[0] += problem is None
                counts[1] += 1
                if problem is not None:
                    print(f"{case.text[:160]!r}\n    {problem}", flush=True)
        os.chdir("/")
    for kind, (right, count) in total.items():
        print(f"{kind}: {right} of {count}")
    right, count = (sum(column) for column in zip(*total.values(), strict=True))
    print(f"answered right: {right} of {count}, {100 * right / max(count, 1):.2f}%")
    return 0 if right >= 0.99 * count else 1


if __name__ == "__main__":
    sys.exit(run())
