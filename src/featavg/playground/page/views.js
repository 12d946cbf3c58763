// All views at once: from the experiment to pictures, once a frame.

import { median, shareBeyond } from "../robustness/radii.js";
import { theoryRadii } from "../simulator/task.js";
import { lineChart, range, SIZE, thinned } from "../views/line_chart.js";
import { divergingScale, MatrixView } from "../views/matrix.js";
import { NeuronView } from "../views/neurons.js";
import { planeBasis, PlaneView } from "../views/plane.js";
import { canvas, set, tell } from "../views/svg.js";

const NETWORKS = ["coarse", "fine"];
const ROLE = { coarse: "averaged", fine: "decoupled" };
const LOW = { ...SIZE, width: 420, height: 150, bottom: 34 };

export class Views {
  constructor({ onNeuron, onMove, onCell }) {
    this.roots = {};
    for (const figure of document.querySelectorAll("figure[data-view]")) {
      this.roots[figure.dataset.view] = canvas(figure, SIZE.width, SIZE.height);
    }
    this.matrices = {};
    this.neurons = {};
    this.planes = {};
    for (const labels of NETWORKS) {
      this.matrices[labels] = new MatrixView(this.roots[`matrix-${labels}`], (i, j) => onCell(labels, i, j));
      this.neurons[labels] = new NeuronView(document.getElementById(`neurons-${labels}`), this.roots[`neuron-${labels}`], onNeuron);
      this.planes[labels] = new PlaneView(this.roots[`plane-${labels}`], onMove);
    }
    this.recolour();
    // What is not on the screen is not drawn: a frame must leave time for the reader.
    this.visible = new Set(Object.keys(this.roots));
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) this.visible.add(target.dataset.view);
        else this.visible.delete(target.dataset.view);
      }
      this.onSeen?.();
    }, { rootMargin: "100px" });
    for (const figure of document.querySelectorAll("figure[data-view]")) this.observer.observe(figure);
  }

  recolour() {
    this.colour = divergingScale();
  }

  seen(view, all) {
    return all || this.visible.has(view);
  }

  // `all`: also what is not on the screen, for exports.
  draw(experiment, all = false) {
    const { record, task, setting } = experiment;
    if (!record) return;
    const basis = planeBasis(task, setting.a, setting.b);
    for (const labels of NETWORKS) {
      const own = record[labels];
      const signs = signsOf(labels, setting, task);
      if (this.seen(`matrix-${labels}`, all)) this.matrices[labels].draw(own, task.labels, this.colour);
      const chosen = Math.min(setting.neuron, signs.length - 1);
      if (this.seen(`neuron-${labels}`, all)) this.neurons[labels].draw(own, task, signs, chosen);
      if (this.seen(`history-${labels}`, all)) this.coefficients(experiment, labels, chosen, signs[chosen]);
      if (!this.seen(`plane-${labels}`, all)) continue;
      this.planes[labels].draw({
        record: own, task, basis, readout: setting.readout, point: [setting.px, setting.py],
        answer: experiment.answer?.found[labels] ?? null,
        earlier: experiment.answer && experiment.answer.step !== record.step ? experiment.answer.step : null,
        shadows: experiment.shadows, clusters: experiment.clusters, a: setting.a, b: setting.b,
      });
    }
    if (this.seen("loss", all)) this.loss(experiment);
    if (this.seen("index", all)) this.index(experiment);
    if (this.seen("curve", all)) this.curve(experiment);
  }

  time(experiment) {
    return [0, Math.max(20, experiment.step)];
  }

  now(experiment) {
    const { record, records } = experiment;
    return record !== records[records.length - 1] ? [{ x: record.step, label: `step ${record.step}` }] : [];
  }

  loss(experiment) {
    const series = NETWORKS.map((labels) => ({
      className: ROLE[labels], end: true,
      points: thinned(experiment.records).map((record) => [record.step, record[labels].logLoss / Math.LN10]),
    }));
    const y = range(series.flatMap((one) => one.points.map(([, v]) => v)), 0.2);
    lineChart(this.roots.loss, { series, x: this.time(experiment), y, marks: this.now(experiment), xLabel: "step", yLabel: "log₁₀ of the loss" });
    const told = inWords((labels) => tell(Math.exp(experiment.record[labels].logLoss)));
    set(this.roots.loss, { "aria-label": `Loss over time. Now ${told}.` });
  }

  index(experiment) {
    const series = NETWORKS.map((labels) => ({
      className: ROLE[labels], end: true,
      points: thinned(experiment.records).map((record) => [record.step, record[labels].index]),
    }));
    const chance = experiment.record.coarse.nullIndex;
    const levels = Number.isFinite(chance) ? [{ y: chance, label: "a random direction" }] : [];
    lineChart(this.roots.index, { series, x: this.time(experiment), y: [0, 1.04], levels, marks: this.now(experiment), xLabel: "step", yLabel: "averaging index" });
    const told = inWords((labels) => tell(experiment.record[labels].index, 2));
    set(this.roots.index, { "aria-label": `Averaging index over time. Now ${told}.` });
  }

  // The coefficients of one neuron over time, the features of its own class in colour.
  coefficients(experiment, labels, neuron, sign) {
    const { k, labels: classes } = experiment.task;
    const series = [];
    const records = thinned(experiment.records, 80);
    for (let j = 0; j < k; j++) {
      const own = classes[j] === sign;
      series.push({
        className: own ? `${ROLE[labels]} thin` : "other thin",
        points: records.map((record) => [record.step, record[labels].coefficients[neuron * k + j]]),
      });
    }
    series.sort((a, b) => (a.className < b.className ? 1 : -1)); // own features on top of the others
    const y = range(series.flatMap((one) => one.points.map(([, v]) => v)));
    const root = this.roots[`history-${labels}`];
    set(root, { viewBox: `0 0 ${LOW.width} ${LOW.height}` });
    lineChart(root, { series, x: this.time(experiment), y, marks: this.now(experiment), xLabel: "step", yLabel: "coefficient", size: LOW });
    set(root, { "aria-label": `Coefficients of neuron ${neuron + 1} over time, features of its own class in colour.` });
  }

  curve(experiment) {
    const { curve, task } = experiment;
    const theory = theoryRadii(task);
    const root = this.roots.curve;
    const finite = curve ? NETWORKS.flatMap((l) => [...curve.radii[l].attack].filter(Number.isFinite)) : [];
    const most = Math.max(1.45 * theory.decoupled, 1.02 * Math.max(0, ...finite));
    const x = [0, Math.min(most, 4 * theory.decoupled)];
    const free = task.cosine === 0 ? "d" : "d(1−c)"; // c: the cosine between features
    const series = [];
    for (const labels of curve ? NETWORKS : []) {
      const { certified, attack } = curve.radii[labels];
      const places = Array.from({ length: 121 }, (_, i) => (i / 120) * x[1]);
      series.push({ className: ROLE[labels], band: places.map((r) => [r, shareBeyond(certified, r), shareBeyond(attack, r)]) });
      series.push({ className: ROLE[labels], points: places.map((r) => [r, shareBeyond(certified, r)]) });
    }
    lineChart(root, {
      series, x, y: [0, 1.04], xLabel: "how far every point may be moved (ℓ₂)", yLabel: "points still right",
      marks: [
        { x: theory.averaged, label: `√(${free}/k)`, className: "averaged" },
        { x: theory.decoupled, label: `√(${free}/2)`, className: "decoupled", side: "right" },
      ],
    });
    const earlier = curve && curve.step !== experiment.record.step ? ` (of step ${curve.step})` : "";
    root.closest("figure").querySelector("figcaption span").textContent = exactness(curve) + earlier;
    const told = curve ? inWords((labels) => tell(median(curve.radii[labels].certified))) : "being computed";
    set(root, { "aria-label": `Robust accuracy. Median radius ${told}. Theory: ${tell(theory.averaged)} averaged, ${tell(theory.decoupled)} decoupled.` });
  }
}

// What the curve is: exact, or two ends that the page's budget left apart.
function exactness(curve) {
  if (!curve) return "being computed";
  const gaps = NETWORKS.map((labels) => 1 - median(curve.radii[labels].certified) / median(curve.radii[labels].attack));
  const widest = Math.max(0, ...gaps.filter(Number.isFinite));
  if (widest < 0.005) return `${curve.n} fresh points, exact radii`;
  return `${curve.n} fresh points: the line is certified, the band ends where an attack gets through, ${Math.ceil(100 * widest)}% apart`;
}

// A number of each network, in words for screen readers.
function inWords(number) {
  return `${number("coarse")} with class labels, ${number("fine")} with cluster labels`;
}

export function signsOf(labels, setting, task) {
  if (labels === "coarse") return Array.from({ length: 2 * setting.m }, (_, r) => (r < setting.m ? 1 : -1));
  return Array.from({ length: setting.k * setting.h }, (_, r) => task.labels[Math.floor(r / setting.h)]);
}
