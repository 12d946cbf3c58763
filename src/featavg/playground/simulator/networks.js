// The networks: weights in layers, a head, and which of these arrays are trained.
//
// Two layers: F(x) = head relu(W x + b), the head fixed. Coarse labels: one output, head +1/m for
// the first m neurons and -1/m for the rest (Definition 2.2). Fine labels: output j averages the h
// neurons of group j, no biases. Neurons that compete (a pooling other than the mean, coarse labels) are an
// output each, without biases. Three layers: one more layer of ReLUs between, no biases, all trained.

import { Random } from "./random.js";

export function neuronCount(setting, labels) {
  return labels === "coarse" ? 2 * setting.m : setting.k * setting.h;
}

export function competes(setting, labels) {
  return labels === "coarse" && setting.pooling !== undefined && setting.pooling !== "mean";
}

export function fixedHead(setting, labels) {
  const neurons = neuronCount(setting, labels);
  if (competes(setting, labels)) {
    const head = new Float64Array(neurons * neurons);
    for (let r = 0; r < neurons; r++) head[r * neurons + r] = 1;
    return head;
  }
  if (labels === "coarse") {
    return Float64Array.from({ length: neurons }, (_, r) => (r < setting.m ? 1 : -1) / setting.m);
  }
  const { k, h } = setting;
  const head = new Float64Array(k * neurons);
  for (let j = 0; j < k; j++) for (let r = 0; r < h; r++) head[j * neurons + j * h + r] = 1 / h;
  return head;
}

// `unitWeights` are the standard normal directions that belong to this network.
export function initialNetwork(setting, labels, unitWeights, width, seed) {
  const neurons = neuronCount(setting, labels);
  const weights = Float64Array.from(unitWeights, (v) => setting.sigma_w * v);
  const biases = new Float64Array(neurons);
  const random = new Random(seed, `${labels}-rest`);
  const pooled = competes(setting, labels);
  if (labels === "coarse" && setting.depth === 2 && !pooled) {
    for (let r = 0; r < neurons; r++) biases[r] = setting.sigma_w * random.normal();
  }
  const net = {
    labels,
    depth: setting.depth,
    neurons,
    width,
    outputs: pooled ? neurons : labels === "coarse" ? 1 : setting.k,
    pooling: pooled ? setting.pooling : "mean",
    weights,
    biases,
    head: fixedHead(setting, labels),
    middle: null,
    groupSize: labels === "coarse" ? setting.m : setting.h,
  };
  if (setting.depth === 3) {
    // He's scale: the new layer passes signals on at their size.
    const scale = Math.sqrt(2 / neurons);
    net.middle = Float64Array.from({ length: neurons * neurons }, () => scale * random.normal());
  }
  return net;
}

// The arrays that training moves, in the order of the gradients.
export function trainable(net) {
  if (net.depth === 3) return [net.weights, net.middle, net.head];
  return hasBiases(net) ? [net.weights, net.biases] : [net.weights];
}

export function hasBiases(net) {
  return net.labels === "coarse" && net.outputs === 1;
}

// Outputs from first-layer pre-activations (biases included), for `n` points.
export function outputsFrom(net, z, n) {
  const { neurons, outputs, head } = net;
  const hidden = net.depth === 3 ? secondLayer(net, z, n) : z;
  const out = new Float64Array(n * outputs);
  for (let i = 0; i < n; i++) {
    for (let c = 0; c < outputs; c++) {
      let total = 0;
      for (let r = 0; r < neurons; r++) {
        const value = hidden[i * neurons + r];
        if (value > 0) total += head[c * neurons + r] * value;
      }
      out[i * outputs + c] = total;
    }
  }
  return out;
}

export function secondLayer(net, z, n) {
  const { neurons, middle } = net;
  const out = new Float64Array(n * neurons);
  for (let i = 0; i < n; i++) {
    for (let q = 0; q < neurons; q++) {
      let total = 0;
      for (let r = 0; r < neurons; r++) {
        const value = z[i * neurons + r];
        if (value > 0) total += middle[q * neurons + r] * value;
      }
      out[i * neurons + q] = total;
    }
  }
  return out;
}

export function addBiases(z, biases, n) {
  const neurons = biases.length;
  for (let i = 0; i < n; i++) for (let r = 0; r < neurons; r++) z[i * neurons + r] += biases[r];
  return z;
}
