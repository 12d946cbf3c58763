"""Every public name has an example, which pytest runs once: in the module in which it is written."""

import doctest

import featavg


def test_using_a_public_function_does_not_add_its_example_to_the_package():
    used = [getattr(featavg, name) for name in featavg.__all__]
    assert len(used) > 200
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test.name for test in finder.find(featavg) if test.examples]
    assert found == []
