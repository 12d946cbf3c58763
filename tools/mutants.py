"""Which small mistakes in the code would no test notice? `make mutants` reports the survivors.

    make mutants                                                    50 mutants of the whole library
    make mutants ARGS="robustness/exact --sample 40 --seed 7"       40 of a folder or file (0: all)

Mutants come from the syntax tree: a comparison is flipped or its border moved, an operator, a constant
or an extreme exchanged, a negation, an argument or a statement dropped, a returned number scaled. Each
runs in a forked process, where its module is compiled from the changed tree: no file is touched. The
tests that call the changed function run there, the quickest first, for `MOST` seconds at most; it is
killed if one fails, or if they take far longer than without it.

Which test calls what is found once a test file. That and all verdicts are kept in
.pytest_cache/mutants.json with the hashes of the files they depend on (`--fresh` forgets them). Among
the survivors are mutants that cannot change any answer; only a reader can tell.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import hashlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "featavg"
CACHE = ROOT / ".pytest_cache" / "mutants.json"
MOST, SLACK = 20.0, 10.0  # seconds: of tests for one mutant, and more where it hangs
ENOUGH = 0.85  # of a sample, in which some cannot change any answer
# Where the tests of a folder are: the longest beginning counts. A file's doctests run in any case.
TESTS = {
    "audit": "tests/audit", "data": "tests/data", "measures": "tests/measures", "nets": "tests/nets",
    "robustness": "tests/robustness", "simulate": "tests/test_simulate.py", "simulate/sweep": "tests/sweep",
    "storage": "tests/storage", "training": "tests/training",
}  # fmt: skip
# Imported once, before the forks: most of what a test run would wait for.
HEAVY = "numpy scipy.optimize scipy.special scipy.stats daqp pytest hypothesis safetensors jaxtyping torch"
PYTEST = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain", "--doctest-modules", "-m", "not full",
          "-o", "addopts=--import-mode=importlib")  # fmt: skip
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
OPERATORS = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
             ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And}  # fmt: skip
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "any": "all", "floor": "ceil"}
EXTREMES |= {after: before for before, after in EXTREMES.items()}
NUMBERS = tuple(start + kind for kind in ("float", "Float[", "ndarray") for start in ("", "tuple["))


class Mutant(NamedTuple):
    """The `choice`-th change of the `place`-th node of a file, in the function that begins at `scope`."""

    file: str  # under src/featavg
    line: int
    scope: int  # 0 outside of functions
    place: int
    choice: int
    change: str


def mutants_in(file: str) -> list[Mutant]:
    """Every mutant of a file."""
    nodes = list(ast.walk(_parsed(file)))
    skipped = {id(inner) for node in nodes for outer in _skipped(node) for inner in ast.walk(outer)}
    found = []
    for place, node in enumerate(nodes):
        for choice, new in enumerate([] if id(node) in skipped else _changes(node)):
            change = " -> ".join(" ".join(ast.unparse(one).split())[:90] for one in (node, new))
            found.append(Mutant(file, getattr(node, "lineno", 0), getattr(node, "scope", 0), place, choice, change))
    return found


def _parsed(file: str) -> ast.Module:
    """The tree, in which every node knows where its function begins and what that returns."""
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
    for outer in ast.walk(tree):
        if isinstance(outer, ast.FunctionDef):
            begins = min(one.lineno for one in [outer, *outer.decorator_list])
            for node in ast.walk(outer):
                vars(node).update(scope=begins, gives=ast.unparse(outer.returns or ast.Constant(None)))
    return tree


def _skipped(node: Any) -> list[Any]:
    """Parts whose changes no answer shows: types, messages, decorators, how an object is printed."""
    match node:
        case ast.FunctionDef(name="__repr__" | "_repr_html_" | "figure" | "sentence"):
            return [node]
        case ast.FunctionDef(returns=types) | ast.ClassDef(name=types):
            return [*node.decorator_list, *([types] if isinstance(types, ast.AST) else [])]
        case ast.arg(annotation=ast.AST() as types) | ast.AnnAssign(annotation=types):
            return [types]
        case ast.Call(func=ast.Name(id="isinstance")):
            return node.args[1:]
        case ast.Assign(col_offset=0, value=ast.BinOp(op=ast.BitOr())) | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return [node]
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return [node]
    return []


def _changes(node: Any) -> list[Any]:
    """The nodes that may stand in the place of this one."""

    def like(**fields: Any) -> Any:
        new = copy.copy(node)
        vars(new).update(fields)
        return new

    match node:
        case ast.Compare():
            return [like(ops=[op(), *node.ops[1:]]) for op in COMPARISONS[type(node.ops[0])]]
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in OPERATORS:
            return [like(op=OPERATORS[type(node.op)]()), *[ast.Pass()] * isinstance(node, ast.AugAssign)]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Constant(value=bool(value)):
            return [like(value=not value)]
        case ast.Constant(value=int(value)):
            return [like(value=new) for new in sorted({value + 1, int(value == 0)})]
        case ast.Constant(value=float(value)):
            # A tolerance that is a little larger changes nothing; one of zero may.
            return [*[like(value=1.25 * value)] * (abs(value) > 1e-3), like(value=float(value == 0))]
        case ast.Slice():
            ends = [end for end in ("lower", "upper") if not isinstance(getattr(node, end), ast.Constant | None)]
            return [like(**{end: ast.BinOp(getattr(node, end), ast.Add(), ast.Constant(1))}) for end in ends]
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            changes = [like(keywords=[k for k in node.keywords if k is not out]) for out in node.keywords if out.arg]
            if name in EXTREMES:
                function = copy.copy(node.func)
                setattr(function, "attr" if isinstance(function, ast.Attribute) else "id", EXTREMES[name])
                changes += [like(func=function), *node.args * (len(node.args) == 2 and name[:3] in ("min", "max"))]
            return changes
        case ast.Return(value=ast.AST() as value) if node.gives.startswith(NUMBERS):
            first, rest = (value.elts[0], value.elts[1:]) if isinstance(value, ast.Tuple) else (value, None)
            scaled = [ast.BinOp(first, ast.Mult(), ast.Constant(by)) for by in (0.9, 1.1)]
            return [like(value=one if rest is None else ast.Tuple([one, *rest], ast.Load())) for one in scaled]
        case ast.If() | ast.IfExp():
            return [like(test=ast.Constant(value)) for value in (False, True)]
        case ast.Continue() | ast.Break() | ast.Expr(value=ast.Call()):
            return [ast.Pass()]
    return []


def changed(mutant: Mutant) -> ast.Module:
    """The tree with the change in it."""
    tree = _parsed(mutant.file)
    node = list(ast.walk(tree))[mutant.place]
    new = _changes(node)[mutant.choice]
    for parent in list(ast.walk(tree)):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, list):
                value[:] = [new if item is node else item for item in value]
            elif value is node:
                setattr(parent, name, new)
    return ast.fix_missing_locations(tree)


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the mutant's module, and compiles it from the changed tree."""

    def __init__(self, mutant: Mutant) -> None:
        self.path, self.tree = PACKAGE / mutant.file, changed(mutant)
        self.name = ".".join(["featavg", *Path(mutant.file).with_suffix("").parts]).removesuffix(".__init__")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_file_location(name, self.path, loader=self) if name == self.name else None

    def get_code(self, name: str) -> Any:
        return compile(self.tree, str(self.path), "exec", dont_inherit=True)

    def get_source(self, name: str) -> str:
        return self.path.read_text(encoding="utf-8")


def verdict(mutant: Mutant, kept: dict[str, Any], test_files: list[str]) -> dict[str, Any]:
    """What the tests of these files that call the changed function say; `kept` remembers."""
    seconds: dict[str, float] = {}
    for tests in test_files:
        if tests not in kept:
            kept[tests] = _forked(None, [tests], 1e4)
            if kept[tests]["verdict"] != "SURVIVED":
                raise SystemExit(f"{tests} fails without any mutant, so it can notice none: {kept[tests]['by']}")
        for test, (cost, called) in kept[tests]["called"].items():
            if mutant.file in called and (not mutant.scope or mutant.scope in called[mutant.file]):
                seconds[test] = cost
    order = sorted(seconds, key=lambda test: seconds[test])
    chosen = [test for i, test in enumerate(order) if not i or sum(map(seconds.get, order[: i + 1])) < MOST]  # type: ignore
    key = repr((mutant, chosen))
    if not chosen:
        return {"verdict": "SURVIVED", "by": "no test calls it", "files": {}}
    if key not in kept:
        kept[key] = _forked(mutant, chosen, SLACK + 3.0 * sum(seconds[test] for test in chosen))
    return dict(kept[key])


def _forked(mutant: Mutant | None, tests: list[str], seconds: float) -> dict[str, Any]:
    """Run tests in a child process that may use this much processor time; what happened there."""
    with tempfile.TemporaryDirectory(prefix="featavg-mutants-") as folder:
        out = Path(folder) / "report.json"
        child = os.fork()
        if not child:
            try:
                os.chdir(ROOT)
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
                signal.alarm(40 * int(seconds))
                for stream in (1, 2):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
                out.write_text(json.dumps(_tested(mutant, tests)), encoding="utf-8")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        hung = {"verdict": "hangs", "by": "", "files": {f"src/featavg/{mutant.file}": ""} if mutant else {}}
        return json.loads(out.read_text(encoding="utf-8")) if out.exists() else hung


def _tested(mutant: Mutant | None, tests: list[str]) -> dict[str, Any]:
    """The verdict of the tests, which failed, the files they read and, without a mutant, what each calls."""
    import pytest

    failed: list[str] = []
    called: dict[str, Any] = {}
    met: set[Any] = set()

    class Watcher:
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            items.sort(key=lambda item: tests.index(item.nodeid) if mutant else 0)

        def pytest_runtest_logreport(self, report: Any) -> None:
            failed.extend([report.nodeid] * report.failed)

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: Any) -> Any:
            met.clear()
            begun, by_file = time.process_time(), {}
            sys.settrace(None if mutant else lambda frame, *_: met.add(frame.f_code))
            result = yield
            sys.settrace(None)
            for code in met:
                if code.co_filename.startswith(f"{PACKAGE}/"):
                    by_file.setdefault(code.co_filename[len(f"{PACKAGE}/") :], []).append(code.co_firstlineno)
            called[item.nodeid] = time.process_time() - begun, by_file
            return result

    if mutant:
        sys.meta_path.insert(0, _Changed(mutant))
    code = int(pytest.main([*PYTEST, *["-x"] * bool(mutant), *tests], [Watcher()]))
    # 5: a file without tests. 2 to 4: nothing could be collected, as where the changed module fails to load.
    said = "SURVIVED" if code in (0, 5) else "killed" if mutant or code == 1 else "broken"
    loaded = [Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))]
    files = [str(f.relative_to(ROOT)) for f in loaded if f.is_relative_to(ROOT) and ".venv" not in f.parts]
    return {"verdict": said, "by": " ".join(failed), "files": {f: _hash(f) for f in files}, "called": called}


@functools.cache
def _hash(name: str) -> str:
    path = ROOT / name
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


def _read_cache() -> dict[str, Any]:
    try:
        kept = json.loads(CACHE.read_text(encoding="utf-8"))
        return {key: one for key, one in kept.items() if all(_hash(f) == h for f, h in one["files"].items())}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return {}


def _write_cache(kept: dict[str, Any]) -> None:
    CACHE.parent.mkdir(exist_ok=True)
    partial = CACHE.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(kept), encoding="utf-8")
    partial.replace(CACHE)


def _test_files(file: str) -> list[str]:
    starts = [start for start in TESTS if file.startswith(start)]
    tests = ROOT / TESTS[max(starts, key=len)] if starts else None
    found = [] if tests is None else sorted(tests.rglob("test_*.py")) or [tests]
    return [f"src/featavg/{file}", *(str(path.relative_to(ROOT)) for path in found)]


def prepare() -> None:
    """Find the package here, and import what the tests need before the forks."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
    for name in HEAVY.split():
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)


def main(words: list[str]) -> int:
    """Run a sample of mutants; 1 if too many survive."""
    parser = argparse.ArgumentParser(description="Report the mutants that no test notices.")
    parser.add_argument("paths", nargs="*", default=sorted(TESTS), help="files or folders of src/featavg")
    parser.add_argument("--sample", type=int, default=50, help="how many (0: all)")
    parser.add_argument("--seed", type=int, default=0, help="draws them")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    parser.add_argument("--verbose", action="store_true", help="name the killed ones, too")
    options = parser.parse_args(words)
    given = [PACKAGE / path for path in options.paths]
    files = {f for path in given for f in ([path] if path.is_file() else path.rglob("*.py"))}
    mutants = [mutant for file in sorted(files) for mutant in mutants_in(str(file.relative_to(PACKAGE)))]
    if options.sample:
        mutants = random.Random(options.seed).sample(mutants, min(options.sample, len(mutants)))
    if not mutants:
        parser.error(f"there is nothing to change in {' '.join(options.paths)}")
    prepare()
    kept = {} if options.fresh else _read_cache()
    survivors = 0
    for number, mutant in enumerate(mutants, 1):
        report = verdict(mutant, kept, _test_files(mutant.file))
        _write_cache(kept)
        survivors += report["verdict"] == "SURVIVED"
        if options.verbose or report["verdict"] == "SURVIVED":
            where = f"{mutant.file}:{mutant.line}: {mutant.change}"
            print(f"{number:4d} {report['verdict']:8} {where}  {report['by'][:160]}", flush=True)
    share = 1.0 - survivors / len(mutants)
    print(f"{len(mutants) - survivors} of {len(mutants)} killed ({share:.1%}).")
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
