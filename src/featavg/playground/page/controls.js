// The sliders and choices. Each control is a label, an input, and the value in words.

import { tell } from "../views/svg.js";

const log = { to: (v) => Math.log10(v), from: (p) => 10 ** p };

// Whole numbers of few digits on a logarithmic slider: 3072 must be among them.
function niceDimension(position) {
  const value = 10 ** position;
  if (Math.abs(value - 3072) < 250) return 3072;
  const power = 10 ** Math.max(0, Math.floor(Math.log10(value)) - 1);
  return Math.round(value / power) * power;
}

function round(share) {
  return Number((100 * share).toPrecision(3));
}

function two(value) {
  return Number(value.toPrecision(2));
}

const CONTROLS = [
  { group: "Data", name: "k", label: "clusters", symbol: "k", low: 2, high: 20, step: 1 },
  { group: "Data", name: "d", label: "dimension", symbol: "d", low: 1, high: 12, step: 0.05, to: log.to, from: niceDimension },
  { group: "Data", name: "n", label: "training points", symbol: "n", low: 1, high: 3.3, step: 0.05, to: log.to, from: (p) => Math.min(2000, Math.round(two(10 ** p))) },
  { group: "Data", name: "sigma", label: "noise", symbol: "σ", low: 0, high: 3, step: 0.05 },
  { group: "Data", name: "cosine", label: "angle", symbol: "", low: -0.3, high: 0.95, step: 0.01,
    words: (v) => `${Math.round((Math.acos(v) * 180) / Math.PI)}°, cosine ${tell(v, 2)}` },
  { group: "Data", name: "positive", label: "positive clusters", symbol: "|J₊|", low: 1, high: 19, step: 1, words: (v, s) => `${v} of ${s.k}` },
  { group: "Data", name: "share", label: "share of fine labels", symbol: "", low: 0, high: 1, step: 0.01, words: (v) => `${round(v)}% of the points` },
  { group: "Data", name: "wrong", label: "of these wrong", symbol: "", low: 0, high: 1, step: 0.05, words: (v) => `${round(v)}%` },
  { group: "Networks", name: "m", label: "neurons per class", symbol: "m", low: 1, high: 24, step: 1 },
  { group: "Networks", name: "pooling", label: "pooling of a class", options: { mean: "mean: all of them", max: "max: they compete", "top:q=2": "top 2: the two best" } },
  { group: "Networks", name: "h", label: "neurons per cluster", symbol: "h", low: 1, high: 4, step: 1 },
  { group: "Networks", name: "sigma_w", label: "size of the first weights", symbol: "", low: -15, high: 0, step: 0.25, to: log.to, from: (p) => two(10 ** p) },
  { group: "Networks", name: "depth", label: "layers", options: { 2: "2 (one hidden)", 3: "3 (two hidden)" } },
  { group: "Networks", name: "readout", label: "read-out", options: { max: "max: best output", sum: "sum of outputs", probability: "probability: softmax" } },
  { group: "Training", name: "stepper", label: "optimizer", options: { gd: "gradient descent", momentum: "momentum", adam: "Adam", sign: "sign descent" } },
  { group: "Training", name: "lr", label: "learning rate", symbol: "η", low: -15, high: 2, step: 0.1, to: log.to, from: (p) => two(10 ** p) },
  { group: "Training", name: "orientation", label: "features lie", options: { axes: "along the axes", random: "in random directions" }, only: (s) => s.stepper === "adam" || s.stepper === "sign" },
  { group: "Training", name: "seed", label: "seed", number: true },
];

export class Controls {
  constructor(place, onChange) {
    this.place = place;
    this.onChange = onChange;
    this.parts = {};
    const groups = {};
    for (const control of CONTROLS) {
      groups[control.group] ??= this.group(control.group);
      groups[control.group].append(this.part(control));
    }
  }

  group(name) {
    const set = document.createElement("fieldset");
    const legend = document.createElement("legend");
    legend.textContent = name;
    set.append(legend);
    this.place.append(set);
    return set;
  }

  part(control) {
    const row = document.createElement("div");
    row.className = "control";
    const id = `set-${control.name}`;
    const label = document.createElement("label");
    label.htmlFor = id;
    label.innerHTML = control.symbol ? `${control.label} <i>${control.symbol}</i>` : control.label;
    const input = control.options ? this.choice(control) : this.slider(control);
    input.id = id;
    const value = document.createElement("output");
    value.setAttribute("aria-live", "off"); // the slider says its value itself
    value.htmlFor = id;
    row.append(label, value, input);
    this.parts[control.name] = { control, row, input, value };
    return row;
  }

  choice(control) {
    const select = document.createElement("select");
    for (const [value, words] of Object.entries(control.options)) select.add(new Option(words, value));
    select.addEventListener("change", () => this.onChange({ [control.name]: select.value }));
    return select;
  }

  slider(control) {
    const input = document.createElement("input");
    if (control.number) {
      Object.assign(input, { type: "number", min: 0, max: 4294967295, step: 1 });
      input.addEventListener("change", () => this.onChange({ [control.name]: Math.max(0, Math.floor(Number(input.value) || 0)) }));
      return input;
    }
    Object.assign(input, { type: "range", min: control.low, max: control.high, step: control.step });
    // The value in words follows at once; a new run starts when the slider rests.
    let timer;
    input.addEventListener("input", () => {
      const value = (control.from ?? Number)(Number(input.value));
      this.tell(control, value, { ...this.setting, [control.name]: value });
      clearTimeout(timer);
      timer = setTimeout(() => this.onChange({ [control.name]: value }), 120);
    });
    return input;
  }

  tell(control, value, setting) {
    const { input, value: output } = this.parts[control.name];
    output.textContent = control.words ? control.words(value, setting) : tell(value, 4);
    input.setAttribute("aria-valuetext", output.textContent);
  }

  show(setting) {
    this.setting = setting;
    for (const { control, row, input, value } of Object.values(this.parts)) {
      row.hidden = control.only ? !control.only(setting) : false;
      if (control.name === "positive") input.max = setting.k - 1;
      if (control.name === "cosine") input.min = Math.ceil((-95 / (setting.k - 1)) ) / 100;
      const current = setting[control.name];
      if (document.activeElement !== input || control.options) {
        input.value = control.options || control.number ? current : (control.to ?? Number)(current);
      }
      if (!control.options && !control.number) this.tell(control, current, setting);
      else value.textContent = "";
    }
  }
}
