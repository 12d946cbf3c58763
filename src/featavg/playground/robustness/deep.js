// Three layers: a bracket for the radius. Below, a bound that needs no search; above, an attack.
//
// In the ball |u| <= r every ReLU lies between two lines. Going back from the decision through
// both layers, each ReLU is replaced by the line that makes the decision smaller, and what is left
// is affine in u: its least value over the ball has a closed form. The largest r at which it is
// positive is certified, and found by bisection.

import { dot, norm } from "../simulator/vectors.js";
import { score } from "./readout.js";
import { direction, lifted, moved, preactivation, reduce } from "./subspace.js";

const HALVINGS = 24;
const ROUNDS = 8;

export class DeepBracket {
  constructor(net, labels, readout) {
    this.space = reduce(net);
    this.labels = labels;
    this.readout = readout;
    this.outputs = net.outputs;
    this.hidden = net.neurons;
    const { alive, norms, count } = this.space;
    // Rows of the first layer have length one here; their norms go into the second layer.
    this.middle = Array.from({ length: net.neurons }, (_, q) =>
      Float64Array.from({ length: count }, (_, r) => net.middle[q * net.neurons + alive[r]] * norms[r]));
    this.head = Array.from({ length: net.outputs }, (_, c) => net.head.slice(c * net.neurons, (c + 1) * net.neurons));
  }

  forward(z) {
    const first = z.map((v) => Math.max(v, 0));
    const second = Float64Array.from(this.middle, (weights) => dot(weights, first));
    const on = second.map((v) => Math.max(v, 0));
    return { second, outputs: Float64Array.from(this.head, (weights) => dot(weights, on)) };
  }

  at(x, y) {
    const z = preactivation(this.space, x);
    const { outputs } = this.forward(z);
    if (!(y * score(outputs, this.labels, this.readout) > 0)) {
      return { certified: 0, attack: 0, move: new Float64Array(this.space.width), right: false };
    }
    const best = this.attack(z, y, norm(x));
    const certified = this.certify(z, y, outputs, Math.min(best.length, 10 * norm(x)));
    return {
      certified: Math.min(certified, best.length),
      attack: best.length,
      move: best.u ? lifted(this.space, best.u) : null,
      right: true,
    };
  }

  // The combinations of outputs that must stay positive, and what they must exceed.
  decisions(y, outputs) {
    if (this.outputs === 1) return [{ weights: Float64Array.of(y), slack: 0 }];
    const sign = Float64Array.from(this.labels, (label) => (label === y ? 1 : -1));
    if (this.readout === "sum") return [{ weights: sign, slack: 0 }];
    let own = -1;
    outputs.forEach((f, c) => {
      if (sign[c] > 0 && (own < 0 || f > outputs[own])) own = c;
    });
    const rivals = [...sign.keys()].filter((c) => sign[c] < 0);
    // log sum_V exp f <= log |V| + max_V f, and the own side is at least its best output.
    const slack = this.readout === "probability" ? Math.log(rivals.length) : 0;
    return rivals.map((j) => {
      const weights = new Float64Array(this.outputs);
      weights[own] = 1;
      weights[j] = -1;
      return { weights, slack };
    });
  }

  certify(z, y, outputs, highest) {
    const decisions = this.decisions(y, outputs).map(({ weights, slack }) => ({
      slack,
      top: Float64Array.from({ length: this.hidden }, (_, q) =>
        weights.reduce((s, w, c) => s + w * this.head[c][q], 0)),
    }));
    const holds = (r) => {
      const bounds = this.secondBounds(z, r);
      return decisions.every(({ top, slack }) => this.least(z, r, top, bounds) > slack);
    };
    let [low, high] = [0, highest];
    for (let step = 0; step < HALVINGS; step++) {
      const middle = (low + high) / 2;
      if (holds(middle)) low = middle;
      else high = middle;
    }
    return low;
  }

  secondBounds(z, r) {
    return this.middle.map((weights) => ({
      lo: this.affineLeast(z, r, weights),
      hi: -this.affineLeast(z, r, weights.map((v) => -v)),
    }));
  }

  // The least value of sum_q top_q relu(z2_q) that the lines allow.
  least(z, r, top, bounds) {
    const weights = new Float64Array(z.length);
    let constant = 0;
    top.forEach((share, q) => {
      const { lo, hi } = bounds[q];
      const [slope, offset] = line(lo, hi, share > 0);
      constant += share * offset;
      for (let t = 0; t < weights.length; t++) weights[t] += share * slope * this.middle[q][t];
    });
    return this.affineLeast(z, r, weights) + constant;
  }

  // The least value of sum_t weights_t relu(z_t) over the ball, by lines.
  affineLeast(z, r, weights) {
    let constant = 0;
    const slopes = weights.map((share, t) => {
      const [slope, offset] = line(z[t] - r, z[t] + r, share > 0);
      constant += share * offset;
      return share * slope;
    });
    return dot(slopes, z) + constant - r * norm(direction(this.space, slopes));
  }

  attack(z, y, reach) {
    const value = (u) => y * score(this.forward(moved(this.space, z, u)).outputs, this.labels, this.readout);
    let best = { length: Infinity, u: null };
    const keep = (u) => {
      const length = norm(u);
      if (length < best.length && value(u) <= 0) best = { length, u };
    };
    const starts = [this.gradient(z, y)];
    for (let r = 0; r < this.space.count; r++) {
      starts.push(Float64Array.from(this.space.rows[r]), this.space.rows[r].map((v) => -v));
    }
    for (const start of starts) {
      const size = norm(start);
      if (!(size > 0)) continue;
      let u = crossing(start.map((v) => -v / size), value, 20 * reach);
      for (let round = 0; u && round < ROUNDS; round++) {
        keep(u);
        // The nearest point of the boundary as it looks from u, then back onto the true one.
        const g = this.gradient(moved(this.space, z, u), y);
        const square = dot(g, g);
        if (!(square > 0)) break;
        const share = (dot(g, u) - value(u)) / square;
        const next = g.map((v) => share * v);
        const length = norm(next);
        if (!(length > 0) || Math.abs(length - norm(u)) < 1e-9 * length) break;
        u = crossing(next.map((v) => v / length), value, Math.min(4 * length, 20 * reach));
      }
    }
    return best;
  }

  // The gradient of y * score by u.
  gradient(z, y) {
    const { second, outputs } = this.forward(z);
    const step = 1e-6;
    const base = score(outputs, this.labels, this.readout);
    const byOutput = outputs.map((_, c) => {
      const other = Float64Array.from(outputs);
      other[c] += step;
      return (score(other, this.labels, this.readout) - base) / step;
    });
    const slopes = new Float64Array(z.length);
    second.forEach((value, q) => {
      if (!(value > 0)) return;
      const share = byOutput.reduce((s, w, c) => s + w * this.head[c][q], 0);
      for (let t = 0; t < z.length; t++) if (z[t] > 0) slopes[t] += share * this.middle[q][t];
    });
    return direction(this.space, slopes).map((v) => y * v);
  }
}

// The line above ReLU (a chord) or below it (0 or z) on [lo, hi].
function line(lo, hi, below) {
  if (hi <= 0) return [0, 0];
  if (lo >= 0) return [1, 0];
  if (below) return [hi > -lo ? 1 : 0, 0];
  const slope = hi / (hi - lo);
  return [slope, -lo * slope];
}

// The first flip that doubling and halving find along a ray, just beyond the boundary.
function crossing(way, value, farthest) {
  const at = (t) => way.map((v) => v * t);
  let high = farthest / 256;
  while (value(at(high)) > 0) {
    high *= 2;
    if (high > farthest) return null;
  }
  let low = 0;
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (value(at(middle)) > 0) low = middle;
    else high = middle;
  }
  return at(high);
}
