// The experiment behind the views: which setting runs, what has been recorded, what is being
// played, and which radii are known. It owns the workers and tells its listener when to draw.

import { keepsRotations } from "../simulator/steppers.js";
import { makeTask } from "../simulator/task.js";
import { planeBasis } from "../views/plane.js";
import { sameRun, settled, simulated } from "./setting.js";
import { Workers } from "./workers.js";

export const SPEEDS = {
  slow: { pause: 250, budget: 0, name: "4 steps a second" },
  normal: { pause: 33, budget: 0, name: "30 steps a second" },
  fast: { pause: 0, budget: 60, name: "as fast as possible" },
};
const MOST_RECORDS = 400;
const LAST_STEP = 5000;
// Learning rate and size of the first weights, times the dimension, in the paper. Both must fall
// with d: what is learned has length 1/sqrt(d), and sqrt(d) is the length of a unit of noise.
const PACE = 3.072;
const START = 0.03072;
const CURVE_EVERY = 300; // milliseconds between curves while it trains

export class Experiment {
  constructor(setting, onChange, onTrouble) {
    this.onChange = onChange;
    this.speed = "normal";
    this.workers = new Workers({
      onTraining: (answer) => this.trained(answer),
      onRadii: (answer) => this.measured(answer),
      onTrouble: (sentence) => {
        this.pending = this.curvePending = this.pointPending = false;
        onTrouble(sentence);
      },
    });
    this.reset(setting);
  }

  reset(setting) {
    this.setting = setting;
    this.task = makeTask(simulated(setting));
    this.id = (this.id ?? 0) + 1;
    this.records = [];
    this.shown = -1;
    this.curve = null;
    this.answer = null;
    this.nets = null;
    this.curvePending = this.pointPending = this.pointWanted = false;
    this.playing = false;
    this.until = 0;
    clearTimeout(this.timer);
    // One request at a time: a dragged slider asks for its last setting, not for all of them.
    if (this.pending) this.resetWanted = true;
    else this.askReset();
  }

  askReset() {
    this.resetWanted = false;
    this.pending = true;
    this.workers.ask("trainer", { id: this.id, kind: "reset", setting: simulated(this.setting) });
  }

  // A change that needs no new run is taken over; any other starts again.
  change(setting, keepPlaying = this.playing) {
    const before = this.setting;
    if (!sameRun(before, setting)) {
      this.reset(setting);
      if (keepPlaying) this.play();
      return;
    }
    this.setting = setting;
    if (before.readout !== setting.readout) {
      this.curve = null;
      this.wantCurve(true);
    }
    if (["readout", "a", "b", "px", "py"].some((name) => before[name] !== setting[name])) this.wantPoint();
    this.onChange();
  }

  get step() {
    return this.records.length ? this.records[this.records.length - 1].step : 0;
  }

  get record() {
    return this.records[this.shown] ?? null;
  }

  play(until = LAST_STEP) {
    this.until = Math.max(until, this.until);
    this.playing = true;
    this.shown = this.records.length - 1;
    this.advance();
    this.onChange();
  }

  pause() {
    this.playing = false;
    this.until = 0;
    clearTimeout(this.timer);
    this.wantCurve(true);
    this.onChange();
  }

  one() {
    this.pause();
    this.until = this.step + 1;
    this.advance();
  }

  // To a step that a link or the story names, without showing every step on the way.
  runTo(step) {
    this.until = step;
    this.hurry = true;
    this.advance();
  }

  show(index) {
    this.shown = Math.max(0, Math.min(this.records.length - 1, index));
    this.onChange();
  }

  advance() {
    if (this.pending || !this.records.length || this.step >= this.until) return;
    this.pending = true;
    const now = performance.now();
    const wantsNets = this.hurry || !this.playing || (!this.curvePending && now - (this.curveAt ?? 0) > CURVE_EVERY);
    const budget = this.hurry ? 60 : SPEEDS[this.speed].budget;
    this.askedAt = now;
    this.workers.ask("trainer", { id: this.id, kind: "advance", until: budget ? this.until : this.step + 1, budget, wantsNets });
  }

  trained(answer) {
    this.pending = false;
    if (this.resetWanted) {
      this.askReset();
      return;
    }
    if (answer.id !== this.id) return;
    if (answer.kind === "start") {
      this.shadows = answer.shadows;
      this.clusters = answer.clusters;
      this.compressed = answer.compressed;
      this.width = answer.width;
      this.workers.ask("radii", { id: this.id, kind: "points", setting: simulated(this.setting), width: answer.width });
    }
    this.keep(answer.record);
    if (answer.nets) this.nets = { step: this.step, ...answer.nets };
    const atEnd = this.step >= this.until;
    if (atEnd) {
      this.playing = false;
      this.hurry = false;
    }
    if (answer.nets) {
      this.wantCurve(atEnd);
      this.wantPoint();
    }
    this.onChange();
    if (!atEnd) {
      const wait = this.hurry ? 0 : SPEEDS[this.speed].pause - (performance.now() - this.askedAt);
      this.timer = setTimeout(() => this.advance(), Math.max(0, wait));
    }
  }

  // Old records are thinned out: every second one of the older half goes.
  keep(record) {
    const follow = this.shown === this.records.length - 1;
    this.records.push({ step: record.coarse.step, coarse: record.coarse, fine: record.fine });
    if (this.records.length > MOST_RECORDS) {
      this.records = this.records.filter((_, i) => i === 0 || i > MOST_RECORDS / 2 || i % 2 === 0);
    }
    if (follow) this.shown = this.records.length - 1;
    else this.shown = Math.min(this.shown, this.records.length - 1);
  }

  wantCurve(final = false) {
    if (!this.nets) return;
    if (this.curvePending && !final) return;
    const key = `${this.nets.step},${this.setting.readout},${final}`;
    if (this.curveKey === key && this.curve) return;
    this.curveKey = key;
    this.curvePending = true;
    this.curveAt = performance.now();
    // A bracket costs far more than an exact radius: fewer points until it is worth the wait.
    const costly = this.setting.readout === "probability" || this.setting.depth === "3";
    const n = final || !costly ? 100 : 25;
    const { coarse, fine, step } = this.nets;
    this.workers.ask("radii", {
      id: this.id, kind: "curve", nets: { coarse, fine }, step, n, readout: this.setting.readout, budget: final ? 25 : 6,
    });
  }

  wantPoint() {
    if (!this.nets) return;
    if (this.pointPending) {
      this.pointWanted = true;
      return;
    }
    this.pointPending = true;
    this.pointWanted = false;
    const { a, b, px, py, readout } = this.setting;
    const [first, second] = planeBasis(this.task, a, b);
    const combination = first.map((v, j) => px * v + py * second[j]);
    const { coarse, fine, step } = this.nets;
    this.workers.ask("radii", { id: this.id, kind: "point", nets: { coarse, fine }, step, readout, combination });
  }

  measured(answer) {
    if (answer.id !== this.id) return;
    if (answer.kind === "curve") {
      this.curvePending = false;
      if (answer.readout === this.setting.readout) this.curve = answer;
    } else {
      this.pointPending = false;
      this.answer = answer;
      if (this.pointWanted) this.wantPoint();
    }
    this.onChange();
  }

  // Moves one value and keeps the run comparable: pace and start follow the dimension and the kind
  // of optimizer. Those that look at single coordinates take steps of the size of the rate itself.
  with(changes) {
    const before = this.setting;
    const next = { ...before, ...changes, step: null };
    const rotates = keepsRotations(next.stepper);
    if ("k" in changes && !("positive" in changes)) next.positive = Math.floor(changes.k / 2);
    if (rotates !== keepsRotations(before.stepper)) {
      next.lr = rotates ? PACE / next.d : 1e-3;
      next.sigma_w = rotates ? START / next.d : 1e-5;
    } else if ("d" in changes && rotates) {
      next.lr = before.lr * (before.d / next.d);
      next.sigma_w = before.sigma_w * (before.d / next.d);
    }
    return settled(next);
  }
}
