"""What every test shares: one thread a worker, no window system, repeatable hypothesis runs."""

import os
import shutil

import hypothesis
import pytest
import threadpoolctl

# Before anything imports numpy or torch, and inherited by the xdist workers and by subprocesses.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

# A pytest plugin may have imported numpy before this file: limit the pools that exist already.
threadpoolctl.threadpool_limits(1)

# Time on a shared machine says nothing about the code, so no deadline. In CI the examples are
# fixed, so that a red run is about the change; new examples are looked for locally.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


# What the first line of an example says, and what becomes of it.
LEFT_OUT = {"# long": pytest.mark.full, "# needs ": pytest.mark.skip(reason="its first line says what it needs")}


@pytest.hookimpl(tryfirst=True)  # before `-m "not full"` is applied
def pytest_collection_modifyitems(items):
    for item in items:
        examples = getattr(getattr(item, "dtest", None), "examples", ())
        for said, mark in LEFT_OUT.items():
            if any(said in example.source for example in examples):
                item.add_marker(mark)


# Without these the browser tries to reach its maker's hosts; as root it needs --no-sandbox.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 600_000  # milliseconds: other work on the machine may take nearly all of it


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for the pages of every test.

    Here and not beside its users: Playwright's loop may run only once in a process.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=PATIENCE)
        yield running
        running.close()


@pytest.fixture(scope="session")
def visit(browser):
    """Opens an address in a context of its own; every request and every word on the console are noted."""

    def go(address, width=1280, height=900, **options):
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: page.said.append(f"error: {error}"))
        page.goto(address)
        return page

    return go
