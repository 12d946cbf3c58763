"""A headless Chromium with plain flags, and the playground opened from a file address."""

import json
import shutil
from pathlib import Path

import pytest

from featavg.playground.bundle import script

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="session")
def browser():
    """One browser for the session. Root needs --no-sandbox; no other flag helps the page."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    if path is None:
        pytest.skip("no Chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
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
