"""The playground opened from a file address, and its simulator called from Python."""

import json

import pytest

import featavg as fa
from featavg.playground.page import script


@pytest.fixture(scope="session")
def laboratory(browser):
    """Calls a JavaScript function of one argument with `L`, the page's own simulator, in scope."""
    page = browser.new_page()
    page.add_script_tag(content=f"window.L = {script('console.js')}.laboratory;")

    def call(function, argument=None):
        # As JSON text: playwright's own encoding of long lists takes minutes.
        code = f"(text) => JSON.stringify(({function})(JSON.parse(text)))"
        return json.loads(page.evaluate(code, json.dumps(argument)))

    yield call
    page.close()


@pytest.fixture(scope="session")
def written(tmp_path_factory):
    """The path of the page."""
    return fa.playground(tmp_path_factory.mktemp("playground"))


@pytest.fixture
def opened(visit, written):
    """Opens the page at an address."""
    pages = []

    def open_page(address="", **options):
        pages.append(visit(written.as_uri() + address, **options))
        return pages[-1]

    yield open_page
    for page in pages:
        page.context.close()


@pytest.fixture
def rested():
    """Waits until nothing trains and no radius is being looked for; at a step, if one is given."""

    def rest(page, step=None):
        at = "" if step is None else f"[data-step='{step}']"
        page.wait_for_selector(f"html[data-ready][data-busy=no]{at}")
        return page

    return rest
