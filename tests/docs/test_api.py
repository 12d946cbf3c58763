"""Every public name has an example, which pytest runs once: in the module in which it is written."""

import doctest

import pytest
from tools import api_pages

import featavg

MAKERS = api_pages.makers()


def test_using_a_public_function_does_not_add_its_example_to_the_package():
    used = [getattr(featavg, name) for name in featavg.__all__]
    assert len(used) > 200
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test.name for test in finder.find(featavg) if test.examples]
    assert found == []


@pytest.mark.parametrize("name", api_pages.names())
def test_a_public_name_has_an_example(name):
    """Its own, or that of a function that returns it; and where pytest looks for it."""
    ((source, found),) = api_pages.examples(name, MAKERS)
    assert any(not example.source.startswith("import ") for example in found)
    assert api_pages.written_in(source).startswith(("featavg.", "builtins"))


def test_a_long_example_is_known_by_its_mark():
    assert api_pages.left_out("linf_study")
    assert not api_pages.left_out("MultiCluster")


def test_an_example_that_comes_out_otherwise_is_noticed(monkeypatch):
    monkeypatch.setattr(api_pages, "docstring", lambda name: ">>> 1 + 1  # long\n3\n")
    with pytest.raises(ValueError, match="does not come out as printed"):
        api_pages.run_left_out("linf_study")
