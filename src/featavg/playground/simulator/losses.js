// Losses kept as logarithms: 1e-881 is just -2028.6, and gradients stay normalised.

const FLAT = 40; // beyond this margin log(log(1 + exp(-q))) is -q to the last bit

function softplus(s) {
  return s > 0 ? s + Math.log1p(Math.exp(-s)) : Math.log1p(Math.exp(s));
}

export function logSumExp(values) {
  let top = -Infinity;
  for (let i = 0; i < values.length; i++) top = Math.max(top, values[i]);
  if (top === -Infinity) return top;
  let total = 0;
  for (let i = 0; i < values.length; i++) total += Math.exp(values[i] - top);
  return top + Math.log(total);
}

// outputs: n numbers; targets: -1 or +1. slopes: (dL/df) / L for each point.
export function logistic(outputs, targets) {
  const n = targets.length;
  const logLosses = new Float64Array(n);
  const logSlopes = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const q = targets[i] * outputs[i];
    const loss = softplus(-q);
    logLosses[i] = q > FLAT ? -q : Math.log(loss);
    logSlopes[i] = -(q + loss);
  }
  const logTotal = logSumExp(logLosses);
  const slopes = new Float64Array(n);
  for (let i = 0; i < n; i++) slopes[i] = -targets[i] * Math.exp(logSlopes[i] - logTotal);
  return { logMean: logTotal - Math.log(n), slopes };
}

// Neurons of a class compete: the logistic loss of y (s_+ - s_-), s the mean of the `count` largest of
// the m outputs of a class (1 is the maximum). On a tie the first of them count.
export function pooledLogistic(outputs, targets, m, count) {
  const n = targets.length;
  const winners = new Int32Array(2 * count * n);
  const scores = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    for (const side of [0, 1]) {
      const start = (2 * i + side) * m;
      const first = largest(outputs.subarray(start, start + m), count);
      first.forEach((r, q) => {
        winners[(2 * i + side) * count + q] = r;
        scores[i] += ((side ? -1 : 1) * outputs[start + r]) / count;
      });
    }
  }
  const { logMean, slopes: own } = logistic(scores, targets);
  const slopes = new Float64Array(2 * m * n);
  winners.forEach((r, at) => {
    const row = Math.floor(at / count); // point and side
    slopes[row * m + r] = ((row % 2 ? -1 : 1) * own[row >> 1]) / count;
  });
  return { logMean, slopes };
}

// The places of the `count` largest values, the first of equal ones first.
export function largest(values, count) {
  return Array.from(values.keys()).sort((a, b) => values[b] - values[a] || a - b).slice(0, count);
}

// Some points carry only their class: target c for -1 and c + 1 for +1, with the loss -log of the
// summed softmax of the outputs of that class. labels: the class of each output.
export function partialCrossEntropy(outputs, targets, c, labels) {
  const n = targets.length;
  const logLosses = new Float64Array(n);
  const missing = new Float64Array(n);
  const slopes = new Float64Array(n * c);
  for (let i = 0; i < n; i++) {
    const f = outputs.subarray(i * c, (i + 1) * c);
    const t = targets[i];
    const inside = (j) => (t < c ? j === t : labels[j] > 0 === t > c);
    const sums = [true, false].map((side) => {
      let top = -Infinity;
      f.forEach((v, j) => inside(j) === side && (top = Math.max(top, v)));
      let total = 0;
      f.forEach((v, j) => inside(j) === side && (total += Math.exp(v - top)));
      return top + Math.log(total);
    });
    const s = sums[1] - sums[0];
    const loss = softplus(s);
    logLosses[i] = s < -FLAT ? s : Math.log(loss);
    missing[i] = s - loss;
    f.forEach((v, j) => (slopes[i * c + j] = inside(j) ? -Math.exp(v - sums[0]) : Math.exp(v - sums[1])));
  }
  const logTotal = logSumExp(logLosses);
  for (let i = 0; i < n; i++) {
    const share = Math.exp(missing[i] - logTotal);
    for (let j = 0; j < c; j++) slopes[i * c + j] *= share;
  }
  return { logMean: logTotal - Math.log(n), slopes };
}

// outputs: n rows of c numbers; targets: the index of the right one. With
// s = log sum_{j != t} exp(f_j - f_t) the loss is softplus(s), long after the probability of t
// has rounded to 1.
export function crossEntropy(outputs, targets, c) {
  const n = targets.length;
  const logLosses = new Float64Array(n);
  const slopes = new Float64Array(n * c);
  const missing = new Float64Array(n);
  for (let i = 0; i < n; i++) {
    const start = i * c;
    const t = targets[i];
    const own = outputs[start + t];
    let top = -Infinity;
    for (let j = 0; j < c; j++) if (j !== t) top = Math.max(top, outputs[start + j] - own);
    let total = 0;
    for (let j = 0; j < c; j++) {
      if (j === t) continue;
      const share = Math.exp(outputs[start + j] - own - top);
      slopes[start + j] = share;
      total += share;
    }
    const s = top + Math.log(total);
    const loss = softplus(s);
    logLosses[i] = s < -FLAT ? s : Math.log(loss);
    missing[i] = s - loss;
    for (let j = 0; j < c; j++) slopes[start + j] /= total;
  }
  const logTotal = logSumExp(logLosses);
  for (let i = 0; i < n; i++) {
    const start = i * c;
    const share = Math.exp(missing[i] - logTotal);
    for (let j = 0; j < c; j++) slopes[start + j] *= share;
    slopes[start + targets[i]] = -share;
  }
  return { logMean: logTotal - Math.log(n), slopes };
}
