"""The API is one page, and every name on it is there."""

import subprocess
import sys

import pytest

import featavg


@pytest.mark.parametrize("name", featavg.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    try:
        thing = getattr(featavg, name)
    except featavg.InputError as error:  # on the Pythons of `make test-all`, which have no PyTorch
        if error.problem != "needs PyTorch, which is not installed":
            raise
        pytest.skip("needs torch")
    if callable(thing):
        assert thing.__doc__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'averages'"):
        featavg.averages  # noqa: B018


def test_importing_featavg_imports_nothing_heavy() -> None:
    code = "import sys, featavg; print([m for m in ('numpy', 'scipy', 'torch') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
