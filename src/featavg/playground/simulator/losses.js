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
