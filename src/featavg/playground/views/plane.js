// The decision in the plane through the origin and two features (or one feature and the direction
// that fools everything), with clusters, a point to drag, the ball of its radius and the shadow of
// its nearest flipped point. Lengths are in units of a feature's.

import { decisionOf, score } from "../robustness/readout.js";
import { element, round, set, tell, text } from "./svg.js";

const SIDE = 360;
const LOW = -0.8;
const HIGH = 1.8;
const GRID = 52;

const toPixel = (v) => ((v - LOW) / (HIGH - LOW)) * SIDE;
const toPlane = (p) => LOW + (p / SIDE) * (HIGH - LOW);
const px = (v) => round(toPixel(v), 2);
const py = (v) => round(SIDE - toPixel(v), 2);

// Two orthonormal directions (times |mu|) as combinations of features. b = 0 is the universal
// direction: minus every positive feature, plus every negative one.
export function planeBasis(task, a, b) {
  const { k, gram, labels } = task;
  const inner = (u, v) => {
    let total = 0;
    for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) total += u[i] * v[j] * gram[i * k + j];
    return total;
  };
  const first = new Float64Array(k);
  first[a - 1] = 1;
  const second = b === 0 ? Float64Array.from(labels, (label) => -labels[a - 1] * label) : new Float64Array(k);
  if (b > 0) second[b - 1] = 1;
  const share = inner(first, second) / inner(first, first);
  for (let j = 0; j < k; j++) second[j] -= share * first[j];
  const length = Math.sqrt(inner(second, second) / task.d);
  return [first, second.map((v) => (length > 0 ? v / length : 0))];
}

export class PlaneView {
  constructor(root, onMove) {
    this.root = root;
    this.onMove = onMove;
    set(root, { viewBox: `0 0 ${SIDE} ${SIDE}` });
    this.field = element("path", { class: "field" });
    this.border = element("path", { class: "border" });
    this.dots = element("g", { class: "dots" });
    this.names = element("g", { class: "names" });
    this.ball = element("circle", { class: "ball" });
    this.inner = element("circle", { class: "ball certified" });
    this.way = element("line", { class: "way" });
    this.foot = element("rect", { class: "foot", width: 9, height: 9 });
    this.handle = element("circle", { class: "handle", r: 8, tabindex: 0, role: "slider", "aria-label": "The point; arrow keys move it" });
    this.told = text(8, 16, "", { class: "note strong" });
    const ground = element("rect", { class: "ground", width: SIDE, height: SIDE });
    const lines = element("g", {},
      element("line", { class: "axis", x1: px(LOW), x2: px(HIGH), y1: py(0), y2: py(0) }),
      element("line", { class: "axis", x1: px(0), x2: px(0), y1: py(LOW), y2: py(HIGH) }));
    root.replaceChildren(ground, this.field, lines, this.border, this.dots, this.names, this.ball, this.inner, this.way, this.foot, this.handle, this.told);
    this.listen();
  }

  listen() {
    const move = (event) => {
      const box = this.root.getBoundingClientRect();
      const scale = SIDE / box.width;
      this.onMove(toPlane((event.clientX - box.left) * scale), toPlane(SIDE - (event.clientY - box.top) * scale));
    };
    this.handle.addEventListener("pointerdown", (event) => {
      this.handle.setPointerCapture(event.pointerId);
      this.dragging = true;
      event.preventDefault();
      this.handle.focus({ preventScroll: true });
    });
    this.handle.addEventListener("pointermove", (event) => this.dragging && move(event));
    for (const end of ["pointerup", "pointercancel"]) this.handle.addEventListener(end, () => (this.dragging = false));
    this.root.addEventListener("click", (event) => event.target !== this.handle && move(event));
    this.handle.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 0.1 : 0.02;
      const ways = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
      const way = ways[event.key];
      if (!way) return;
      event.preventDefault();
      this.onMove(this.point[0] + way[0], this.point[1] + way[1]);
    });
  }

  // answer: the radius of the point as the worker found it, or null while it is looking.
  // earlier: the step that the radius belongs to, if it is another one than what is shown.
  draw({ record, task, basis, readout, point, answer, earlier, shadows, clusters, a, b }) {
    this.point = point;
    const decide = decider(record, task, basis, readout);
    const values = new Float64Array((GRID + 1) ** 2);
    const at = (i) => LOW + (i / GRID) * (HIGH - LOW);
    for (let i = 0; i <= GRID; i++) for (let j = 0; j <= GRID; j++) values[i * (GRID + 1) + j] = decide(at(j), at(i));
    const { area, line } = contour(values, (j, i) => decide(at(j), at(i)));
    set(this.field, { d: area });
    set(this.border, { d: line });
    this.drawPoints(task, basis, shadows, clusters, a, b);
    const [x, y] = point;
    set(this.handle, { cx: px(x), cy: py(y), "aria-valuetext": `${tell(x, 2)} and ${tell(y, 2)} lengths of a feature`, "aria-valuenow": round(x, 2) });
    this.drawAnswer(answer, task, basis, x, y);
    const side = decide(x, y) > 0 ? "positive" : "negative";
    const radius = answer ? (answer.certified >= 0.999 * answer.attack ? tell(answer.attack) : `${tell(answer.certified)} to ${tell(answer.attack)}`) : "…";
    const when = earlier === null ? "" : ` (step ${earlier})`;
    this.told.textContent = `decided ${side}, radius ${radius}${when}`;
    this.root.classList.toggle("earlier", earlier !== null);
    set(this.root, { "aria-label": `Decision in the plane. The point is decided ${side}; its radius is ${radius}${when}.` });
  }

  drawAnswer(answer, task, basis, x, y) {
    const seen = answer && Number.isFinite(answer.attack);
    for (const node of [this.ball, this.inner, this.way, this.foot]) node.style.display = seen ? "" : "none";
    if (!seen) return;
    const scale = SIDE / (HIGH - LOW) / task.norm;
    set(this.ball, { cx: px(x), cy: py(y), r: round(answer.attack * scale, 2) });
    set(this.inner, { cx: px(x), cy: py(y), r: round(answer.certified * scale, 2) });
    const [dx, dy] = basis.map((direction) => direction.reduce((s, v, j) => s + v * (answer.products?.[j] ?? 0), 0) / task.d);
    set(this.way, { x1: px(x), y1: py(y), x2: px(x + dx), y2: py(y + dy) });
    set(this.foot, { x: px(x + dx) - 4.5, y: py(y + dy) - 4.5 });
  }

  drawPoints(task, basis, shadows, clusters, a, b) {
    const key = `${a},${b},${task.k},${task.d},${task.cosine},${shadows.length},${shadows[0]}`;
    if (this.key === key) return;
    this.key = key;
    const { k, labels } = task;
    const place = (products, start) => basis.map((direction) => direction.reduce((s, v, j) => s + v * products[start + j], 0) / task.d);
    const dots = [];
    clusters.forEach((cluster, i) => {
      const [x, y] = place(shadows, i * k);
      if (x < LOW || x > HIGH || y < LOW || y > HIGH) return;
      dots.push(element("circle", { class: labels[cluster] > 0 ? "dot plus" : "dot minus", cx: px(x), cy: py(y), r: 2.2 }));
    });
    this.dots.replaceChildren(...dots);
    const name = (j, className) => {
      const [x, y] = place(task.gram, j * k);
      return text(px(x) + 10, py(y) - 8, `μ${subscript(j + 1)}`, { class: `note strong ${className}` });
    };
    this.names.replaceChildren(...[a, b].filter((j) => j > 0).map((j) => name(j - 1, labels[j - 1] > 0 ? "plus" : "minus")),
      ...(b === 0 ? [text(px(0) + 8, py(HIGH) + 34, "↑ the direction that fools all", { class: "note" })] : []));
  }
}

function subscript(number) {
  return [...String(number)].map((c) => "₀₁₂₃₄₅₆₇₈₉"[c]).join("");
}

// The score at a point of the plane, from inner products of weights and features.
export function decider(record, task, basis, readout) {
  const { k, labels } = task;
  const { products, biases, head, middle } = record;
  const neurons = biases.length;
  const outputs = head.length / neurons;
  const [signs, rule] = decisionOf(record, labels, readout);
  const slope = basis.map((direction) => Float64Array.from({ length: neurons }, (_, r) => {
    let total = 0;
    for (let j = 0; j < k; j++) total += direction[j] * products[r * k + j];
    return total;
  }));
  const hidden = new Float64Array(neurons);
  const second = new Float64Array(neurons);
  const f = new Float64Array(outputs);
  return (x, y) => {
    for (let r = 0; r < neurons; r++) hidden[r] = Math.max(0, x * slope[0][r] + y * slope[1][r] + biases[r]);
    let top = hidden;
    if (middle) {
      top = second;
      for (let q = 0; q < neurons; q++) {
        let total = 0;
        for (let r = 0; r < neurons; r++) total += middle[q * neurons + r] * hidden[r];
        top[q] = Math.max(0, total);
      }
    }
    for (let c = 0; c < outputs; c++) {
      let total = 0;
      for (let r = 0; r < neurons; r++) total += head[c * neurons + r] * top[r];
      f[c] = total;
    }
    return score(f, signs, rule);
  };
}

// Where the score turns positive between two corners. Where every neuron is off it is exactly zero,
// and a straight line between the two values would lie: then halve.
function crossing(from, to, u, v, decide) {
  const between = (share) => [0, 1].map((t) => from[t] + share * (to[t] - from[t]));
  if (u !== 0 && v !== 0) return between(u / (u - v));
  let [low, high] = [0, 1];
  for (let step = 0; step < 6; step++) {
    const middle = (low + high) / 2;
    if (decide(...between(middle)) > 0 === u > 0) low = middle;
    else high = middle;
  }
  return between((low + high) / 2);
}

// Marching squares: the area where the score is positive, and its border.
function contour(values, decide) {
  const size = GRID + 1;
  const cell = SIDE / GRID;
  let area = "";
  let line = "";
  const X = (j) => round(j * cell, 2);
  const Y = (i) => round(SIDE - i * cell, 2);
  for (let i = 0; i < GRID; i++) {
    let run = -1; // whole cells in a row become one rectangle
    for (let j = 0; j <= GRID; j++) {
      const corners = j < GRID ? [values[i * size + j], values[i * size + j + 1], values[(i + 1) * size + j + 1], values[(i + 1) * size + j]] : null;
      const whole = corners?.every((v) => v > 0);
      if (whole && run < 0) run = j;
      if (!whole && run >= 0) {
        area += `M${X(run)} ${Y(i)}H${X(j)}V${Y(i + 1)}H${X(run)}Z`;
        run = -1;
      }
      if (!corners || whole || !corners.some((v) => v > 0)) continue;
      const places = [[j, i], [j + 1, i], [j + 1, i + 1], [j, i + 1]];
      const polygon = [];
      const crossings = [];
      for (let c = 0; c < 4; c++) {
        const next = (c + 1) % 4;
        const [u, v] = [corners[c], corners[next]];
        if (u > 0) polygon.push(places[c]);
        if (u > 0 !== v > 0) {
          const cross = crossing(places[c], places[next], u, v, decide);
          polygon.push(cross);
          crossings.push(cross);
        }
      }
      area += `M${polygon.map(([q, p]) => `${X(q)} ${Y(p)}`).join("L")}Z`;
      for (let c = 0; c + 1 < crossings.length; c += 2) {
        line += `M${X(crossings[c][0])} ${Y(crossings[c][1])}L${X(crossings[c + 1][0])} ${Y(crossings[c + 1][1])}`;
      }
    }
  }
  return { area: area || "M0 0", line: line || "M0 0" };
}
