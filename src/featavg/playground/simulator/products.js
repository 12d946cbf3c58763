// The two matrix products that training consists of, written for triangular rows and few neurons.

// Z = X W^T: the pre-activations of M neurons on n points. Four neurons share one pass over a
// row, since reading X from memory is what costs.
export function preactivations(x, n, width, lengths, weights, neurons) {
  const z = new Float64Array(n * neurons);
  for (let i = 0; i < n; i++) {
    const start = i * width;
    const length = lengths ? lengths[i] : width;
    let r = 0;
    for (; r + 4 <= neurons; r += 4) {
      const w0 = r * width;
      const w1 = w0 + width;
      const w2 = w1 + width;
      const w3 = w2 + width;
      let s0 = 0;
      let s1 = 0;
      let s2 = 0;
      let s3 = 0;
      for (let t = 0; t < length; t++) {
        const value = x[start + t];
        s0 += value * weights[w0 + t];
        s1 += value * weights[w1 + t];
        s2 += value * weights[w2 + t];
        s3 += value * weights[w3 + t];
      }
      const at = i * neurons + r;
      z[at] = s0;
      z[at + 1] = s1;
      z[at + 2] = s2;
      z[at + 3] = s3;
    }
    for (; r < neurons; r++) {
      const w = r * width;
      let s = 0;
      for (let t = 0; t < length; t++) s += x[start + t] * weights[w + t];
      z[i * neurons + r] = s;
    }
  }
  return z;
}

// G = D^T X: the sum of points, weighted by the slope that each neuron has on each. Four points
// stay in the nearest cache while all neurons pass by; where a neuron is off on all four it costs
// nothing.
export function gathered(slopes, x, n, width, lengths, neurons) {
  const out = new Float64Array(neurons * width);
  let i = 0;
  for (; i + 4 <= n; i += 4) {
    const x0 = i * width;
    const x1 = x0 + width;
    const x2 = x1 + width;
    const x3 = x2 + width;
    const length = lengths
      ? Math.max(lengths[i], lengths[i + 1], lengths[i + 2], lengths[i + 3])
      : width;
    for (let r = 0; r < neurons; r++) {
      const at = i * neurons + r;
      const s0 = slopes[at];
      const s1 = slopes[at + neurons];
      const s2 = slopes[at + 2 * neurons];
      const s3 = slopes[at + 3 * neurons];
      if (s0 === 0 && s1 === 0 && s2 === 0 && s3 === 0) continue;
      const g = r * width;
      for (let t = 0; t < length; t++) {
        out[g + t] += s0 * x[x0 + t] + s1 * x[x1 + t] + s2 * x[x2 + t] + s3 * x[x3 + t];
      }
    }
  }
  for (; i < n; i++) {
    const length = lengths ? lengths[i] : width;
    for (let r = 0; r < neurons; r++) {
      const s = slopes[i * neurons + r];
      if (s === 0) continue;
      for (let t = 0; t < length; t++) out[r * width + t] += s * x[i * width + t];
    }
  }
  return out;
}
