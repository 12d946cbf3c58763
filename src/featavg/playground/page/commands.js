// What one sees, as a command and as Python. The page draws its own random numbers, so the command
// repeats the experiment, not the single run: the same law, other draws.

import { defaults } from "./setting.js";

const FLAGS = ["k", "d", "n", "sigma", "positive", "cosine", "share", "wrong", "m", "h", "pooling", "sigma_w", "stepper", "lr", "readout", "orientation"];
const NAMES = { share: "label_share", wrong: "label_wrong" }; // where the package's name is longer
const USUAL = { readout: "probability" }; // where the package's default is another than the page's

function plain(value) {
  if (typeof value !== "number" || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(6)));
}

// What differs from the paper's setting.
function changes(s) {
  const usual = { ...defaults(), ...USUAL, positive: Math.floor(s.k / 2) };
  const out = {};
  for (const name of FLAGS) if (s[name] !== usual[name]) out[NAMES[name] ?? name] = s[name];
  if (out.sigma_w !== undefined) out.sigma_b = out.sigma_w;
  if (s.stepper !== "adam" && s.stepper !== "sign") delete out.orientation;
  // The page's three layers: all of them trained, no biases.
  return s.depth === "3" ? { ...out, depth: 3, layers: "all", biases: false } : out;
}

export function asCommand(s, step) {
  const flags = Object.entries(changes(s)).map(([name, value]) => {
    const flag = name.replaceAll("_", "-");
    return value === false ? `--no-${flag}` : `--${flag} ${plain(value)}`;
  });
  if (step !== 100) flags.push(`--steps ${step}`);
  if (s.seed !== 0) flags.push(`--seed ${s.seed}`);
  return ["featavg simulate", ...flags].join(" ");
}

export function asPython(s, step) {
  const value = (v) => (typeof v === "string" ? `"${v}"` : v === false ? "False" : plain(v));
  const pairs = Object.entries(changes(s)).map(([name, v]) => `${name}=${value(v)}`);
  if (step !== 100) pairs.push(`steps=${step}`);
  if (s.seed !== 0) pairs.push(`seeds=(${s.seed},)`);
  return [
    "import featavg as fa",
    "",
    `done = fa.simulate(fa.compose("paper"${pairs.length ? ", " : ""}${pairs.join(", ")}))`,
    "print(done)",
  ].join("\n");
}
