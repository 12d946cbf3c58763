"""Every public name has an example, which pytest runs once: in the module in which it is written."""

import ast
import builtins
import doctest
import inspect
import re

import pytest
from tools import api_pages, docstrings

import featavg

MAKERS = api_pages.makers()
EXAMPLES = {name: api_pages.examples(name, MAKERS) for name in api_pages.names()}
FUNCTIONS = [name for name in api_pages.names() if inspect.isroutine(api_pages.thing_of(name))]


def test_using_a_public_function_does_not_add_its_example_to_the_package():
    used = [getattr(featavg, name) for name in featavg.__all__]
    assert len(used) > 70
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test.name for test in finder.find(featavg) if test.examples]
    assert found == []


def unknown_names(source):
    """What a block of code uses and neither makes nor imports."""
    tree, known, used = ast.parse(source), set(dir(builtins)), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else known).add(node.id)
    return used - known


@pytest.mark.parametrize("name", api_pages.names())
def test_a_public_name_has_an_example(name):
    """Its own, or that of a function that returns it; and where pytest looks for it."""
    # Of a part such as `attacks.DDN`, and of the paper's, a sentence is enough.
    if name.startswith("paper.") or ("." in name and not EXAMPLES[name]):
        assert api_pages.docstring(name) or not inspect.isclass(api_pages.thing_of(name))
        return
    ((source, found),) = EXAMPLES[name]
    assert any(not example.source.startswith("import ") for example in found)
    assert api_pages.written_in(source).startswith(("featavg.", "builtins"))
    # pytest runs it among the names of its module, which a reader of `help` does not have.
    assert unknown_names("\n".join(example.source for example in found)) == set()
    said = api_pages.docstring(name)
    assert ">>> " in said or re.search(r"Returned by `fa\.\w+`", said)


@pytest.mark.parametrize("name", [one for one in FUNCTIONS if not one.startswith("paper.")])
def test_help_names_every_argument(name):
    said = api_pages.docstring(name).partition(">>> ")[0]
    for argument in inspect.signature(api_pages.thing_of(name)).parameters:
        assert argument == "progress" or re.search(rf"\b{argument}\b", said), argument


def test_a_docstring_becomes_markdown():
    said = """Cosine of w_j, `radii` and <x, y>.

    a = b * c

Args:
    one, two: long
        lines.

>>> 1 + 1  # long
2"""
    shown = docstrings.as_markdown(said, {"radii": "radii-function.md"}.get)
    assert shown.splitlines() == [
        "Cosine of w\\_j, [`radii`](radii-function.md) and &lt;x, y>.",
        "",
        *("```text", "a = b * c", "```", ""),
        *("**Arguments**", "", "- `one`, `two`: long lines.", ""),
        *("```pycon", ">>> 1 + 1", "2", "```"),
    ]
