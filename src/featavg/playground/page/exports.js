// Numbers as JSON, views as SVG and PNG, text to the clipboard.

import { simulated, toAddress } from "./setting.js";

export function numbers(experiment, version) {
  const list = (array) => (array ? Array.from(array, (v) => (Number.isFinite(v) ? v : String(v))) : null);
  const network = (one) => ({
    log_loss: one.logLoss, accuracy: one.accuracy, averaging_index: finite(one.index), null_index: finite(one.nullIndex),
    cosines: list(one.cosines), coefficients: list(one.coefficients), lambda: list(one.lambda), share_in_span: list(one.shares),
  });
  const { record, curve, setting } = experiment;
  return {
    made_by: `featavg ${version}, playground`,
    address: toAddress({ ...setting, step: record?.step ?? null }),
    setting: { ...simulated(setting), readout: setting.readout },
    step: record?.step ?? null,
    coarse: record && network(record.coarse),
    fine: record && network(record.fine),
    radii: curve && {
      step: curve.step, readout: curve.readout, norm: "l2",
      ...Object.fromEntries(Object.entries(curve.radii).map(([labels, r]) => [labels, { certified: list(r.certified), attack: list(r.attack) }])),
    },
    history: experiment.records.map((one) => ({
      step: one.step,
      ...Object.fromEntries(["coarse", "fine"].map((l) => [l, { log_loss: one[l].logLoss, averaging_index: finite(one[l].index) }])),
    })),
  };
}

function finite(value) {
  return Number.isFinite(value) ? value : null;
}

const STYLES = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "fill-opacity",
  "stroke-opacity", "font-size", "font-weight", "font-family", "display",
];

// A view that stands alone: its own background, and every style it has on the page written out.
export function standalone(root) {
  const copy = root.cloneNode(true);
  const sources = [root, ...root.querySelectorAll("*")];
  const copies = [copy, ...copy.querySelectorAll("*")];
  sources.forEach((node, i) => {
    const style = getComputedStyle(node);
    copies[i].setAttribute("style", STYLES.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["tabindex", "class"]) copies[i].removeAttribute(name);
  });
  const [, , width, height] = root.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const ground = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [key, value] of Object.entries({ width, height, fill: ground })) back.setAttribute(key, value);
  copy.prepend(back);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

export function saveSvg(root, name) {
  save(new Blob([standalone(root).text], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(root, name) {
  save(await pngOf(root), `${name}.png`);
}

// Three pixels for each unit: sharp on a slide.
export async function pngOf(root, scale = 3) {
  const { text, width, height } = standalone(root);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a busy machine is slow to take it
}

// The clipboard is not always open to a file; a selected text field then does the copying.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "hide";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
