"""Which small mistakes in the code would no test notice? `make mutants` (ARGS="exact" for one list).

Each mutant of tests/mutants is put into a copy of the source, and its tests run against the copy in
a process of their own, forked after the heavy imports. A mutant survives if its tests pass.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 300  # seconds; a mutant that makes its tests hang is noticed too


def main(names: list[str]) -> int:
    """Run the lists of these names, all of them unless named; 1 if a mutant survives."""
    sys.path.insert(0, str(ROOT))
    lists = names or sorted(p.stem for p in (ROOT / "tests/mutants").glob("[a-z]*.py"))
    mutants = [
        m for name in lists for m in importlib.import_module(f"tests.mutants.{name}").MUTANTS
    ]
    # Imported once, before the forks: they are most of what a test run would wait for.
    for heavy in ("numpy", "scipy.optimize", "scipy.special", "daqp", "pydantic", "pytest"):
        importlib.import_module(heavy)
    survivors, start = [], time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="featavg-mutants-") as folder:
        copy = _copy(folder)
        for tests in dict.fromkeys(mutant.tests for mutant in mutants):
            if _fails(copy, tests):
                raise SystemExit(f"These fail without a mutant, so they can notice none: {tests}")
        for number, mutant in enumerate(mutants, 1):
            noticed = _noticed(copy, mutant)
            if not noticed:
                survivors.append(mutant)
            word = "killed  " if noticed else "SURVIVED"
            place = f"{mutant.file}: {_line(mutant.before)}"
            print(f"{number:4d}/{len(mutants)} {word} {place}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants killed in {seconds:.0f} s.")
    for mutant in survivors:
        print(f"survived: {mutant.file}: {_line(mutant.before)} -> {_line(mutant.after)}")
    return 1 if survivors else 0


def _line(text: str) -> str:
    return " ".join(text.split())[:90]


def _copy(folder: str) -> Path:
    """A copy of the source to put mutants into, with the tests beside it."""
    copy = Path(folder)
    leave = shutil.ignore_patterns("__pycache__", "results")
    shutil.copytree(ROOT / "src", copy / "src", ignore=leave)
    (copy / "src/featavg/results").symlink_to(ROOT / "src/featavg/results")
    (copy / "tests").symlink_to(ROOT / "tests")
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def _noticed(copy: Path, mutant: tuple[str, str, str, str]) -> bool:
    """Whether the tests fail on the copy with the mutant in it; it is taken out again."""
    file, before, after, tests = mutant
    source = copy / "src/featavg" / file
    text = source.read_text(encoding="utf-8")
    if text.count(before) != 1:
        raise SystemExit(
            f"{file} has {_line(before)!r} {text.count(before)} times: name one place."
        )
    source.write_text(text.replace(before, after), encoding="utf-8")
    _forget(source)
    try:
        return _fails(copy, tests)
    finally:
        source.write_text(text, encoding="utf-8")
        _forget(source)


def _forget(source: Path) -> None:
    """Remove the compiled file: by its time and size alone a mutant may look like the original."""
    for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*"):
        compiled.unlink()


def _fails(copy: Path, tests: str) -> bool:
    paths, _, words = tests.partition(" -k ")
    # Without the shape checker, which costs most of the time and notices other things.
    arguments = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-o",
        "addopts=--import-mode=importlib",
        *paths.split(),
        *(["-k", words] if words else []),
    ]
    child = os.fork()
    if child == 0:
        os.chdir(copy)
        sys.path[:0] = [str(copy / "src"), str(copy)]
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        import pytest

        code = 1
        try:
            code = int(pytest.main(arguments))
        finally:
            # 5: no test was selected, which notices nothing.
            os._exit(0 if code in (0, 5) else 1)
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) != 0
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
