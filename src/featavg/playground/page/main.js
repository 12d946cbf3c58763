// The page: controls, transport, story, exercises and exports around one experiment.

import { laboratory } from "../console.js";
import { median } from "../robustness/radii.js";
import { theoryRadii } from "../simulator/task.js";
import { tell } from "../views/svg.js";
import { asCommand, asPython } from "./commands.js";
import { Controls } from "./controls.js";
import { Experiment, SPEEDS } from "./experiment.js";
import { exits } from "./exits.js";
import { numbers } from "./exports.js";
import { typeset } from "./mathematics.js";
import { parseAddress, settled, simulated, toAddress } from "./setting.js";
import { EXERCISES, PRESETS, STORY } from "./story.js";
import { Views } from "./views.js";

const VERSION = document.documentElement.dataset.version;
const TOLD = [...STORY, ...PRESETS];
const FIRST_RUN = 100; // steps that a fresh page plays by itself
const byId = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");

class Page {
  constructor() {
    const { setting, notes } = parseAddress(location.hash);
    this.controls = new Controls(byId("controls"), (changes) => this.set(changes));
    this.views = new Views({
      onNeuron: (neuron) => this.look({ neuron }),
      onMove: (x, y) => this.look({ px: clamp(x), py: clamp(y) }),
      onCell: (labels, i, j) => this.tellCell(labels, i, j),
    });
    this.experiment = new Experiment(setting, () => this.wantDrawing(), (sentence) => this.say([`Something went wrong: ${sentence}. Reset, or report it.`]));
    this.views.onSeen = () => this.wantDrawing();
    // On a phone what happens comes before what can be changed.
    document.querySelector(".settings details").open = !matchMedia("(max-width: 760px)").matches;
    this.transport();
    this.planes();
    this.storyteller();
    this.exercises();
    exits(this, VERSION);
    this.theme();
    this.say(notes);
    this.begin(setting, location.hash.length > 1);
    addEventListener("hashchange", () => this.follow());
    addEventListener("popstate", () => this.follow());
    addEventListener("beforeprint", () => this.views.draw(this.experiment, true));
  }

  // A link shows the step it names; a fresh page plays, unless motion is unwelcome.
  begin(setting, linked) {
    if (setting.step !== null) this.experiment.runTo(setting.step);
    else if (calm.matches) this.experiment.runTo(FIRST_RUN);
    else if (!linked || setting.story === 0) this.experiment.play(FIRST_RUN);
    this.tellStory(setting.story);
    this.controls.show(setting);
    this.fillPlanes();
  }

  // Back, forward, or another link.
  follow() {
    clearTimeout(this.remembering); // what waits to be written belongs to another entry
    if ((location.hash || "#") === this.address) return;
    this.address = location.hash || "#";
    const { setting, notes } = parseAddress(location.hash);
    this.say(notes);
    this.experiment.reset(setting);
    this.begin(setting, true);
  }

  set(changes) {
    const { setting, notes } = this.experiment.with(changes);
    this.say(notes);
    const ran = this.experiment.step > 0 || this.experiment.playing;
    const goal = this.experiment.playing ? this.experiment.until : this.experiment.step;
    this.experiment.change(setting, false);
    // A new setting is trained as far as the old one was, so that the two can be compared.
    if (this.experiment.records.length === 0 && ran) {
      if (calm.matches) this.experiment.runTo(Math.max(goal, 1));
      else this.experiment.play(Math.max(goal, FIRST_RUN));
    }
    this.controls.show(setting);
    this.remember();
  }

  // What one looks at: no new run.
  look(changes) {
    const { setting } = settled({ ...this.experiment.setting, ...changes });
    this.experiment.change(setting);
    this.remember();
  }

  wantDrawing() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.wanted = false;
    const { experiment } = this;
    this.views.draw(experiment);
    this.status();
    if (experiment.record) document.documentElement.dataset.ready = experiment.id;
    document.documentElement.dataset.step = experiment.step;
    const busy = experiment.pending || experiment.playing || experiment.curvePending || experiment.pointPending;
    document.documentElement.dataset.busy = busy ? "yes" : "no";
    if (!experiment.playing) this.remember();
  }

  status() {
    const { experiment } = this;
    const { record, records } = experiment;
    byId("play").setAttribute("aria-pressed", experiment.playing);
    byId("play").querySelector(".word").textContent = experiment.playing ? "Pause" : "Play";
    const slider = byId("time");
    slider.max = Math.max(1, records.length - 1);
    if (document.activeElement !== slider || experiment.playing) slider.value = Math.max(0, experiment.shown);
    slider.setAttribute("aria-valuetext", `step ${record?.step ?? 0}`);
    byId("step-count").textContent = `step ${record?.step ?? 0}`;
    if (!record) return;
    const { averaged, decoupled } = theoryRadii(experiment.task);
    for (const [labels, theory] of [["coarse", averaged], ["fine", decoupled]]) {
      const one = record[labels];
      const radii = experiment.curve?.radii[labels];
      const earlier = radii && experiment.curve.step !== record.step;
      byId(`loss-${labels}`).textContent = one.diverged ? "diverged" : tell(Math.exp(one.logLoss));
      byId(`accuracy-${labels}`).textContent = `${Math.round(100 * one.accuracy)}%`;
      byId(`index-${labels}`).textContent = tell(Math.round(one.index * 100) / 100, 2);
      byId(`radius-${labels}`).textContent = radii ? bracket(median(radii.certified), median(radii.attack)) : "…";
      if (earlier) byId(`radius-${labels}`).dataset.earlier = ` (step ${experiment.curve.step})`;
      else delete byId(`radius-${labels}`).dataset.earlier;
      byId(`theory-${labels}`).textContent = tell(theory);
      document.querySelector(`#title-${labels} span`).textContent = learned(labels, experiment.setting);
    }
    byId("frame").textContent = experiment.compressed
      ? `${tell(experiment.setting.d, 4)} dimensions, exactly, in ${experiment.width} coordinates`
      : `all ${experiment.width} coordinates`;
    byId("diverged").hidden = !(record.coarse.diverged || record.fine.diverged);
  }

  transport() {
    const { experiment } = this;
    byId("play").addEventListener("click", () => (experiment.playing ? experiment.pause() : experiment.play()));
    byId("one").addEventListener("click", () => experiment.one());
    byId("reset").addEventListener("click", () => {
      experiment.reset(experiment.setting);
      this.remember();
    });
    byId("dice").addEventListener("click", () => this.set({ seed: (experiment.setting.seed + 1) % 4294967296 }));
    const speed = byId("speed");
    for (const [name, { name: words }] of Object.entries(SPEEDS)) speed.add(new Option(words, name));
    speed.value = experiment.speed;
    speed.addEventListener("change", () => (experiment.speed = speed.value));
    byId("time").addEventListener("input", () => {
      if (experiment.playing) experiment.pause();
      experiment.show(Number(byId("time").value));
    });
    addEventListener("keydown", (event) => {
      if (event.target.closest("input, select, button, textarea, summary, a, [role=slider]") || event.metaKey || event.ctrlKey) return;
      if (event.key === " ") byId("play").click();
      else if (event.key === "ArrowRight") byId("one").click();
      else return;
      event.preventDefault();
    });
  }

  planes() {
    for (const name of ["a", "b"]) byId(`plane-${name}`).addEventListener("change", (event) => this.look({ [name]: Number(event.target.value), px: 1, py: 0 }));
  }

  fillPlanes() {
    const { setting } = this.experiment;
    for (const name of ["a", "b"]) {
      const select = byId(`plane-${name}`);
      const key = `${setting.k},${setting.positive}`;
      if (select.dataset.key !== key) {
        select.dataset.key = key;
        select.replaceChildren();
        for (let j = 1; j <= setting.k; j++) select.add(new Option(`feature ${j} (${j <= setting.positive ? "+" : "−"})`, j));
        if (name === "b") select.add(new Option("the direction that fools all", 0));
      }
      select.value = setting[name];
    }
  }

  tellCell(labels, i, j) {
    const { record, task } = this.experiment;
    if (!record) return;
    byId(`cell-${labels}`).innerHTML = `cos(μ<sub>${i + 1}</sub>, w<sub>${j + 1}</sub>) = ${tell(record[labels].cosines[i * task.k + j], 2)}`;
  }

  storyteller() {
    const dots = byId("story-steps");
    STORY.forEach((step, i) => {
      const button = document.createElement("button");
      button.type = "button";
      button.innerHTML = `<b>${i + 1}</b> <span>${step.title}</span>`;
      button.addEventListener("click", () => this.goTo(i + 1));
      const item = document.createElement("li");
      item.append(button);
      dots.append(item);
    });
    PRESETS.forEach(({ title }, i) => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: title });
      button.addEventListener("click", () => this.goTo(STORY.length + i + 1));
      byId("presets").append(button);
    });
    byId("story-next").addEventListener("click", () => {
      const { story } = this.experiment.setting;
      this.goTo(story < STORY.length ? story + 1 : 1);
    });
    byId("story-back").addEventListener("click", () => this.goTo(Math.max(1, this.experiment.setting.story - 1)));
  }

  // A place of its own: Back returns to what was seen before.
  goTo(number) {
    this.remember(true);
    const { setting, notes } = settled({ ...TOLD[number - 1].preset, story: number });
    this.say(notes);
    this.experiment.reset(setting);
    this.address = toAddress(setting);
    history.pushState(null, "", this.address);
    this.begin(setting, true);
    byId("story-title").focus({ preventScroll: true });
  }

  tellStory(number) {
    const step = TOLD[number - 1];
    const inStory = step && number <= STORY.length;
    byId("story-text").hidden = !step;
    [...byId("story-steps").querySelectorAll("button"), ...byId("presets").children].forEach((button, i) => {
      if (i === number - 1) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    byId("story-next").querySelector(".word").textContent = inStory ? (number < STORY.length ? "Next" : "From the start") : "Start the story";
    byId("story-back").hidden = !inStory || number === 1;
    if (!step) return;
    byId("story-title").textContent = inStory ? `${number}. ${step.title}` : step.title;
    byId("story-words").innerHTML = typeset(step.text);
    byId("story-attempt").innerHTML = `<b>Try it.</b> ${typeset(step.attempt)}`;
  }

  exercises() {
    for (const { question, answer } of EXERCISES) {
      const item = document.createElement("li");
      item.innerHTML = `<p>${typeset(question)}</p><details><summary>Answer</summary><p>${typeset(answer)}</p></details>`;
      byId("exercise-list").append(item);
    }
  }

  theme() {
    const root = document.documentElement;
    const recolour = () => {
      this.views.recolour();
      this.wantDrawing();
    };
    byId("theme").addEventListener("click", () => {
      const dark = getComputedStyle(root).colorScheme === "dark";
      root.dataset.theme = dark ? "light" : "dark";
      try {
        localStorage.setItem("featavg-theme", root.dataset.theme);
      } catch {
        // a private window remembers nothing
      }
      recolour();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  }

  // The address follows what one sees; the step is part of it once training rests.
  remember(now = false) {
    this.fillPlanes();
    clearTimeout(this.remembering);
    const write = () => {
      const { experiment } = this;
      const address = toAddress({ ...experiment.setting, step: experiment.playing ? null : experiment.record?.step ?? null });
      if (address === this.address) return;
      this.address = address;
      history.replaceState(null, "", address);
    };
    if (now) write();
    else this.remembering = setTimeout(write, 250);
  }

  say(sentences) {
    const place = byId("notes");
    place.replaceChildren(...sentences.map((sentence) => Object.assign(document.createElement("p"), { textContent: sentence })));
    place.hidden = sentences.length === 0;
  }
}

// What a network is told and how it decides, in a few words.
function learned(labels, { pooling, share, wrong }) {
  if (labels === "coarse") return pooling === "mean" ? "coarse: averaged features" : "coarse: the neurons of a class compete";
  if (share === 1 && wrong === 0) return "fine: decoupled features";
  const told = `fine for ${tell(100 * share, 3)}% of the points`;
  return wrong > 0 ? `${told}, ${tell(100 * wrong, 3)}% of them wrong` : told;
}

function clamp(value) {
  return Math.min(1.75, Math.max(-0.75, Number(value.toFixed(4))));
}

function bracket(low, high) {
  return low >= 0.995 * high ? tell(high) : `${tell(low)} to ${tell(high)}`;
}

export const page = new Page();

// For the console: `playground.experiment`, and the simulator under `playground.laboratory`.
globalThis.playground = { page, experiment: page.experiment, laboratory, asCommand, asPython, parseAddress, toAddress, simulated, numbers };
