// What can be set, within which bounds, and how it travels in the address of the page.
//
// Every value that arrives from outside passes `settled`: it returns a setting that can be run and
// a sentence for everything that had to be changed.

const REAL = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

// name: what a reader calls it; kind; bounds; fallback.
export const FIELDS = {
  k: { name: "the number of clusters", kind: "whole", low: 2, high: 20, fallback: 10 },
  d: { name: "the dimension", kind: "whole", low: 2, high: 1e12, fallback: 3072 },
  n: { name: "the number of points", kind: "whole", low: 10, high: 2000, fallback: 1000 },
  sigma: { name: "the noise", kind: "real", low: 0, high: 3, fallback: 1 },
  cosine: { name: "the cosine between features", kind: "real", low: -1, high: 0.95, fallback: 0 },
  positive: { name: "the number of positive clusters", kind: "whole", low: 1, high: 19, fallback: null },
  share: { name: "the share of fine labels", kind: "real", low: 0, high: 1, fallback: 1 },
  wrong: { name: "the share of fine labels that are wrong", kind: "real", low: 0, high: 1, fallback: 0 },
  m: { name: "neurons per class", kind: "whole", low: 1, high: 24, fallback: 5 },
  h: { name: "neurons per cluster", kind: "whole", low: 1, high: 4, fallback: 1 },
  sigma_w: { name: "the size of the first weights", kind: "real", low: 1e-15, high: 1, fallback: 1e-5 },
  pooling: { name: "the pooling", kind: "choice", choices: ["mean", "max", "top:q=2"], fallback: "mean" },
  depth: { name: "the number of layers", kind: "choice", choices: ["2", "3"], fallback: "2" },
  stepper: { name: "the optimizer", kind: "choice", choices: ["gd", "momentum", "adam", "sign"], fallback: "gd" },
  orientation: { name: "the direction of the features", kind: "choice", choices: ["axes", "random"], fallback: "axes" },
  lr: { name: "the learning rate", kind: "real", low: 1e-15, high: 100, fallback: 1e-3 },
  readout: { name: "the read-out", kind: "choice", choices: ["max", "sum", "probability"], fallback: "max" },
  seed: { name: "the seed", kind: "whole", low: 0, high: 4294967295, fallback: 0 },
  // What one looks at.
  step: { name: "the step", kind: "whole", low: 0, high: 5000, fallback: null },
  a: { name: "the first feature of the plane", kind: "whole", low: 1, high: 20, fallback: 1 },
  b: { name: "the second feature of the plane", kind: "whole", low: 0, high: 20, fallback: null },
  px: { name: "the point", kind: "real", low: -4, high: 4, fallback: 1 },
  py: { name: "the point", kind: "real", low: -4, high: 4, fallback: 0 },
  neuron: { name: "the neuron", kind: "whole", low: 0, high: 79, fallback: 0 },
  story: { name: "the step of the story", kind: "whole", low: 0, high: 12, fallback: 0 },
};

const SIMULATED = ["k", "d", "n", "sigma", "cosine", "positive", "share", "wrong", "m", "h", "pooling", "sigma_w", "depth", "stepper", "orientation", "lr", "seed"];
const ALL_COORDINATES = 4096; // the most dimensions for methods that need every coordinate
const MOST_PAIRED = 10; // neurons per class whose pairs the exact radius lists
const ENTRIES = 4.5e6; // numbers of a training set that a phone still holds

export function defaults() {
  return settled({}).setting;
}

export function parseAddress(hash) {
  const notes = [];
  const given = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    if (part === "") continue;
    const [name, ...rest] = part.split("=");
    const raw = decoded(rest.join("="));
    if (!Object.hasOwn(FIELDS, name)) {
      notes.push(`The link names “${short(name)}”, which this page does not know; it was left out.`);
    } else if (raw === null || !readable(FIELDS[name], raw)) {
      notes.push(`In the link, ${FIELDS[name].name} is “${short(raw ?? rest.join("="))}”; the usual value is used instead.`);
    } else {
      given[name] = FIELDS[name].kind === "choice" ? raw : Number(raw);
    }
  }
  const result = settled(given);
  return { setting: result.setting, notes: [...notes, ...result.notes].slice(0, 4) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return null; // a broken escape
  }
}

function short(text) {
  const plain = String(text).replace(/[^\x20-\x7e]/g, "?");
  return plain.length > 24 ? `${plain.slice(0, 24)}…` : plain;
}

function readable(field, raw) {
  if (field.kind === "choice") return field.choices.includes(raw);
  if (!REAL.test(raw)) return false;
  const value = Number(raw);
  return Number.isFinite(value) && (field.kind === "real" || Number.isInteger(value));
}

// A setting that can be run, from values of the right kind but perhaps out of reach.
export function settled(given) {
  const notes = [];
  const s = {};
  const put = (name, value, reason) => {
    if (s[name] === value) return;
    notes.push(`${sentence(FIELDS[name].name)} ${plural(name)} ${show(s[name])}: ${reason}, so it is ${show(value)} here.`);
    s[name] = value;
  };
  for (const [name, field] of Object.entries(FIELDS)) {
    s[name] = given[name] ?? field.fallback;
    if (field.kind === "choice" || s[name] === null) continue;
    if (s[name] < field.low) put(name, field.low, `at least ${show(field.low)} is needed`);
    if (s[name] > field.high) put(name, field.high, `at most ${show(field.high)} is possible`);
  }
  s.positive ??= Math.floor(s.k / 2);
  if (s.positive >= s.k) put("positive", s.k - 1, "both classes need a cluster");
  if (s.d < s.k) put("d", s.k, `${s.k} features need as many dimensions`);
  const lowest = -0.95 / (s.k - 1);
  if (s.cosine < lowest) put("cosine", Math.ceil(lowest * 1e4) / 1e4, `${s.k} features cannot all be farther apart`);
  if (s.stepper === "adam" || s.stepper === "sign") {
    if (s.d > ALL_COORDINATES) put("d", ALL_COORDINATES, `${s.stepper === "adam" ? "Adam" : "sign descent"} looks at single coordinates, so all of them must be drawn`);
  }
  if (s.pooling !== "mean" && s.depth === "3") put("depth", "2", "neurons that compete have two layers in this page");
  if (s.pooling === "top:q=2" && s.m > MOST_PAIRED) put("m", MOST_PAIRED, "more pairs of neurons would take too long");
  if (s.pooling === "top:q=2" && s.m < 2) put("m", 2, "the two best are of two at least");
  const width = frameWidth(s);
  if (s.n * width > ENTRIES) put("n", Math.max(10, Math.floor(ENTRIES / width)), "more would not fit into this page");
  const most = Math.max(2 * s.m, s.k * s.h) - 1;
  if (s.neuron > most) s.neuron = 0;
  if (s.a > s.k) s.a = 1;
  if (s.b === null || s.b > s.k || s.b === s.a) s.b = otherFeature(s);
  return { setting: s, notes };
}

// By default the first feature of the other class.
function otherFeature(s) {
  const preferred = s.a <= s.positive ? s.positive + 1 : 1;
  return preferred === s.a ? (s.a % s.k) + 1 : preferred;
}

export function frameWidth(s) {
  const compressed = s.k + 2 * s.m + s.k * s.h + s.n;
  const rotates = s.stepper === "gd" || s.stepper === "momentum";
  return rotates ? Math.min(compressed, s.d) : s.d;
}

// As the simulator wants it.
export function simulated(s) {
  const out = Object.fromEntries(SIMULATED.map((name) => [name, s[name]]));
  return { ...out, depth: Number(s.depth), alpha: 1, n_test: 100 };
}

export function sameRun(a, b) {
  return SIMULATED.every((name) => a[name] === b[name]);
}

// Only what differs from a fresh page: short links. Some usual values follow from others.
export function toAddress(s) {
  const usual = { ...defaults(), positive: Math.floor(s.k / 2), b: otherFeature(s), step: null };
  const parts = [];
  for (const name of Object.keys(FIELDS)) {
    if (s[name] !== null && s[name] !== usual[name]) parts.push(`${name}=${s[name]}`);
  }
  return parts.length ? `#${parts.join("&")}` : "#";
}

function sentence(text) {
  return text[0].toUpperCase() + text.slice(1);
}

function plural(name) {
  return name === "m" || name === "h" ? "are" : "is";
}

function show(value) {
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  return String(Number(value.toPrecision(4)));
}
