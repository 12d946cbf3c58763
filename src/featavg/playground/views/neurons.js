// The neurons of one network as a row of buttons, and the one that is looked at as bars: its
// weight in the basis of the features.

import { element, round, set, tell, text } from "./svg.js";

const WIDTH = 240;
const HEIGHT = 190;
const LEFT = 8;
const BOTTOM = 18;

export class NeuronView {
  constructor(strip, root, onSelect) {
    this.strip = strip;
    this.root = root;
    this.onSelect = onSelect;
    this.count = 0;
  }

  buttons(count, signs) {
    this.count = count;
    this.signs = [...signs];
    this.chips = this.signs.map((sign, r) => {
      const chip = document.createElement("button");
      chip.type = "button";
      chip.className = sign > 0 ? "neuron plus" : "neuron minus";
      chip.textContent = r + 1;
      chip.setAttribute("aria-label", `Neuron ${r + 1}, ${sign > 0 ? "positive" : "negative"} class`);
      // Hover and focus look, a tap or a click stays.
      chip.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && this.onSelect(r));
      chip.addEventListener("focus", () => this.onSelect(r));
      chip.addEventListener("click", () => this.onSelect(r));
      return chip;
    });
    this.strip.replaceChildren(...this.chips);
  }

  draw(record, task, signs, chosen) {
    if (this.count !== signs.length || this.signs.some((sign, r) => sign !== signs[r])) this.buttons(signs.length, signs);
    this.chips.forEach((chip, r) => chip.setAttribute("aria-pressed", r === chosen));
    const { k, labels } = task;
    const values = record.coefficients.subarray(chosen * k, (chosen + 1) * k);
    const low = Math.min(0, ...values);
    const high = Math.max(0, ...values);
    const span = high - low || 1;
    const y = (v) => round(14 + ((high - v) / span) * (HEIGHT - BOTTOM - 24), 2);
    const step = (WIDTH - 2 * LEFT) / k;
    const parts = [];
    values.forEach((value, j) => {
      const own = labels[j] === signs[chosen];
      const x = round(LEFT + j * step + 0.12 * step, 2);
      parts.push(element("rect", {
        class: own ? "bar own" : "bar other", x, y: Math.min(y(value), y(0)),
        width: round(0.76 * step, 2), height: Math.max(0.5, round(Math.abs(y(value) - y(0)), 2)), rx: 1,
      }));
      if (k <= 12 || j % 2 === 0) {
        parts.push(text(round(LEFT + (j + 0.5) * step, 2), HEIGHT - 5, j + 1, { class: labels[j] > 0 ? "tick plus" : "tick minus", "text-anchor": "middle" }));
      }
    });
    parts.push(element("line", { class: "axis", x1: LEFT, x2: WIDTH - LEFT, y1: y(0), y2: y(0) }));
    parts.push(text(LEFT, 10, `largest ${tell(Math.abs(high) >= Math.abs(low) ? high : low)}`, { class: "tick" }));
    set(this.root, {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      "aria-label": `Neuron ${chosen + 1} in the basis of the features: ${[...values].map((v) => tell(v, 2)).join(", ")}.`,
    });
    this.root.replaceChildren(...parts);
  }
}
