// What the weights point at: equivalent weights, their cosines with the features, and the weights
// in the basis of the features.

import { decisionOf, score } from "../robustness/readout.js";
import { averagingIndex } from "./averaging.js";
import { secondLayer } from "./networks.js";
import { cholesky, choleskySolve, norm, row, timesTransposed } from "./vectors.js";

// The class that each first-layer neuron speaks for.
export function neuronSigns(net, labels) {
  const signs = new Int8Array(net.neurons);
  for (let r = 0; r < net.neurons; r++) {
    signs[r] = net.labels === "coarse" ? (r < net.groupSize ? 1 : -1) : labels[Math.floor(r / net.groupSize)];
  }
  return signs;
}

// The neurons behind each of the k equivalent weights. The m neurons of a class of the coarse
// network are divided equally among the clusters of that class; fewer are shared in turn.
export function neuronGroups(net, labels) {
  const k = labels.length;
  if (net.labels === "fine") {
    return Array.from({ length: k }, (_, j) =>
      Array.from({ length: net.groupSize }, (_, r) => j * net.groupSize + r));
  }
  const groups = new Array(k);
  for (const sign of [1, -1]) {
    const first = sign > 0 ? 0 : net.groupSize;
    const neurons = Array.from({ length: net.groupSize }, (_, r) => first + r);
    const clusters = [...labels.keys()].filter((j) => labels[j] === sign);
    clusters.forEach((cluster, i) => {
      groups[cluster] = neurons.length >= clusters.length
        ? arraySplit(neurons, clusters.length)[i]
        : [neurons[i % neurons.length]];
    });
  }
  return groups;
}

// As numpy.array_split: the first parts get what is left over.
function arraySplit(items, parts) {
  const size = Math.floor(items.length / parts);
  const extra = items.length % parts;
  let from = 0;
  return Array.from({ length: parts }, (_, i) => {
    const to = from + size + (i < extra ? 1 : 0);
    const part = items.slice(from, to);
    from = to;
    return part;
  });
}

// The mean weight vector of each sub-network as combinations of first-layer weights, k x M. With
// three layers: the mean gradient of the decision over the points of each cluster.
export function equivalentCombinations(net, labels, z, clusters) {
  const k = labels.length;
  const { neurons } = net;
  const mix = new Float64Array(k * neurons);
  if (net.depth === 2) {
    neuronGroups(net, labels).forEach((group, j) => {
      for (const r of group) mix[j * neurons + r] = 1 / group.length;
    });
    return mix;
  }
  const counts = new Float64Array(k);
  const hidden = secondLayer(net, z, clusters.length);
  clusters.forEach((j, i) => {
    counts[j]++;
    const output = net.labels === "coarse" ? 0 : j;
    const sign = net.labels === "coarse" ? labels[j] : 1;
    for (let q = 0; q < neurons; q++) {
      if (!(hidden[i * neurons + q] >= 0)) continue;
      const slope = sign * net.head[output * neurons + q];
      for (let r = 0; r < neurons; r++) {
        if (z[i * neurons + r] >= 0) mix[j * neurons + r] += slope * net.middle[q * neurons + r];
      }
    }
  });
  for (let j = 0; j < k; j++) for (let r = 0; r < neurons; r++) mix[j * neurons + r] /= counts[j] || 1;
  return mix;
}

function combine(mix, count, weights, neurons, width) {
  const out = new Float64Array(count * width);
  for (let j = 0; j < count; j++) {
    for (let r = 0; r < neurons; r++) {
      const share = mix[j * neurons + r];
      if (share === 0) continue;
      for (let t = 0; t < width; t++) out[j * width + t] += share * weights[r * width + t];
    }
  }
  return out;
}

// The matrix of Figure 2: entry (i, j) is cos(mu_i, w_j). Zero vectors have no direction: 0.
export function cosineMatrix(features, k, vectors, count, width) {
  const products = timesTransposed(features, k, vectors, count, width);
  const lengths = Array.from({ length: count }, (_, j) => norm(row(vectors, width, j)));
  for (let i = 0; i < k; i++) {
    const length = norm(row(features, width, i));
    for (let j = 0; j < count; j++) {
      products[i * count + j] = lengths[j] > 0 && length > 0 ? products[i * count + j] / length / lengths[j] : 0;
    }
  }
  return products;
}

// Weights in the basis of the features: w = sum_j c_j mu_j / |mu_j|^2 + what is orthogonal to all
// of them. For orthogonal features c_j = <w, mu_j>.
export function basisCoefficients(task, products, count) {
  const { k, gram } = task;
  const lower = task.factor ?? cholesky(gram, k);
  const out = new Float64Array(count * k);
  for (let r = 0; r < count; r++) {
    const c = choleskySolve(lower, k, row(products, k, r));
    for (let j = 0; j < k; j++) out[r * k + j] = c[j] * gram[j * k + j];
  }
  return out;
}

// Everything the views show of one network, at its current weights.
export function measure(training) {
  const { net, data } = training;
  const { task, features, width } = data;
  const { k, labels } = task;
  const mix = equivalentCombinations(net, labels, training.z, data.clusters);
  const equivalent = combine(mix, k, net.weights, net.neurons, width);
  const cosines = cosineMatrix(features, k, equivalent, k, width);
  const neurons = inBasis(task, features, net.weights, net.neurons, width);
  const index = net.depth === 2
    ? averagingIndex(task, neurons.coefficients, neuronSigns(net, labels), neurons.shares)
    : effectiveIndex(task, features, equivalent, width);
  return {
    step: training.steps,
    logLoss: training.logLoss,
    diverged: training.diverged,
    accuracy: trainAccuracy(training),
    cosines,
    blocks: blockCosines(cosines, labels),
    products: neurons.products,
    coefficients: neurons.coefficients,
    shares: neurons.shares,
    index: index.value,
    indices: index.neurons,
    nullIndex: index.null,
    lambda: training.track?.lambda ?? null,
    // What the plane needs beside the products to decide any combination of features.
    biases: net.biases.slice(),
    head: net.head.slice(),
    middle: net.middle?.slice() ?? null,
    pooling: net.pooling,
    neurons: net.neurons,
  };
}

// Weights against the features: inner products, coefficients, and the share in their span.
function inBasis(task, features, weights, count, width) {
  const products = timesTransposed(weights, count, features, task.k, width);
  const coefficients = basisCoefficients(task, products, count);
  const lengths = Float64Array.from({ length: count }, (_, r) => norm(row(weights, width, r)));
  return { products, coefficients, shares: spanShares(products, coefficients, lengths, task, count) };
}

// Three layers have no neuron of one class: the effective weights of the clusters take their place.
function effectiveIndex(task, features, equivalent, width) {
  const { coefficients, shares } = inBasis(task, features, equivalent, task.k, width);
  return averagingIndex(task, coefficients, task.labels, shares);
}

// Mean cosine inside the classes (own feature apart) and across them.
export function blockCosines(cosines, labels) {
  const k = labels.length;
  const sums = { own: [0, 0], same: [0, 0], other: [0, 0] };
  for (let i = 0; i < k; i++) {
    for (let j = 0; j < k; j++) {
      const kind = i === j ? "own" : labels[i] === labels[j] ? "same" : "other";
      sums[kind][0] += cosines[i * k + j];
      sums[kind][1]++;
    }
  }
  const mean = ([total, count]) => (count ? total / count : NaN);
  return { own: mean(sums.own), same: mean(sums.same), other: mean(sums.other) };
}

// The share of a weight's squared length that lies in the span of the features.
function spanShares(products, coefficients, lengths, task, count) {
  const { k, gram } = task;
  return Float64Array.from({ length: count }, (_, r) => {
    let square = 0;
    for (let j = 0; j < k; j++) square += (coefficients[r * k + j] / gram[j * k + j]) * products[r * k + j];
    return lengths[r] > 0 ? Math.min(1, Math.max(0, square / lengths[r] ** 2)) : 0;
  });
}

// The share of training points whose class, or cluster, the network names.
function trainAccuracy(training) {
  const { net, outputs, targets, data } = training;
  const [signs, rule] = decisionOf(net, data.task.labels, "max");
  let right = 0;
  for (let i = 0; i < targets.length; i++) {
    const own = outputs.subarray(i * net.outputs, (i + 1) * net.outputs);
    const j = data.clusters[i];
    if (net.labels === "coarse") right += targets[i] * score(own, signs, rule) > 0;
    else right += own.every((v, other) => other === j || v < own[j]);
  }
  return right / targets.length;
}
