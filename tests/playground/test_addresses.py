"""Every state that a link can name is survived, and what cannot be is said in a sentence."""

import random
import shlex
import string

import pytest
import typer

import featavg as fa
from featavg.__main__ import make_app
from featavg.cli import simulate as command

CHOICES = {
    "depth": ["2", "3"],
    "stepper": ["gd", "momentum", "adam", "sign"],
    "orientation": ["axes", "random"],
    "readout": ["max", "sum", "probability"],
    "pooling": ["mean", "max", "top:q=2"],
}
WHOLE = {
    "k": (1, 25),
    "n": (5, 2500),
    "positive": (0, 22),
    "m": (0, 10),
    "h": (0, 6),
    "seed": (0, 2**32),
    "step": (0, 3),
    "a": (0, 22),
    "b": (0, 22),
    "neuron": (0, 90),
    "story": (0, 14),
}
REAL = {"share": (-0.2, 1.2), "wrong": (-0.2, 1.2), "sigma": (0, 4), "cosine": (-1, 1), "px": (-3, 3), "py": (-3, 3)}
POWERS = {"d": (0, 13), "lr": (-15, 3), "sigma_w": (-16, 1)}


def valid(draw):
    """Any values of the right kind, in reach or not."""
    parts = {name: draw.choice(options) for name, options in CHOICES.items()}
    parts |= {name: draw.randint(*ends) for name, ends in WHOLE.items()}
    parts |= {name: round(draw.uniform(*ends), 3) for name, ends in REAL.items()}
    parts |= {name: f"{10 ** draw.uniform(*ends):.3g}" for name, ends in POWERS.items()}
    parts["d"] = round(10 ** draw.uniform(*POWERS["d"]))
    kept = draw.sample(list(parts), draw.randint(0, len(parts)))
    return "#" + "&".join(f"{name}={parts[name]}" for name in kept)


def damaged(draw):
    """A link that was cut, mistyped, escaped twice, or made up to do harm."""
    text = list(valid(draw) + "&k=7")
    evil = [
        "NaN", "Infinity", "-1e999", "1e-999", "0x10", "%", "%E0%A4%A", "<b>", "'\"", "__proto__=1",
        "constructor=2", "&&", "==", "k=", "=3", "d=1.5", "k=ten", "\u0000", "é", "💥", "n=9" * 300,
    ]  # fmt: skip
    for _ in range(draw.randint(1, 6)):
        where = draw.randrange(1, len(text) + 1)
        text[where : where + draw.randint(0, 3)] = draw.choice([*evil, draw.choice(string.printable)])
    return "".join(text)


# How many links of each kind. Every fourth is also trained, which takes most of the time.
@pytest.fixture(scope="module", params=[50, pytest.param(400, marks=pytest.mark.full)])
def addresses(request):
    draw = random.Random(request.param)
    kinds = (valid, damaged)
    return [kind(draw) for kind in kinds for _ in range(request.param)]


SURVIVE = """(addresses) => addresses.map((address, number) => {
  const { parseAddress, toAddress, laboratory: L } = playground;
  const { setting, notes } = parseAddress(address);
  const again = parseAddress(toAddress(setting));
  const read = {
    address, notes, setting, same: JSON.stringify(again.setting) === JSON.stringify(setting),
    quiet: again.notes.length === 0, finite: true, ordered: true,
  };
  if (number % 4) return read;
  // Every fourth is also run, on few points and, where all coordinates are drawn, in few dimensions.
  const run = { ...playground.simulated(setting), n: Math.min(setting.n, 8), n_test: 1 };
  if (run.d > 300 && (run.stepper === "adam" || run.stepper === "sign")) run.d = 300;
  const lab = L.prepare(run);
  const finite = Object.values(lab.runs).every((one) => {
    one.step();
    one.step();
    const found = L.measure(one);
    const numbers = [...found.cosines, ...found.coefficients, ...found.shares];
    return found.diverged || numbers.every(Number.isFinite);
  });
  const x = lab.test.x.subarray(0, lab.test.width);
  const radii = Object.values(lab.runs).map((one) => one.diverged ? [0, 0] : (() => {
    const solver = new L.RadiusSolver(one.net, lab.task.labels, setting.readout, { budget: 2 });
    const found = solver.at(x, lab.test.y[0]);
    return [found.certified, found.attack];
  })());
  const ordered = radii.every(([certified, attack]) => 0 <= certified && certified <= attack);
  return { ...read, finite, ordered };
})"""


@pytest.fixture(scope="module")
def small(visit, written):
    """One page for the tests that hand it many addresses."""
    page = visit(written.as_uri() + "#n=20&d=100&step=0")
    page.wait_for_selector("html[data-ready][data-busy=no][data-step='0']")
    yield page
    page.context.close()


def test_every_address_is_read_as_a_setting_that_runs(small, addresses):
    found = small.evaluate(SURVIVE, addresses)
    for one in found:
        assert one["finite"], one
        assert one["ordered"], one
        assert one["same"], one
        assert one["quiet"], one
        for note in one["notes"]:
            assert note.endswith("."), note
            assert len(note) < 200, note
            assert "undefined" not in note, note
            assert "NaN" not in note or "NaN" in one["address"], note
    bad = found[len(found) // 2 :]
    assert sum(bool(one["notes"]) for one in bad) > 0.8 * len(bad)
    assert small.said == []


def test_the_page_lives_through_all_of_them(small, rested, addresses):
    small.evaluate(
        """async (addresses) => {
          for (const [number, address] of addresses.entries()) {
            location.hash = address;
            await new Promise((done) => setTimeout(done, 0));
            if (number % 20 === 0) await new Promise(requestAnimationFrame);
          }
        }""",
        addresses,
    )
    small.evaluate("location.hash = '#k=4&n=30&d=200&step=3'")
    rested(small, step=3)
    assert small.evaluate("playground.experiment.setting.k") == 4
    assert small.said == []


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("#k=ten", "In the link, the number of clusters is “ten”; the usual value is used instead."),
        ("#speed=3", "The link names “speed”, which this page does not know; it was left out."),
        ("#stepper=adam&d=100000", "Adam looks at single coordinates"),
        ("#k=4&positive=9", "both classes need a cluster"),
    ],
)
def test_what_cannot_be_is_said(opened, address, sentence):
    page = opened(address + "&n=20&step=0")
    page.wait_for_selector("#notes:not([hidden])")
    assert sentence in page.text_content("#notes")
    assert page.said == []


def test_a_link_reproduces_what_one_sees(opened, rested):
    page = rested(opened("#k=4&d=300&n=40&step=12&stepper=momentum&a=2&b=3&px=0.5&readout=sum"), step=12)
    page.click("#copy-link")
    address = page.evaluate("location.hash")
    numbers = "JSON.stringify(playground.numbers(playground.experiment, ''))"
    before = page.evaluate(numbers)
    other = rested(opened(address), step=12)
    after = other.evaluate(numbers)
    # Everything but the steps that were recorded on the way.
    assert before.split('"history"')[0] == after.split('"history"')[0]


def test_commands_and_python_are_understood_by_the_package(small, addresses):
    pairs = small.evaluate(
        """(addresses) => addresses.map((address) => {
          const { setting } = playground.parseAddress(address);
          return [playground.asCommand(setting, 50), playground.asPython(setting, 50), setting];
        })""",
        addresses[:60],
    )
    simulate = typer.main.get_command(make_app()).commands["simulate"]
    for text, python, setting in pairs:
        line = text.splitlines()[-1]
        context = simulate.make_context("simulate", shlex.split(line)[2:])
        flags = dict(context.params)
        parsed = command._setting(*(flags.pop(n) for n in ("preset", "config", "seed", "seeds")), flags)
        same = ("k", "d", "n", "readout", "pooling", "stepper", "sigma", "cosine", "m", "h")
        assert {n: getattr(parsed, n) for n in same} == pytest.approx({n: setting[n] for n in same})
        assert (parsed.label_share, parsed.label_wrong) == (setting["share"], setting["wrong"])
        assert (parsed.steps, parsed.depth) == (50, int(setting["depth"]))
        assert parsed.lr == pytest.approx(setting["lr"], rel=1e-5)
        assert parsed.task().positive_count == setting["positive"]
        call = next(row for row in python.splitlines() if "compose" in row)
        same = eval(call.split("fa.simulate(", 1)[1][:-1], {"fa": fa})
        assert isinstance(same, fa.Setting)
        assert same == parsed
