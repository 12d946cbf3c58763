"""The report in a real browser."""

import csv
import hashlib
import re
from dataclasses import replace
from html import unescape

import pytest

from featavg.errors import InputError
from featavg.figures import html as page_module
from featavg.paper.report.page import _searchable

PHONE = {"height": 844, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
VIEWS = {
    "wide": {"width": 1280, "color_scheme": "light"},
    "tablet, dark": {"width": 768, "color_scheme": "dark"},
    "small phone": {"width": 320, "color_scheme": "light", **PHONE},
}
DRAWN = ".trace, .contourlayer path, .heatmaplayer image, .bars path"

# The one file that the page leads to: it lies beside it.
BESIDE = "playground.html"


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_every_figure_is_drawn_and_nobody_is_asked(opened, scrolled, outcomes, view):
    page = scrolled(opened(**view))
    assert [url for url in page.asked if not url.startswith(("data:", "blob:"))] == [page.url]
    assert page.said == []
    panels = sum(len(f.panels) for o in outcomes if o.evidence for f in o.evidence.figures)
    canvases = "[...document.querySelectorAll('.claim .canvas')]"
    assert page.evaluate(f"{canvases}.length") == panels
    assert page.evaluate(f'{canvases}.filter((c) => !c.querySelector("{DRAWN}")).length') == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= view["width"]
    dark = luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.2
    assert dark == (view["color_scheme"] == "dark")


def test_the_playground_is_a_click_away(opened):
    page = opened()
    page.click(".play a")
    page.wait_for_selector("html[data-ready]")
    assert page.said == []


def test_figures_wait_until_they_are_near(opened):
    page = opened()
    page.wait_for_timeout(300)
    drawn = page.evaluate("document.querySelectorAll('figure.plot[data-drawn]').length")
    every = page.evaluate("document.querySelectorAll('figure.plot').length")
    assert drawn < every


def luminance(colour):
    parts = [int(v) / 255 for v in re.findall(r"\d+", colour)[:3]]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


TEXTS = [".lead", ".statement", ".source", ".measured", "figcaption", ".repeat p", ".finding"]
TEXTS += [".result", ".claim .chip", ".legend", ".command code", "summary"]


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_text_has_contrast(page, scheme):
    page.emulate_media(color_scheme=scheme)
    colours = page.evaluate(
        """(selectors) => selectors.map(
          (s) => [...document.querySelectorAll(s)].map((e) => getComputedStyle(e).color))""",
        TEXTS,
    )
    paper = page.evaluate("getComputedStyle(document.querySelector('.claim')).backgroundColor")
    assert (luminance(paper) < 0.2) == (scheme == "dark")
    for selector, inks in zip(TEXTS, colours, strict=True):
        assert min(contrast(ink, paper) for ink in inks) >= 4.5, selector


def test_the_toggle_changes_the_theme_and_redraws(opened, scrolled):
    page = scrolled(opened(color_scheme="light"))
    ink = "getComputedStyle(document.querySelector('.claim .xtick text')).fill"
    before = page.evaluate(ink)
    page.click("[data-theme-toggle]")
    page.wait_for_function("() => document.documentElement.dataset.theme === 'dark'")
    scrolled(page)
    assert luminance(page.evaluate(ink)) > luminance(before)
    assert page.said == []


def test_filters_show_one_verdict(page, outcomes):
    for verdict in ("holds", "in-part", "fails", "not-run", "all"):
        page.click(f"[data-filter={verdict}]")
        claims = "document.querySelectorAll('details.claim:not([hidden])')"
        shown = page.evaluate(f"[...{claims}].map((a) => a.dataset.verdict)")
        assert shown, verdict
        assert len(shown) == (len(outcomes) if verdict == "all" else shown.count(verdict))


def test_the_legend_hides_a_series(page):
    figure = "#fig-lemma-5-balance--radii"
    page.locator(figure).scroll_into_view_if_needed()
    page.wait_for_selector(f"{figure}[data-drawn]")
    traces = f"document.querySelectorAll('{figure} .scatterlayer .trace').length"
    before = page.evaluate(traces)
    page.click(f"{figure} .legend button >> nth=0")
    page.wait_for_function(f"() => {traces} < {before}")
    page.click(f"{figure} .legend button >> nth=0")
    page.wait_for_function(f"() => {traces} === {before}")


def test_the_data_can_be_downloaded(page, outcomes):
    with page.expect_download() as waiting:
        page.click("#fig-lemma-5-balance--radii [data-csv]")
    download = waiting.value
    assert download.suggested_filename == "lemma-5-balance--radii.csv"
    figure = next(f for o in outcomes if o.evidence for f in o.evidence.figures if f.name == "radii")
    with open(download.path(), newline="") as file:
        assert file.read() == figure.csv()
    assert page.said == []


def test_the_command_can_be_copied(page):
    page.click("#lemma-5-balance [data-copy]")
    page.wait_for_function("async () => (await navigator.clipboard.readText()).includes('--only lemma-5-balance')")


def test_paper_gets_every_claim_and_the_matplotlib_twins(closed):
    page = closed
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details.claim:not([open])").count() == 0
    page.emulate_media(media="print")
    seen = "getComputedStyle(document.querySelector('.claim {}')).display"
    assert page.evaluate(seen.format(".twin")) == "block"
    assert page.evaluate(seen.format(".panels")) == "none"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details.claim[open]").count() == 0


def test_without_scripts_the_page_still_tells_all(opened):
    page = opened(java_script_enabled=False)
    assert page.locator("details.claim").count() == 7
    assert page.locator(".claim .twin").first.is_visible()
    assert not page.locator(".claim .panels").first.is_visible()


def test_every_claim_has_all_its_parts(report, outcomes):
    text = unescape(report.read_text())
    for outcome in outcomes:
        assert f'id="{outcome.id}"' in text
        assert outcome.command.removeprefix("featavg") in text
        assert outcome.title in text
        if outcome.evidence is None:
            assert outcome.reason.split("`")[0] in text
        else:
            assert outcome.evidence.finding in text
    assert "recorded on" in text
    assert "<program>" not in report.read_text()  # a reason cannot put tags into the page


def test_the_overview_comes_first_and_details_on_demand(opened, outcomes):
    page = opened(claims="closed")
    assert page.locator("details.claim[open]").count() == 0
    assert page.locator("details.claim:visible").count() == len(outcomes)
    whole = page.evaluate("document.documentElement.scrollHeight")
    page.click("[data-open-all]")
    assert page.evaluate("document.documentElement.scrollHeight") > 3 * whole
    page.click("[data-open-all]")
    assert page.locator("details.claim[open]").count() == 0


def test_a_link_opens_its_claim_and_a_claim_gives_its_link(opened):
    page = opened(address="#fig-lemma-5-balance--radii", claims="closed")
    page.wait_for_function("() => document.getElementById('lemma-5-balance').open")
    assert page.locator("details.claim[open]").count() == 1
    page.click("#figure-2-cosines > summary")
    assert page.url.endswith("#figure-2-cosines")
    # A link to a claim that the filter hides shows it.
    page.click("[data-filter=fails]")
    page.evaluate("location.hash = '#lemma-5-balance'")
    page.wait_for_function("() => !document.getElementById('lemma-5-balance').hidden")


FOUND = {
    "lemma-5": {"lemma-5-balance"},
    "real data": {"figure-3-mnist"},
    "holds in part": {"lemma-5-balance"},
    "stable activations": {"lemma-3-activation"},
    "nothing-has-this": set(),
}


@pytest.mark.parametrize(
    ("text", "typed"),
    [("a larger initialisation", "initialization"), ("exact radii", "distance"), ("by colour", "color")],
)
def test_the_search_knows_other_spellings_and_words(outcomes, text, typed):
    found = _searchable(replace(outcomes[0], title=text))
    assert typed in found
    assert typed not in _searchable(replace(outcomes[0], title="", statement="", source=""))


@pytest.mark.parametrize("words", FOUND)
def test_claims_are_searched_by_id_theme_verdict_and_words(closed, words):
    closed.fill(".search", words)
    shown = "[...document.querySelectorAll('.claim:not([hidden])')].map((c) => c.id)"
    assert set(closed.evaluate(shown)) == FOUND[words]
    assert closed.locator(".empty").is_visible() is not bool(FOUND[words])


def test_what_failed_is_said_where_it_is_listed(closed):
    told = closed.locator("#lemma-5-balance > summary").inner_text()
    assert "ratio at d = 3072 is 1.12 and should be ≤ 1.05." in told


def test_every_button_is_pressed_and_nobody_is_asked(opened, scrolled):
    page = opened(accept_downloads=True)
    windows = []
    page.context.on("page", lambda window: windows.append(window.url))
    page.context.on("request", lambda request: page.asked.append(request.url))
    scrolled(page)
    names = page.evaluate(
        """() => {
          const click = (b) => b.dispatchEvent(new MouseEvent("click", { bubbles: true }));
          const tools = [...document.querySelectorAll(".claim .js-plotly-plot .modebar-btn")];
          tools.forEach(click);
          const others = "button:not([data-open-all]):not([data-filter]):not([data-theme-toggle])";
          document.querySelectorAll(others).forEach(click);
          return tools.map((tool) => tool.dataset.title.split(" ")[0]);
        }"""
    )
    assert names.count("Download") > 5
    assert set(names) == {"Download", "Zoom", "Pan", "Reset"}
    links = page.evaluate("[...document.links].map((a) => a.getAttribute('href'))")
    assert all(link.startswith(("#", BESIDE)) for link in links)
    page.wait_for_timeout(500)
    assert windows == []
    assert [url for url in page.asked if not url.startswith(("data:", "blob:", "file:"))] == []
    assert page.said == []


def test_the_policy_stops_what_is_not_in_the_page(page, report):
    done = page.evaluate(
        """async () => {
          let ran = false;
          window.mark = () => { ran = true; };
          const script = document.createElement('script');
          script.textContent = 'mark()';
          document.body.append(script);
          const image = await new Promise((done) => {
            const i = new Image();
            i.onload = () => done('loaded');
            i.onerror = () => done('refused');
            i.src = 'https://example.org/a.png';
          });
          const fetched = await fetch('https://example.org/').then(() => 'fetched', () => 'refused');
          return [ran, image, fetched];
        }"""
    )
    assert done == [False, "refused", "refused"]
    assert not re.search(r"script-src[^;]*unsafe", report.read_text()[:3000])


def test_the_vendored_library_is_the_recorded_one():
    folder = page_module.HERE / "assets" / "plotly"
    about = page_module.VENDORED
    content = (folder / about["file"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == about["sha256"]
    head = content[:300].decode()
    assert f"v{about['version']}" in head
    assert about["copyright"] in head
    assert about["licence"] in (folder / "LICENSE").read_text()[:200]
    used = page_module.plotly()
    addresses = set(re.findall(r"https?://[a-z0-9.-]+", used))
    # Names of standards and of authors in comments; nobody lives there who could be asked.
    known = r"w3\.org|feross|github\.com|syntheti|getify|animations"
    assert {a for a in addresses if not re.search(known, a)} <= {"https://plotly.com"}


def test_another_library_is_refused(monkeypatch):
    monkeypatch.setitem(page_module.VENDORED, "sha256", "0" * 64)
    with pytest.raises(InputError, match="is not the file that was vendored"):
        page_module.plotly()


def test_the_table_can_be_taken_along(page, report, outcomes):
    for kind in ("md", "tex"):
        with page.expect_download() as waiting:
            page.click(f"[data-export={kind}]")
        with open(waiting.value.path()) as file:
            assert file.read() == (report.parent / f"verdicts.{kind}").read_text()
    text = (report.parent / "verdicts.md").read_text()
    assert text.count("\n| ") == len(outcomes) + len(re.findall(r"^### ", text, re.M)) * 1
    assert "| **fails** |" in text
    tex = (report.parent / "verdicts.tex").read_text()
    assert tex.count(r"\\") == len(outcomes) + 1 + len(re.findall("multicolumn", tex))
    assert not re.search(r"[μ≤√⁻]", tex)


def test_the_page_forbids_itself_to_ask(report):
    # What plotly has in its own code is seen to stay silent in the browser, above.
    text = re.sub(r"<script>.*?</script>", "", report.read_text(), flags=re.S)
    assert "default-src 'none'" in text
    assert not re.search(rf'(?:src|href)="(?!data:|#|{BESIDE}")', text)
    assert not re.search(r"@import|url\(", text.split("</style>")[0])


def test_every_colour_is_a_name_of_the_palette(figures_json):
    from featavg.figures.palette import DARK, LIGHT

    assert LIGHT.keys() == DARK.keys()
    names = set(re.findall(r'"@([a-z-]+)', str(figures_json).replace("'", '"')))
    assert names
    assert names <= LIGHT.keys()


def test_figures_beside_the_page(report, outcomes):
    for outcome in outcomes:
        for figure in outcome.evidence.figures if outcome.evidence else ():
            path = report.parent / "figures" / f"{outcome.id}--{figure.name}.csv"
            with path.open(newline="") as file:
                assert len(list(csv.reader(file))) == figure.csv().count("\n")


def test_the_page_says_panels_once(report, outcomes):
    alts = [f.alt for o in outcomes if o.evidence for f in o.evidence.figures]
    assert {alt.count("Panels:") for alt in alts} == {0, 1}
    assert "Panels: Two classes; Ten classes. Panels" not in report.read_text()
