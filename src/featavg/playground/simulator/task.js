// The multi-cluster distribution: k features, each the centre of a cluster of one of two classes.

import { cholesky } from "./vectors.js";

// setting: k, d, alpha, sigma, positive (how many of the clusters are positive), cosine.
// Only the Gram matrix of the features enters an l2 question, so the features are its Cholesky
// factor in k coordinates; orthogonal ones are sqrt(d) e_j.
export function makeTask(setting) {
  const { k, d, cosine } = setting;
  const gram = new Float64Array(k * k);
  for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) gram[i * k + j] = i === j ? d : d * cosine;
  const labels = new Int8Array(k);
  for (let j = 0; j < k; j++) labels[j] = j < setting.positive ? 1 : -1;
  return {
    k,
    d,
    alpha: setting.alpha,
    sigma: setting.sigma,
    cosine,
    gram,
    factor: cholesky(gram, k),
    labels,
    norm: Math.sqrt(d),
  };
}

// Radii of the theory for clusters without noise: averaged and decoupled.
// A pairwise cosine c leaves d (1 - c) of the squared length to tell features apart.
export function theoryRadii(task) {
  const free = task.alpha * Math.sqrt(task.d * (1 - task.cosine));
  return { averaged: free / Math.sqrt(task.k), decoupled: free / Math.sqrt(2) };
}
