// The matrix of cosines between features (rows) and equivalent weights (columns).

import { element, round, set, text } from "./svg.js";

const SIDE = 240;
const LEFT = 30;
const TOP = 22;

export class MatrixView {
  constructor(root, onHover) {
    this.root = root;
    this.onHover = onHover;
    this.k = 0;
  }

  layout(k, labels) {
    this.k = k;
    const cell = (SIDE - LEFT - 4) / k;
    this.cells = [];
    const parts = [text(SIDE / 2 + 10, 11, "weights", { class: "label", "text-anchor": "middle" }),
      text(-(SIDE + TOP) / 2, 10, "features", { class: "label", "text-anchor": "middle", transform: "rotate(-90)" })];
    for (let i = 0; i < k; i++) {
      const centre = round((i + 0.5) * cell, 2);
      const every = k > 12 ? i % 2 === 0 : true;
      if (every) {
        const kind = labels[i] > 0 ? "tick plus" : "tick minus";
        parts.push(text(LEFT - 4, TOP + centre + 3.5, i + 1, { class: kind, "text-anchor": "end" }));
      }
      for (let j = 0; j < k; j++) {
        const rect = element("rect", {
          x: round(LEFT + j * cell, 2), y: round(TOP + i * cell, 2),
          width: round(cell - 0.6, 2), height: round(cell - 0.6, 2), rx: k > 12 ? 0 : 1.5,
        });
        rect.addEventListener("pointerenter", () => this.onHover(i, j));
        rect.addEventListener("pointerdown", () => this.onHover(i, j));
        this.cells.push(rect);
      }
    }
    const split = labels.filter((label) => label > 0).length * cell;
    const line = (x1, y1, x2, y2) => element("line", { class: "split", x1, y1, x2, y2 });
    set(this.root, { viewBox: `0 0 ${SIDE} ${SIDE - LEFT + TOP}` });
    const [right, down] = [LEFT + split - 0.3, TOP + split - 0.3];
    this.root.replaceChildren(...parts, ...this.cells,
      line(right, TOP, right, TOP + k * cell), line(LEFT, down, LEFT + k * cell, down));
  }

  draw(record, labels, colour) {
    if (this.k !== labels.length || this.labels?.join() !== labels.join()) {
      this.labels = [...labels];
      this.layout(labels.length, this.labels);
    }
    this.cells.forEach((cell, i) => cell.setAttribute("fill", colour(record.cosines[i])));
    const { own, same, other } = record.blocks;
    const mates = Number.isNaN(same) ? "none" : same.toFixed(2);
    set(this.root, {
      "aria-label": `Cosines between features and weights, on average: own feature ${own.toFixed(2)}, ` +
        `other features of the class ${mates}, features of the other class ${other.toFixed(2)}.`,
    });
  }
}

// The diverging scale of the report, from -1 over 0 to 1, in the colours of the page.
export function divergingScale() {
  const style = getComputedStyle(document.documentElement);
  const stops = ["low", "low-mid", "zero", "high-mid", "high"].map((name) => channels(style.getPropertyValue(`--${name}`)));
  return (value) => {
    const place = (Math.min(1, Math.max(-1, value || 0)) + 1) * 2;
    const index = Math.min(3, Math.floor(place));
    const share = place - index;
    const mixed = stops[index].map((v, c) => Math.round(v + share * (stops[index + 1][c] - v)));
    return `rgb(${mixed.join(",")})`;
  };
}

function channels(colour) {
  const hex = colour.trim().replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
