"""The page itself, in a real browser, from a file address."""

import json
import re
from statistics import median

import pytest

from featavg.__main__ import main
from featavg.playground import page as bundle

SMALL = "#n=60&d=400"  # a run that takes no time
LIMIT = 600_000  # bytes


def quiet(page):
    """No request but the file itself and its own workers, not a word on the console."""
    strangers = [url for url in page.asked if not url.startswith(("file:", "blob:", "data:"))]
    assert strangers == []
    assert page.said == []


def test_the_file_is_one_and_small(written):
    text = written.read_text()
    assert len(text.encode()) <= LIMIT
    assert not re.search(r'<(script|link|img|iframe)[^>]+(src|href)="(?!data:)', text)
    assert "import " not in re.sub(r"//.*|/\*.*?\*/", "", bundle.script("page/main.js")).split("`")[0]


def test_the_command_writes_it(tmp_path, capsys):
    out = tmp_path / "deep" / "page.html"
    assert main(["playground", "--no-open", "--out", str(out)]) == 0
    assert out.read_text().startswith("<!doctype html>")
    assert str(out) in capsys.readouterr().out


def test_it_is_kept_with_the_other_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["playground", "--no-open"]) == 0
    assert (tmp_path / "featavg-results" / "playground.html").exists()


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["playground", "--no-open", "--out", str(tmp_path / "file" / "page.html")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_it_opens_trains_and_asks_nobody(opened, rested):
    page = opened()
    page.wait_for_selector("html[data-ready]")
    # While it still plays: which plane is shown, and why the choice is there.
    assert page.input_value("#plane-a") == "1"
    assert page.input_value("#plane-b") == "6"
    rested(page, step=100)
    # Figure 2 and the radii of the paper's setting, as the package has them.
    assert float(page.text_content("#index-coarse")) > 0.95
    assert float(page.text_content("#index-fine")) < 0.05
    assert float(page.text_content("#radius-coarse")) == pytest.approx(17.5, rel=0.05)
    assert float(page.text_content("#radius-fine")) == pytest.approx(39.2, rel=0.06)
    quiet(page)


CHANGES = {
    "k": ("6", "6"),
    "d": ("4", "10⁴|10000"),
    "n": ("2", "100"),
    "sigma": ("2", "2"),
    "cosine": ("0.5", "60°"),
    "positive": ("2", "2 of 6"),
    "share": ("0.05", "5% of the points"),
    "wrong": ("0.5", "50%"),
    "m": ("2", "2"),
    "h": ("2", "2"),
    "sigma_w": ("-3", "0.001"),
    "lr": ("-2", "0.01"),
}


def test_every_control_works(opened, rested):
    page = rested(opened(SMALL + "&step=2"), step=2)
    page.select_option("#speed", "fast")
    for name, (position, words) in CHANGES.items():
        before = page.evaluate("playground.experiment.id")
        page.locator(f"#set-{name}").fill(position)
        page.wait_for_selector(f"html[data-ready='{before + 1}']")
        told = page.locator(f"#set-{name} + output, output[for=set-{name}]").first.text_content()
        assert re.search(words, told), (name, told)
    for name in ("pooling", "depth", "stepper", "orientation", "readout"):
        for value in page.evaluate(f"[...document.getElementById('set-{name}').options].map((o) => o.value)"):
            page.select_option(f"#set-{name}", value, force=True)
            page.wait_for_timeout(30)
    page.fill("#set-seed", "7")
    page.press("#set-seed", "Enter")
    page.click("#dice")
    assert page.evaluate("playground.experiment.setting.seed") == 8
    quiet(page)


def test_play_pause_step_time_and_reset(opened, rested):
    page = rested(opened(SMALL + "&step=5"), step=5)
    page.click("#one")
    rested(page, step=6)
    page.click("#play")
    page.wait_for_selector("#play[aria-pressed=true]")
    page.wait_for_selector("html:not([data-step='6']):not([data-step='7'])", state="attached")
    page.click("#play")
    page.wait_for_selector("#play[aria-pressed=false]")
    rested(page)
    page.locator("#time").fill("1")
    assert page.evaluate("playground.experiment.record.step < playground.experiment.step")
    page.click("#reset")
    rested(page, step=0)
    page.focus("#laboratory")
    page.keyboard.press("ArrowRight")
    rested(page, step=1)
    quiet(page)


def test_the_point_is_dragged_and_keyed(opened, rested):
    # Without smooth scrolling, which would move the handle away from where it was measured.
    page = rested(opened(SMALL + "&step=40", reduced_motion="reduce"), step=40)
    # A plane is drawn when it is seen: until then its handle is nowhere.
    page.locator("[data-view=plane-coarse]").scroll_into_view_if_needed()
    handle = page.locator("[data-view=plane-coarse] .handle[cx]")
    handle.hover()  # waits until nothing moves
    box = handle.bounding_box()
    page.mouse.down()
    page.mouse.move(box["x"] - 60, box["y"] - 40, steps=4)
    page.mouse.up()
    moved = page.evaluate("[playground.experiment.setting.px, playground.experiment.setting.py]")
    assert moved[0] < 0.95
    assert moved[1] > 0.05
    handle.focus()
    page.keyboard.press("ArrowUp")
    assert page.evaluate("playground.experiment.setting.py") == pytest.approx(moved[1] + 0.02, abs=1e-3)
    rested(page)
    assert "radius" in page.text_content("[data-view=plane-fine] svg")
    # In plane and ball: the nearest flipped point is as far as the radius says.
    found = page.evaluate(
        """() => { const { answer, task } = playground.experiment;
          return ["coarse", "fine"].map((l) => [answer.found[l].certified, answer.found[l].attack]); }"""
    )
    for certified, attack in found:
        assert 0 < certified <= attack < 100
    quiet(page)


@pytest.mark.parametrize(("readout", "words"), [("max", "exact radii"), ("probability", "% apart")])
def test_the_curve_says_whether_it_is_exact(opened, rested, readout, words):
    page = rested(opened(SMALL + f"&step=30&readout={readout}"), step=30)
    figure = page.locator("figure[data-view=curve]")
    figure.scroll_into_view_if_needed()
    page.wait_for_function(
        f"() => document.querySelector('[data-view=curve] figcaption').textContent.includes('{words}')"
    )
    quiet(page)


def test_a_neuron_is_looked_at(opened, rested):
    page = rested(opened(SMALL + "&step=20"), step=20)
    chip = page.locator("#neurons-fine button").nth(3)
    chip.hover()
    assert chip.get_attribute("aria-pressed") == "true"
    label = page.get_attribute("[data-view=neuron-fine] svg", "aria-label")
    assert label.startswith("Neuron 4 in the basis of the features")
    values = [float(v.replace("−", "-")) for v in re.findall(r"(?<=[ :])[−\d.]+(?=[,.])", label)]
    assert max(range(10), key=values.__getitem__) == 3  # fine labels: neuron 4 has learned feature 4
    quiet(page)


def test_the_story_is_told(opened, rested):
    page = opened(SMALL)
    for number in range(1, 9):
        page.click("#story-next")
        page.wait_for_selector(f"#story-steps li:nth-child({number}) button[aria-current=step]")
        assert page.text_content("#story-title").startswith(f"{number}. ")
        assert "$" not in page.text_content("#story-text")
    # What the sixth step says of 10^12 dimensions is what one sees.
    page.click("#story-steps li:nth-child(6) button")
    rested(page, step=100)
    numbers = page.evaluate("playground.numbers(playground.experiment, '')")
    assert numbers["coarse"]["averaging_index"] > 0.9
    assert numbers["fine"]["averaging_index"] < 0.05
    theory = {"coarse": (10**12 / 16) ** 0.5, "fine": (10**12 / 2) ** 0.5}
    for labels, expected in theory.items():
        assert median(numbers["radii"][labels]["certified"]) == pytest.approx(expected, rel=0.1)
    page.click("#story-steps li:nth-child(7) button")
    assert page.input_value("#set-readout") == "sum"
    page.locator("#exercise-list summary").first.click()
    assert page.locator("#exercise-list details[open]").count() == 1
    quiet(page)


PRESETS = {9: {"share": 0.05}, 10: {"wrong": 0.5}, 11: {"pooling": "max", "m": 20}, 12: {"m": 2}}


def test_back_goes_back_through_what_was_seen(opened, rested):
    page = rested(opened(SMALL + "&step=2"), step=2)
    before = page.evaluate("history.length")
    page.locator("#set-n").fill("1.5")
    page.wait_for_function("() => playground.experiment.setting.n === 32")
    assert page.evaluate("history.length") == before  # a slider is no new place
    for number, given in enumerate(PRESETS.values()):
        page.locator("#presets button").nth(number).click()
        page.wait_for_selector(f"#presets button:nth-child({number + 1})[aria-current=step]")
        assert given.items() <= page.evaluate("playground.experiment.setting").items()
    assert page.evaluate("history.length") == before + len(PRESETS)
    for story in (11, 10, 9, 0):
        page.go_back()
        page.wait_for_function(f"() => playground.experiment.setting.story === {story}")
    assert page.evaluate("playground.experiment.setting.n") == 32
    assert page.is_hidden("#story-text")
    page.go_forward()
    page.wait_for_function("() => playground.experiment.setting.share === 0.05")
    assert page.text_content("#story-title") == "5% is enough"
    quiet(page)


def test_a_radius_of_an_earlier_step_is_marked(opened, rested):
    page = rested(opened(SMALL + "&step=12"), step=12)
    assert page.get_attribute("#radius-coarse", "data-earlier") is None
    page.locator("#time").fill("0")
    page.wait_for_selector("#radius-coarse[data-earlier=' (step 12)']")
    figure = page.locator("figure[data-view=curve] figcaption")
    figure.scroll_into_view_if_needed()
    page.wait_for_function(
        "() => document.querySelector('[data-view=curve] figcaption').textContent.includes('step 12')"
    )
    page.locator("#time").fill("99")
    page.wait_for_selector("#radius-coarse:not([data-earlier])")
    quiet(page)


def test_numbers_and_pictures_are_saved(opened, rested, tmp_path):
    page = rested(opened(SMALL + "&step=10"), step=10)
    with page.expect_download() as saved:
        page.click("#save-json")
    numbers = json.loads(saved.value.path().read_text())
    assert numbers["step"] == 10
    assert len(numbers["coarse"]["cosines"]) == 100
    assert len(numbers["radii"]["fine"]["certified"]) == 100
    for view in page.evaluate("[...document.querySelectorAll('figure[data-view]')].map((f) => f.dataset.view)"):
        # Chromium drops what is saved more often than ten times a second.
        page.wait_for_timeout(150)
        with page.expect_download() as saved:
            page.click(f"[data-view={view}] [data-save=svg]")
        text = saved.value.path().read_text()
        assert text.startswith("<svg")
        assert "var(" not in text
        assert text.count("<") > 10
    page.click("#copy-command")
    page.wait_for_selector("#shown:not([hidden])")
    command = "featavg simulate --d 400 --n 60 --readout max --steps 10"
    assert page.text_content("#shown-text") == command
    page.click("#copy-python")
    page.wait_for_selector("#shown-text:has-text('import featavg')")
    with page.expect_download() as saved:
        page.click("[data-view=curve] [data-save=png]")
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")
    quiet(page)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (390, "dark"), (768, "light"), (1280, "dark")])
def test_nothing_overlaps_or_runs_off_the_screen(opened, rested, width, scheme):
    page = rested(opened(SMALL + "&step=5&story=4", width=width, color_scheme=scheme), step=5)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    overlaps = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll(
            "figure[data-view], .control, #story-text, .turn, .exits, .exercises, .numbers")]
            .filter((node) => node.offsetParent !== null)
            .map((node) => [node, node.getBoundingClientRect()]);
          const found = [];
          boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
            if (a.contains(b) || b.contains(a)) return;
            const wide = Math.min(p.right, q.right) - Math.max(p.left, q.left);
            const high = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (wide > 1 && high > 1 && !a.closest(".settings") && !b.closest(".settings"))
              found.push([a.outerHTML.slice(0, 60), b.outerHTML.slice(0, 60)]);
          }));
          return found;
        }"""
    )
    assert overlaps == []
    quiet(page)


def test_on_a_phone_the_networks_come_before_the_settings(opened):
    for width, unfolded in ((390, 0), (1440, 1)):
        page = opened(SMALL, width=width)
        assert page.locator(".settings details[open]").count() == unfolded


def test_motion_is_left_out_where_it_is_unwelcome(opened, rested):
    page = opened(SMALL, reduced_motion="reduce")
    played = [page.evaluate("playground.experiment.playing")]
    rested(page, step=100)
    played.append(page.evaluate("playground.experiment.playing"))
    assert not any(played)
    quiet(page)


def test_everything_has_a_name(opened, rested):
    page = rested(opened(SMALL + "&step=2"), step=2)
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, select, input, svg[role=img], [tabindex='0']")]
          .filter((node) => node.offsetParent !== null || node.closest("svg"))
          .filter((node) => !(node.getAttribute("aria-label") || node.textContent.trim() || node.title ||
            node.labels?.length))
          .map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert nameless == []
    names = page.evaluate(
        "[...document.querySelectorAll('[data-save]')].map((node) => node.getAttribute('aria-label'))"
    )
    assert len(set(names)) == len(names) == 22
