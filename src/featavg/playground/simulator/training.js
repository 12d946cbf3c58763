// One network on its training set: loss, closed-form gradient, steps, and what the weights are
// made of. The indicator of a ReLU is 1[z >= 0], as in the paper.

import { pooled } from "../robustness/readout.js";
import { crossEntropy, logistic, partialCrossEntropy, pooledLogistic } from "./losses.js";
import { addBiases, hasBiases, outputsFrom, secondLayer, trainable } from "./networks.js";
import { gathered, preactivations } from "./products.js";
import { MOMENTUM, keepsRotations, makeStepper } from "./steppers.js";

export class Training {
  // data: x, n, width, lengths, clusters, task. stepper: a name; lr: the learning rate. fine: what the
  // network with fine labels is told of each point, its cluster by default.
  constructor(net, data, stepper, lr, fine = data.clusters) {
    this.net = net;
    this.data = data;
    this.stepperName = stepper;
    this.stepper = makeStepper(stepper);
    this.logRate = Math.log(lr);
    this.steps = 0;
    this.diverged = false;
    this.targets =
      net.labels === "coarse"
        ? Int8Array.from(data.clusters, (j) => data.task.labels[j])
        : fine;
    this.partly = net.labels === "fine" && this.targets.some((t) => t >= net.outputs);
    this.track = keepsRotations(stepper) && net.depth === 2 ? new SampleShares(net, data) : null;
    this.evaluate();
  }

  // Forward pass now; the backward pass happens in `step`.
  evaluate() {
    const { net, data } = this;
    const z = preactivations(data.x, data.n, data.width, data.lengths, net.weights, net.neurons);
    this.z = addBiases(z, net.biases, data.n);
    const outputs = outputsFrom(net, this.z, data.n);
    this.outputs = outputs;
    this.loss = this.lossOf(outputs);
  }

  lossOf(outputs) {
    const { net, data, targets } = this;
    if (net.labels === "coarse") {
      return net.outputs === 1 ? logistic(outputs, targets) : pooledLogistic(outputs, targets, net.groupSize, pooled(net.pooling));
    }
    return this.partly
      ? partialCrossEntropy(outputs, targets, net.outputs, data.task.labels)
      : crossEntropy(outputs, targets, net.outputs);
  }

  get logLoss() {
    return this.loss.logMean;
  }

  step() {
    if (this.diverged) return;
    const slopes = neuronSlopes(this.net, this.z, this.loss.slopes, this.data.n);
    const gradients = this.gradients(slopes);
    this.track?.see(slopes.first, Math.exp(this.logRate + this.logLoss), this.stepperName);
    this.stepper(trainable(this.net), gradients, this.logRate, this.logLoss);
    this.steps++;
    this.evaluate();
    if (!Number.isFinite(this.logLoss) || this.logLoss > 700) this.diverged = true;
  }

  gradients(slopes) {
    const { net, data } = this;
    const { n, width, lengths } = data;
    const first = gathered(slopes.first, data.x, n, width, lengths, net.neurons);
    if (net.depth === 3) {
      return [first, outer(slopes.second, net.neurons, relu(this.z), net.neurons, n),
        outer(this.loss.slopes, net.outputs, relu(slopes.hidden), net.neurons, n)];
    }
    return hasBiases(net) ? [first, columnSums(slopes.first, n, net.neurons)] : [first];
  }
}

// (dL/dz) / L by the pre-activations of each layer.
function neuronSlopes(net, z, outputSlopes, n) {
  const { neurons, outputs, head } = net;
  const hidden = net.depth === 3 ? secondLayer(net, z, n) : z;
  const top = new Float64Array(n * neurons);
  for (let i = 0; i < n; i++) {
    for (let r = 0; r < neurons; r++) {
      if (!(hidden[i * neurons + r] >= 0)) continue;
      let total = 0;
      for (let c = 0; c < outputs; c++) total += outputSlopes[i * outputs + c] * head[c * neurons + r];
      top[i * neurons + r] = total;
    }
  }
  if (net.depth === 2) return { first: top };
  const first = new Float64Array(n * neurons);
  for (let i = 0; i < n; i++) {
    for (let r = 0; r < neurons; r++) {
      if (!(z[i * neurons + r] >= 0)) continue;
      let total = 0;
      for (let q = 0; q < neurons; q++) total += top[i * neurons + q] * net.middle[q * neurons + r];
      first[i * neurons + r] = total;
    }
  }
  return { first, second: top, hidden };
}

function relu(values) {
  return values.map((v) => (v > 0 ? v : 0));
}

// sum_i a_i b_i^T of two lists of n rows.
function outer(a, aWidth, b, bWidth, n) {
  const out = new Float64Array(aWidth * bWidth);
  for (let i = 0; i < n; i++) {
    for (let p = 0; p < aWidth; p++) {
      const value = a[i * aWidth + p];
      if (value === 0) continue;
      for (let q = 0; q < bWidth; q++) out[p * bWidth + q] += value * b[i * bWidth + q];
    }
  }
  return out;
}

function columnSums(values, n, width) {
  const out = new Float64Array(width);
  for (let i = 0; i < n; i++) for (let r = 0; r < width; r++) out[r] += values[i * width + r];
  return out;
}

// Lemma 1 step by step. Whatever gradient descent (with or without momentum) adds to a weight is a
// combination of training points, w_r = w_r(0) + sum_i share_{r,i} x_i, and x_i = alpha mu + noise:
// so lambda_{r,j} = alpha |mu_j|^2 sum_{i in cluster j} share_{r,i}, a product with the squared
// norm.
class SampleShares {
  constructor(net, data) {
    this.data = data;
    this.neurons = net.neurons;
    this.shares = new Float64Array(data.n * net.neurons);
    this.updates = new Float64Array(data.n * net.neurons);
  }

  see(slopes, factor, stepper) {
    const keep = stepper === "momentum" ? MOMENTUM : 0;
    for (let q = 0; q < slopes.length; q++) {
      this.updates[q] = keep * this.updates[q] - factor * slopes[q];
      this.shares[q] += this.updates[q];
    }
  }

  // lambda, neurons x k.
  get lambda() {
    const { data, neurons } = this;
    const { task } = data;
    const out = new Float64Array(neurons * task.k);
    for (let i = 0; i < data.n; i++) {
      const j = data.clusters[i];
      const scale = task.alpha * task.gram[j * task.k + j];
      for (let r = 0; r < neurons; r++) out[r * task.k + j] += scale * this.shares[i * neurons + r];
    }
    return out;
  }
}
