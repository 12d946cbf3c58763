"""A folder's face: every name on it is there, and nobody outside knows the files behind it."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import featavg
from featavg.faces import homes

PACKAGE = Path(featavg.__file__).parent
PAGES = sorted(path for path in PACKAGE.rglob("__init__.pyi") if path.parent != PACKAGE)


def dotted(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FACES = {dotted(page): homes(str(page.with_suffix(".py"))) for page in PAGES}
MODULES = {dotted(path): path for path in PACKAGE.rglob("*.py")}


def imported_modules(path, seen_through=True):
    """The modules of featavg that a file imports; a name on a face counts as the file behind it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                behind = FACES.get(node.module, {}).get(alias.name) if seen_through else None
                inner = f"{node.module}.{alias.name}"
                yield behind or (inner if inner in MODULES else node.module)


def folder_with_face(module):
    """The innermost folder with a face that a file lies in."""
    return max((face for face in FACES if module.startswith(face + ".")), key=len, default=None)


@pytest.mark.parametrize("face", FACES)
def test_every_name_on_a_face_lives_in_its_folder(face):
    names = FACES[face]
    assert names
    assert dir(import_module(face)) == sorted(names)
    for name, home in names.items():
        assert home.rpartition(".")[0] == face
        assert getattr(import_module(face), name) is getattr(import_module(home), name)


@pytest.mark.parametrize("face", FACES)
def test_no_name_on_a_face_is_a_file_in_its_folder(face):
    # Importing the file would put the module in the place of the name.
    assert not [name for name in FACES[face] if f"{face}.{name}" in MODULES]


def test_what_is_replaced_where_it_lives_is_replaced_on_the_face(monkeypatch):
    from featavg.experiments.simulation import simulate

    monkeypatch.setattr("featavg.experiments.simulation.run.simulate", "replaced")
    assert import_module("featavg.experiments.simulation").simulate == "replaced" != simulate


def test_a_name_that_is_not_on_a_face_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"featavg\.training\.linear.*no attribute 'svm'"):
        import_module("featavg.training.linear").svm  # noqa: B018


def test_faces_load_nothing_before_they_are_asked():
    code = f"import sys, {', '.join(FACES)}; print([m for m in ('numpy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_outside_a_folder_only_its_face_is_known():
    """To use something of a folder elsewhere, add its line to the folder's `__init__.pyi`."""
    wrong = []
    for path in [*PACKAGE.rglob("*.py"), PACKAGE / "__init__.pyi"]:
        user = dotted(path)
        for target in imported_modules(path, seen_through=False):
            face = folder_with_face(target)
            if face and target not in FACES and not user.startswith(face + "."):
                wrong.append(f"{user} imports {target}: import it from {face}")
    assert wrong == []


def test_modules_do_not_import_each_other_in_a_circle():
    graph = {
        name: {*imported_modules(path)} & {*MODULES} - {name} for name, path in MODULES.items()
    }
    assert circles(graph) == []
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def circles(graph):
    """Sets of modules from each of which each other can be reached."""
    reached = {}
    for start in graph:
        known, todo = set(), [start]
        while todo:
            new = graph.get(todo.pop(), set()) - known
            known |= new
            todo += new
        reached[start] = known
    groups = {frozenset({n, *(o for o in reached[n] if n in reached[o])}) for n in graph}
    return sorted((set(group) for group in groups if len(group) > 1), key=sorted)
