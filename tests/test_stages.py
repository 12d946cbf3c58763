"""The plan of the house: a stage imports only from stages to its left, and nothing the paper."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import featavg

PACKAGE = Path(featavg.__file__).parent
ORDER = (
    "figures",
    "data",
    "nets",
    "training",
    "measures",
    "robustness",
    "simulate",
    "audit",
    "playground",
    "cli",
    "paper",
)
# Every stage may use these; they use no stage.
SHARED = ("boundary", "storage")
LARGEST_FOLDER = 20


def imported(source):
    """The featavg modules that a file imports, at any depth of its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def stage_of(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "featavg" and len(parts) > 1 and parts[1] in ORDER else None


def rightward(source, stage):
    """The imports of a file in `stage` that go right."""
    place = ORDER.index(stage)
    stages = ((target, stage_of(target)) for target in imported(source))
    return [target for target, other in stages if other and ORDER.index(other) > place]


def files(folder):
    return sorted(path.relative_to(PACKAGE) for path in (PACKAGE / folder).rglob("*.py"))


@pytest.mark.parametrize("stage", ORDER)
def test_a_stage_imports_only_from_its_left(stage):
    wrong = {str(path): rightward((PACKAGE / path).read_text(), stage) for path in files(stage)}
    assert {path: targets for path, targets in wrong.items() if targets} == {}


@pytest.mark.parametrize("folder", SHARED)
def test_shared_ground_uses_no_stage(folder):
    used = {str(path): list(imported((PACKAGE / path).read_text())) for path in files(folder)}
    assert not [target for targets in used.values() for target in targets if stage_of(target)]


def test_no_file_imports_itself_by_way_of_others():
    modules = {"featavg." + ".".join(path.with_suffix("").parts): PACKAGE / path for path in files(".")}
    graph = {
        name: {t if t in modules else t.rpartition(".")[0] for t in imported(path.read_text())} & set(modules)
        for name, path in modules.items()
        if path.name != "__init__.py"
    }
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, with the cycle


def test_a_rightward_import_would_be_noticed():
    inside = "def late():\n    from featavg.paper.report.page import write_report\n"
    assert rightward(inside, "audit") == ["featavg.paper.report.page.write_report"]
    assert rightward("import featavg.paper.engine.claim", "figures") == ["featavg.paper.engine.claim"]
    assert not rightward("from featavg.data.clusters import MultiCluster", "nets")


def test_every_folder_is_on_the_plan_and_none_is_a_warehouse():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    tops = {folder.relative_to(PACKAGE).parts[0] for folder in folders if folder != PACKAGE}
    assert tops - {*ORDER, *SHARED} == set()
    sizes = {str(folder.relative_to(PACKAGE)): len(list(folder.glob("*.py"))) for folder in folders}
    assert {name: size for name, size in sizes.items() if size > LARGEST_FOLDER + 1} == {}
