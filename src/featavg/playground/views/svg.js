// SVG without a library: elements, number formats, ticks. Everything a view draws is SVG, so that every view
// can be saved as it is seen.

const NAMESPACE = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(NAMESPACE, name);
  set(node, attributes);
  node.append(...children);
  return node;
}

export function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

export function text(x, y, content, attributes = {}) {
  return element("text", { x, y, ...attributes }, content);
}

// A new drawing area inside a figure, with a name for screen readers.
export function canvas(figure, width, height) {
  const root = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "not drawn yet" });
  figure.querySelector(".drawing").replaceChildren(root);
  return root;
}

export function round(value, digits = 1) {
  return Number(value.toFixed(digits));
}

// Numbers as a reader wants them: 3072, 0.45, 1.2·10⁻⁵.
export function tell(value, digits = 3) {
  if (value === Infinity) return "∞";
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) {
    const [mantissa, power] = value.toExponential(digits - 1).split("e");
    const plain = String(Number(mantissa));
    const exponent = superscript(Number(power));
    if (plain === "1") return `10${exponent}`;
    return `${plain.replace("-", "−")}·10${exponent}`;
  }
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

function superscript(number) {
  return [...String(number)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
}

// About `count` round values from low to high.
export function ticks(low, high, count = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw) * power;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * span; i++) out.push(i * step);
  return out;
}
