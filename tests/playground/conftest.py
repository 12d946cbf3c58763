"""A headless Chromium with plain flags, and the playground opened from a file address."""

import json

import pytest

import featavg as fa
from featavg.playground.page import script

PATIENCE = 600_000  # milliseconds: other work on the machine may take nearly all of it


@pytest.fixture(scope="session")
def browser(launch):
    """One browser for the session. Root needs --no-sandbox; no other flag helps the page."""
    running = launch("--no-sandbox")
    yield running
    running.close()


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
def opened(browser, written):
    """Opens the page at an address and notes every request and every word on the console."""
    contexts = []

    def open_page(address="", width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.goto(written.as_uri() + address)
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def rested():
    """Waits until nothing trains and no radius is being looked for; at a step, if one is given."""

    def rest(page, step=None):
        at = "" if step is None else f"[data-step='{step}']"
        page.wait_for_selector(f"html[data-ready][data-busy=no]{at}")
        return page

    return rest
