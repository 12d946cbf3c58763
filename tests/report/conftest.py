"""The page made of synthetic claims, opened in the browser."""

import json
from dataclasses import replace

import pytest
from tests.claims.synthetic import BROKEN, CLAIMS, _fails, claim, everything

from featavg.paper.engine.claim import Context, Evidence
from featavg.paper.engine.result import judge
from featavg.paper.report.page import write_report
from featavg.storage.provenance import provenance


def _everything(settings):
    failed = _fails(settings)
    return Evidence(*failed.checks, figures=(everything(),), finding=failed.finding)


@pytest.fixture(scope="session")
def outcomes():
    """Every verdict, every kind of panel, a broken program and a recorded result."""
    settings = Context(seeds=(0, 1))
    every = (*CLAIMS, BROKEN, claim("every-kind-of-panel", _everything))
    made = [judge(one, settings) for one in every]
    return [replace(o, recorded=True) if o.tier == "full" else o for o in made]


@pytest.fixture(scope="session")
def report(outcomes, tmp_path_factory):
    """The path of the page."""
    return write_report(outcomes, tmp_path_factory.mktemp("report"), provenance())


def open_page(visit, report, address="", claims="open", **options):
    """The page at an address, its claims open by default."""
    page = visit(report.as_uri() + address, **options)
    if claims == "open" and options.get("java_script_enabled", True):
        # By the button's own handler: on a busy machine the pointer of an emulated phone may miss
        # a page that has just been laid out anew, and then no figure is ever near.
        page.evaluate("document.querySelector('[data-open-all]').click()")
        assert page.evaluate("[...document.querySelectorAll('.claim')].every((c) => c.open)")
    return page


@pytest.fixture
def opened(visit, report):
    """Opens the page as asked, in a context of its own."""
    pages = []

    def fresh(**options):
        pages.append(open_page(visit, report, **options))
        return pages[-1]

    yield fresh
    for page in pages:
        page.context.close()


@pytest.fixture(scope="session")
def shared(visit, report):
    allowed = ["clipboard-read", "clipboard-write"]
    page = open_page(visit, report, permissions=allowed, color_scheme="light")
    yield page
    page.context.close()


@pytest.fixture
def page(shared):
    """The page of all tests that need no window of their own, back in its first state, claims open."""
    shared.said.clear()
    shared.evaluate(
        """() => {
          const search = document.querySelector(".search");
          search.value = "";
          search.dispatchEvent(new Event("input"));
          document.querySelector("[data-filter=all]").click();
          const opener = document.querySelector("[data-open-all]");
          opener.textContent = "Open all";
          opener.click();
          scrollTo(0, 0);
        }"""
    )
    return shared


@pytest.fixture
def closed(page):
    """The same with no claim open."""
    page.evaluate("document.querySelector('[data-open-all]').click()")
    return page


@pytest.fixture
def scrolled():
    """Goes to every figure in turn and stays until it is drawn.

    Figures are drawn when a frame finds them near, and forgotten again when the width of the page changes
    far from them; so what must be true is that each one is drawn while a reader looks at it, however slowly
    the machine paints.
    """

    def scroll(page):
        missing = page.evaluate(
            """async (patience) => {
              const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
              const missing = [];
              for (const figure of document.querySelectorAll("figure.plot")) {
                const start = performance.now();
                do {
                  figure.scrollIntoView({block: "center", behavior: "instant"});
                  await painted();
                } while (!figure.dataset.drawn && performance.now() - start < patience);
                if (!figure.dataset.drawn) missing.push(figure.dataset.figure);
              }
              return missing;
            }""",
            300_000,
        )
        assert missing == []
        return page

    return scroll


@pytest.fixture
def figures_json(report):
    """The plotly panels as the page has them, by figure."""
    import re

    text = report.read_text()
    found = re.findall(r'data-panels="([^"]+)">(.*?)</script>', text, re.S)
    return {key: json.loads(panels) for key, panels in found}
