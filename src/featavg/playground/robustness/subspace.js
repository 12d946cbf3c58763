// A two-layer network as the exact radius sees it: unit rows in as few coordinates as neurons.
//
// F(x + Q^T u) = head relu(z + rows u) + constant, z = normals x + offsets. Only the span of the
// weights matters: a move orthogonal to every weight changes nothing and costs length. Since
// relu(c t) = c relu(t), each row is scaled to length one and its norm goes into the head.

import { norm, orthonormalRows, row } from "../simulator/vectors.js";

export function reduce(net) {
  const { neurons, width, outputs } = net;
  const alive = [];
  const norms = [];
  const constant = new Float64Array(outputs);
  for (let r = 0; r < neurons; r++) {
    const length = norm(row(net.weights, width, r));
    if (length > 0) {
      alive.push(r);
      norms.push(length);
    } else if (net.biases[r] > 0) {
      for (let c = 0; c < outputs; c++) constant[c] += net.head[c * neurons + r] * net.biases[r];
    }
  }
  const count = alive.length;
  const normals = new Float64Array(count * width);
  alive.forEach((r, i) => {
    for (let t = 0; t < width; t++) normals[i * width + t] = net.weights[r * width + t] / norms[i];
  });
  const { q, t } = orthonormalRows(normals, count, width);
  const head = new Float64Array(outputs * count);
  for (let c = 0; c < outputs; c++) {
    alive.forEach((r, i) => (head[c * count + i] = net.head[c * neurons + r] * norms[i]));
  }
  return {
    count,
    width,
    outputs,
    alive,
    norms,
    normals,
    offsets: Float64Array.from(alive, (r, i) => net.biases[r] / norms[i]),
    rows: Array.from({ length: count }, (_, i) => t.slice(i * count, (i + 1) * count)),
    basis: q,
    head,
    constant,
  };
}

// z = normals x + offsets at one point.
export function preactivation(space, x) {
  const z = new Float64Array(space.count);
  for (let r = 0; r < space.count; r++) {
    let total = space.offsets[r];
    const start = r * space.width;
    for (let t = 0; t < space.width; t++) total += space.normals[start + t] * x[t];
    z[r] = total;
  }
  return z;
}

// z + rows u.
export function moved(space, z, u) {
  const out = Float64Array.from(z);
  for (let r = 0; r < space.count; r++) {
    const a = space.rows[r];
    for (let t = 0; t <= r; t++) out[r] += a[t] * u[t]; // lower triangular
  }
  return out;
}

// sum_r weights_r rows_r: a combination of neurons as a direction in u.
export function direction(space, weights) {
  const out = new Float64Array(space.count);
  for (let r = 0; r < space.count; r++) {
    const share = weights[r];
    if (share === 0) continue;
    const a = space.rows[r];
    for (let t = 0; t <= r; t++) out[t] += share * a[t];
  }
  return out;
}

// The step u in the coordinates of the points.
export function lifted(space, u) {
  const out = new Float64Array(space.width);
  for (let r = 0; r < space.count; r++) {
    if (u[r] === 0) continue;
    for (let t = 0; t < space.width; t++) out[t] += u[r] * space.basis[r * space.width + t];
  }
  return out;
}

export function outputsAt(space, z) {
  const f = Float64Array.from(space.constant);
  for (let c = 0; c < space.outputs; c++) {
    for (let r = 0; r < space.count; r++) if (z[r] > 0) f[c] += space.head[c * space.count + r] * z[r];
  }
  return f;
}
