// The averaging index: is a neuron the average of the features of its class?
//
// A weight is written in the basis of the features, so that features at any angle are told apart:
// w = sum_j a_j mu_j + rest. For a neuron of class s,
//
//   evenness = max(0, (PR - 1) / (|J_s| - 1)),  PR = (sum_{a_j > 0} a_j^2)^2 / sum_j a_j^4, j in J_s,
//   share    = |sum_j a_j mu_j|^2 / |w|^2,
//
// and the index is their product: 1 for the average, 0 for a single feature, near 0 for a weight
// that has next to nothing to do with the features.

import { Random } from "./random.js";

const DRAWS = 2000;

export function evenness(coefficients) {
  const largest = coefficients.reduce((top, a) => Math.max(top, Math.abs(a)), 0);
  if (!(largest > 0)) return 0;
  let positive = 0;
  let fourth = 0;
  for (const a of coefficients) {
    const square = (a / largest) ** 2;
    if (a > 0) positive += square;
    fourth += square * square;
  }
  return Math.max(0, (positive * positive) / fourth - 1) / (coefficients.length - 1);
}

function ofClass(values, labels, sign) {
  return values.filter((_, j) => labels[j] === sign);
}

// coefficients: count x k, the a_j up to a common factor; signs: the class of each weight; shares
// as above. { neurons, value, null }: NaN where a class has one feature only.
export function averagingIndex(task, coefficients, signs, shares) {
  const { k, labels } = task;
  const sizes = { 1: ofClass(labels, labels, 1).length, [-1]: ofClass(labels, labels, -1).length };
  const chance = nullEvenness(task);
  let [value, random, count] = [0, 0, 0];
  const neurons = Float64Array.from(signs, (sign, r) => {
    if (sizes[sign] < 2) return NaN;
    const own = ofClass(coefficients.subarray(r * k, (r + 1) * k), labels, sign);
    const index = evenness(own) * shares[r];
    value += index;
    random += chance[sign] * shares[r];
    count++;
    return index;
  });
  return { neurons, value: count ? value / count : NaN, null: count ? random / count : NaN };
}

// The evenness of directions without any preference, by a fixed sample; kept with the task, since
// it does not change while a network trains.
function nullEvenness(task) {
  if (task.nullEvenness) return task.nullEvenness;
  const { k, factor, labels } = task;
  const random = new Random(0, "averaging-index-null");
  const total = { 1: 0, [-1]: 0 };
  for (let draw = 0; draw < DRAWS; draw++) {
    // A random direction of the span, g, has the coefficients a with L^T a = g.
    const a = Float64Array.from({ length: k }, () => random.normal());
    for (let i = k - 1; i >= 0; i--) {
      for (let t = i + 1; t < k; t++) a[i] -= factor[t * k + i] * a[t];
      a[i] = factor[i * k + i] > 0 ? a[i] / factor[i * k + i] : 0;
    }
    for (const sign of [1, -1]) {
      const own = ofClass(a, labels, sign);
      if (own.length > 1) total[sign] += evenness(own) / DRAWS;
    }
  }
  task.nullEvenness = total;
  return total;
}
