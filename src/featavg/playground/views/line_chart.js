// A chart of lines: the loss, the index, coefficients, the robust accuracy.

import { element, round, text, tell, ticks } from "./svg.js";

export const SIZE = { width: 310, height: 210, left: 50, right: 10, top: 10, bottom: 36 };

// series: { points: [[x, y], ...], className, steps } or { band: [[x, low, high], ...], className }.
// marks: { x, label, className, side }: vertical lines; levels: { y, label }: horizontal ones.
export function lineChart(root, { series, x, y, marks = [], levels = [], xLabel, yLabel, size = SIZE }) {
  const { width, height, left, right, top, bottom } = size;
  const [x0, x1] = x;
  const [y0, y1] = y;
  const px = (v) => round(left + ((v - x0) / (x1 - x0 || 1)) * (width - left - right), 2);
  const py = (v) => round(height - bottom - ((v - y0) / (y1 - y0 || 1)) * (height - top - bottom), 2);
  const parts = [];
  for (const v of ticks(y0, y1, 4)) {
    parts.push(element("line", { class: "grid", x1: left, x2: width - right, y1: py(v), y2: py(v) }));
    parts.push(text(left - 6, py(v) + 4, tell(v), { class: "tick", "text-anchor": "end" }));
  }
  for (const v of ticks(x0, x1, 5)) {
    parts.push(text(px(v), height - bottom + 15, tell(v), { class: "tick", "text-anchor": "middle" }));
  }
  parts.push(element("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  parts.push(text((left + width - right) / 2, height - 5, xLabel, { class: "label", "text-anchor": "middle" }));
  parts.push(text(-(top + height - bottom) / 2, 11, yLabel, { class: "label", "text-anchor": "middle", transform: "rotate(-90)" }));
  for (const one of levels) {
    parts.push(element("line", { class: `mark ${one.className ?? ""}`, x1: left, x2: width - right, y1: py(one.y), y2: py(one.y) }));
    parts.push(text(width - right - 3, py(one.y) - 4, one.label, { class: "note", "text-anchor": "end" }));
  }
  // At the foot, on the side that the mark asks for: a falling curve leaves room there.
  marks.forEach((one) => {
    if (!(one.x >= x0 && one.x <= x1)) return;
    const at = px(one.x);
    const after = one.side === "right" || at < left + 60;
    parts.push(element("line", { class: `mark ${one.className ?? ""}`, x1: at, x2: at, y1: top, y2: height - bottom }));
    parts.push(text(at + (after ? 4 : -4), height - bottom - 8, one.label, { class: `note ${one.className ?? ""}`, "text-anchor": after ? "start" : "end" }));
  });
  const inside = (v) => Math.min(Math.max(v, y0), y1);
  for (const one of series) {
    if (one.band) {
      const upper = one.band.map(([v, , high]) => `${px(v)},${py(inside(high))}`);
      const lower = one.band.map(([v, low]) => `${px(v)},${py(inside(low))}`).reverse();
      parts.push(element("path", { class: `band ${one.className}`, d: `M${[...upper, ...lower].join("L")}Z` }));
      continue;
    }
    const points = one.points.filter(([, v]) => Number.isFinite(v));
    if (!points.length) continue;
    const d = points.map(([u, v], i) => `${i ? "L" : "M"}${px(u)},${py(inside(v))}`).join("");
    parts.push(element("path", { class: `line ${one.className}`, d }));
    if (one.end) {
      const [u, v] = points[points.length - 1];
      parts.push(element("circle", { class: `dot ${one.className}`, cx: px(u), cy: py(inside(v)), r: 3 }));
    }
  }
  root.replaceChildren(...parts);
}

// At most `most` of many points, both ends among them: a chart has no more pixels than that.
export function thinned(points, most = 150) {
  if (points.length <= most) return points;
  return Array.from({ length: most }, (_, i) => points[Math.round((i * (points.length - 1)) / (most - 1))]);
}

// The range of values, widened where it is a single one.
export function range(values, least = 0) {
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (!Number.isFinite(v)) continue;
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  if (low > high) return [0, 1];
  if (high - low < least) return [low - least / 2, high + least / 2];
  if (high === low) return low === 0 ? [-1, 1] : [low - Math.abs(low) / 2, high + Math.abs(high) / 2];
  const margin = 0.05 * (high - low);
  return [low - margin, high + margin];
}
