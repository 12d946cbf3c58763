"""Which small mistakes in the code would no test notice? `make mutants` reports the survivors.

    make mutants                        all of them, as many at a time as there are cores
    make mutants ARGS="exact storage"   these lists of tests/mutants
    make mutants ARGS="--sample 8"      a few, the same ones every time

Every mutant runs in a process that is forked after the heavy imports. There the one module it
belongs to is compiled from the changed text, in memory: no file is touched. A mutant is killed if
one of its tests fails, or if they hang; it survives if they pass. Results are kept in
.pytest_cache/mutants.json with the hashes of all files that the tests read, so a second run
repeats only what a change may have changed (`--fresh` repeats everything).
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
if TYPE_CHECKING:
    from tests.mutants import Mutant

PACKAGE = ROOT / "src" / "featavg"
CACHE = ROOT / ".pytest_cache" / "mutants.json"
KILLED = ("killed", "hangs")
ENOUGH = 0.95  # of all mutants; in robustness/exact every one
LONGEST = 60  # seconds; a mutant that makes its tests hang is noticed too
# Imported once, before the forks: they are most of what a test run would wait for.
HEAVY = ("numpy", "scipy.optimize", "scipy.special", "scipy.stats", "daqp", "pytest",
         "hypothesis", "threadpoolctl", "safetensors.numpy", "jaxtyping")  # fmt: skip


def main(words: list[str]) -> int:
    """Run the lists of these names, all of them unless named; 1 if too many survive."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    from tests.mutants import lists

    known = lists()
    options = _options(list(known), words)
    mutants = [(name, m) for name in options.lists or known for m in known[name]]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    kept = {} if options.fresh else _read_cache()
    verdicts = {m: kept[_key(m)]["verdict"] for _, m in mutants if _valid(kept.get(_key(m)))}
    waiting = [m for _, m in mutants if m not in verdicts]
    start = time.perf_counter()
    if waiting:
        _import_heavy(waiting)
        _must_pass(waiting, options.workers)
        for mutant, report in _run(waiting, options.workers):
            verdicts[mutant] = report["verdict"]
            kept[_key(mutant)] = report
            _write_cache(kept)
            if options.verbose or report["verdict"] not in KILLED:
                print(f"{report['verdict']:9}{_described(mutant)}  {report.get('by', '')}", flush=True)
    return _summary(mutants, verdicts, len(waiting), time.perf_counter() - start)


def _options(known: list[str], words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Report the mutants that no test notices.")
    parser.add_argument("lists", nargs="*", metavar="LIST", help=f"of {', '.join(known)}")
    parser.add_argument("--sample", type=int, default=0, help="run so many, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--verbose", action="store_true", help="name the killed ones, too")
    options = parser.parse_args(words)
    for name in options.lists:
        if name not in known:
            parser.error(f"there is no list {name}: choose from {', '.join(known)}")
    return options


def _summary(mutants: list[tuple[str, Mutant]], verdicts: dict[Mutant, str], ran: int, seconds: float) -> int:
    """Print how many of each list were killed, and the survivors; 1 if too many survive."""
    whole = Counter(name for name, _ in mutants)
    killed = Counter(name for name, m in mutants if verdicts[m] in KILLED)
    for name in whole:
        print(f"{name:12} {killed[name]:4d} of {whole[name]:4d} killed")
    share = sum(killed.values()) / max(len(mutants), 1)
    print(f"{sum(killed.values())} of {len(mutants)} killed ({share:.1%}); "
          f"{ran} run in {seconds:.0f} s, the others known from before.")  # fmt: skip
    for name, mutant in mutants:
        if verdicts[mutant] not in KILLED:
            print(f"{verdicts[mutant]}: [{name}] {_described(mutant)}: {mutant.why}")
    # An unsound certificate is worth more than any other mistake: none may survive there.
    sound = all(verdicts[m] in KILLED for _, m in mutants if m.file.startswith("robustness/exact"))
    return 0 if share >= ENOUGH and sound and not {"broken", "unmet"} & set(verdicts.values()) else 1


def _described(mutant: Mutant) -> str:
    before, after = (" ".join(text.split())[:70] for text in (mutant.before, mutant.after))
    return f"{mutant.file}: {before} -> {after or '(nothing)'}"


# Results of earlier runs.


def _key(mutant: Mutant) -> str:
    return hashlib.sha256(repr(tuple(mutant)).encode()).hexdigest()[:16]


def _valid(report: dict[str, Any] | None) -> bool:
    """Whether every file that was read for it is as it was."""
    if not report or not report["files"]:  # a mutant that hangs had no time to say what it read
        return False
    return all(_hash(f) == seen for f, seen in report["files"].items())


_hashes: dict[str, str | None] = {}


def _hash(name: str) -> str | None:
    if name not in _hashes:
        path = ROOT / name
        _hashes[name] = hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else None
    return _hashes[name]


def _read_cache() -> dict[str, Any]:
    try:
        kept = json.loads(CACHE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _write_cache(kept: dict[str, Any]) -> None:
    CACHE.parent.mkdir(exist_ok=True)
    partial = CACHE.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(kept), encoding="utf-8")
    partial.replace(CACHE)


# Running.


def _import_heavy(mutants: list[Mutant]) -> None:
    for name in HEAVY:
        importlib.import_module(name)
    files = {test.partition("::")[0] for mutant in mutants for test in mutant.tests}
    if any("torch" in (ROOT / file).read_text(encoding="utf-8") for file in files):
        try:
            importlib.import_module("torch")
        except ImportError:
            print("Without torch, mutants whose tests need it survive.")


def _must_pass(mutants: list[Mutant], workers: int) -> None:
    """A test that fails without a mutant notices none."""
    tests: dict[str, dict[str, None]] = {}
    for mutant in mutants:
        for address in mutant.tests:
            tests.setdefault(address.partition("::")[0], {})[address] = None
    unchanged = [type(mutants[0])("", "", "", "", tuple(of_file)) for of_file in tests.values()]
    for code_as_it_is, report in _run(unchanged, workers):
        if report["verdict"] != "SURVIVED":
            told = f"{report['verdict']} ({report['by'] or code_as_it_is.tests[0]})"
            raise SystemExit(f"Tests fail without any mutant, so they can notice none: {told}")


def _run(mutants: list[Mutant], workers: int) -> Iterator[tuple[Mutant, dict[str, Any]]]:
    """Yield each mutant with its report, as they end."""
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant, Path, float]] = {}
    with tempfile.TemporaryDirectory(prefix="featavg-mutants-") as folder:
        while waiting or running:
            while waiting and len(running) < workers:
                mutant, out = waiting.pop(), Path(folder) / f"{len(waiting)}.json"
                longest = LONGEST if mutant.file else 10 * LONGEST
                running[_fork(mutant, out)] = (mutant, out, time.monotonic() + longest)
            for child, (mutant, out, deadline) in list(running.items()):
                done, _ = os.waitpid(child, os.WNOHANG)
                if not done and time.monotonic() < deadline:
                    continue
                if not done:
                    os.kill(child, 9)
                    os.waitpid(child, 0)
                del running[child]
                yield mutant, _report(out, hung=not done)
            time.sleep(0.01)


def _report(out: Path, hung: bool) -> dict[str, Any]:
    if hung:
        return {"verdict": "hangs", "by": f"after {LONGEST} s", "files": {}}
    if not out.exists():  # the interpreter itself ended, as it does where memory runs out
        return {"verdict": "broken", "by": "the process ended", "files": {}}
    report: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return report


def _fork(mutant: Mutant, out: Path) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.chdir(ROOT)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        report = _tested(mutant)
        out.write_text(json.dumps(report), encoding="utf-8")
    finally:
        os._exit(0)


def _tested(mutant: Mutant) -> dict[str, Any]:
    """Run the tests here; what happened, and which files were read."""
    import pytest

    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain"]
    # Without the shape checker, which costs most of the time and notices other things.
    arguments += ["-o", "addopts=--import-mode=importlib", *mutant.tests]
    changed = _Changed(mutant) if mutant.file else None
    if changed:
        sys.meta_path.insert(0, changed)
        arguments.append("-x")
    failed: list[str] = []

    class Failures:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failed.append(report.nodeid.removeprefix("tests/"))

    code = int(pytest.main(arguments, plugins=[Failures()]))
    names = {0: "SURVIVED", 1: "killed"}
    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    inside = [Path(file) for file in loaded if file and Path(file).is_relative_to(ROOT)]
    files = sorted(str(f.relative_to(ROOT)) for f in inside if ".venv" not in f.parts)
    # Other exit codes: nothing could be collected, which says nothing about the tests.
    verdict = names.get(code, "broken")
    if changed and changed.name not in sys.modules:
        verdict = "unmet"  # none of its tests imports the module
    return {"verdict": verdict, "by": " ".join(failed), "files": {f: _hash(f) for f in files}}


class _Changed(importlib.abc.MetaPathFinder):
    """Finds the mutant's module, and compiles it from the changed text."""

    def __init__(self, mutant: Mutant) -> None:
        path = PACKAGE / mutant.file
        parts = ["featavg", *Path(mutant.file).with_suffix("").parts]
        self.package = parts[-1] == "__init__"
        self.name, self.path = ".".join(parts[:-1] if self.package else parts), str(path)
        text = path.read_text(encoding="utf-8")
        if text.count(mutant.before) != 1:
            raise ValueError(f"{mutant.before!r} is {text.count(mutant.before)} times in {path}")
        self.text = text.replace(mutant.before, mutant.after)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The module of the mutant, and no other."""
        if name != self.name:
            return None
        folder = [str(Path(self.path).parent)] if self.package else None
        return importlib.util.spec_from_file_location(
            name, self.path, loader=_Loader(name, self.path, self.text), submodule_search_locations=folder
        )


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, name: str) -> Any:
        return compile(self.text, self.path, "exec", dont_inherit=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
