// The page's workers: one trains, one measures radii. Both are started from this same text, so
// that a single file holds everything; the first message says which one this is.

import { LABELS, prepare } from "../simulator/laboratory.js";
import { measure } from "../simulator/measures.js";
import { RadiusDesk } from "./radius_desk.js";

let lab = null;

function record() {
  return Object.fromEntries(LABELS.map((labels) => [labels, measure(lab.runs[labels])]));
}

function plainNet(labels) {
  const { net } = lab.runs[labels];
  const { depth, neurons, width, outputs, groupSize, pooling } = net;
  return {
    labels, depth, neurons, width, outputs, groupSize, pooling, weights: net.weights.slice(),
    biases: net.biases.slice(), head: net.head.slice(), middle: net.middle?.slice() ?? null,
  };
}

const trainer = {
  reset({ setting }) {
    lab = prepare(setting);
    const { task, training, test } = lab;
    return {
      kind: "start",
      compressed: training.compressed,
      width: training.width,
      // Test points as the plane shows them: their inner products with the features.
      shadows: shadows(test, training.features, task.k),
      clusters: test.clusters,
      nets: Object.fromEntries(LABELS.map((labels) => [labels, plainNet(labels)])),
      record: record(),
    };
  },

  // Steps until `until` or until the time is used up, whichever comes first.
  advance({ until, budget, wantsNets }) {
    const start = performance.now();
    let taken = 0;
    while (lab.runs.coarse.steps < until && (taken === 0 || performance.now() - start < budget)) {
      for (const labels of LABELS) {
        if (!lab.runs[labels].diverged) lab.runs[labels].step();
        else lab.runs[labels].steps++;
      }
      taken++;
    }
    return {
      kind: "record",
      record: record(),
      nets: wantsNets ? Object.fromEntries(LABELS.map((labels) => [labels, plainNet(labels)])) : null,
    };
  },
};

function shadows(test, features, k) {
  const { n, width, x } = test;
  const out = new Float64Array(n * k);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < k; j++) {
      let total = 0;
      for (let t = 0; t < width; t++) total += x[i * width + t] * features[j * width + t];
      out[i * k + j] = total;
    }
  }
  return out;
}

const desk = new RadiusDesk((answer) => postMessage(answer));

onmessage = ({ data }) => {
  const { id, kind } = data;
  try {
    if (kind in trainer) postMessage({ id, ...trainer[kind](data) });
    else desk.take(data);
  } catch (error) {
    postMessage({ id, kind: "trouble", sentence: String(error.message ?? error) });
  }
};
