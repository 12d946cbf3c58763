// What branch and bound asks of a flipped set {left_i(z) <= right_i(z) for all i}, both sides
// convex: affine functions above the right side in a box (chords), below it everywhere (tangents),
// and cuts below the left side. An affine function is { weights, constant, log }; `log` says that
// its logarithm is meant.

import { dot } from "../simulator/vectors.js";

// Slope and offset with relu(z) <= slope z + offset on [lo, hi], tight at both ends.
function reluChord(lo, hi) {
  if (hi <= 0) return [0, 0];
  if (lo >= 0) return [1, 0];
  const slope = hi / (hi - lo);
  return [slope, -lo * slope];
}

function linearised(rowWeights, shift, z) {
  return { weights: rowWeights.map((v, r) => (z[r] > 0 ? v : 0)), constant: shift };
}

// up_i . relu(z) + shift_i <= down_i . relu(z).
export class ReluRelaxation {
  constructor(family) {
    this.family = family;
    this.concave = family.concave;
  }

  above(box) {
    return this.family.down.map((down) => {
      const weights = new Float64Array(down.length);
      let constant = 0;
      for (const r of this.concave) {
        const [slope, offset] = reluChord(box.lo[r], box.hi[r]);
        weights[r] = down[r] * slope;
        constant += down[r] * offset;
      }
      return { weights, constant };
    });
  }

  below(z) {
    return this.family.down.map((down) => linearised(down, 0, z));
  }

  starts(z) {
    return [this.below(z), this.family.down.map((down) => ({ weights: Float64Array.from(down), constant: 0 }))];
  }

  // Rows that are <= 0 wherever left <= side, the tightest such at z.
  cuts(side, z) {
    return this.family.up.map((up, i) => {
      const left = linearised(up, this.family.shifts[i], z);
      return {
        weights: left.weights.map((v, r) => v - side[i].weights[r]),
        constant: left.constant - side[i].constant,
      };
    });
  }

  excess(z) {
    const on = z.map((v) => Math.max(v, 0));
    return Math.max(...this.family.up.map((up, i) => dot(up, on) + this.family.shifts[i] - dot(this.family.down[i], on)));
  }

  // The neuron whose chord lies highest above its ReLU, cut at the kink.
  split(box, z) {
    let best = null;
    for (const r of this.concave) {
      if (!(box.lo[r] < 0 && box.hi[r] > 0)) continue;
      const [slope, offset] = reluChord(box.lo[r], box.hi[r]);
      const weight = Math.max(...this.family.down.map((down) => down[r]));
      const gap = weight * (slope * z[r] + offset - Math.max(z[r], 0));
      if (!best || gap > best.gap) best = { r, at: 0, gap };
    }
    return best;
  }
}

// log sum over own outputs of exp f <= log sum over the rivals of exp f.
export class ProbabilityRelaxation {
  constructor(space, y, labels) {
    const { count, outputs, head, constant } = space;
    const outs = Array.from({ length: outputs }, (_, c) => ({
      row: head.slice(c * count, (c + 1) * count),
      shift: constant[c],
      members: [...Array(count).keys()].filter((r) => head[c * count + r] > 0),
    }));
    this.own = outs.filter((_, c) => labels[c] === y);
    this.rivals = outs.filter((_, c) => labels[c] !== y);
    this.count = count;
    this.separable = true; // exponentials of single neurons allow a second bound
    this.concave = this.rivals.flatMap((one) => one.members);
  }

  // A(z) / exp(top): for each rival the chord of exp over the range of its output, and in that
  // the chord of each ReLU. With one neuron a rival this is the chord of the composition itself.
  above(box) {
    const parts = this.rivals.map((one) => this.chord(one, box));
    const top = Math.max(...parts.map((one) => one.high));
    const weights = new Float64Array(this.count);
    let constant = 0;
    this.rivals.forEach((one, i) => {
      const { low, high } = parts[i];
      const bottom = Math.exp(low - top);
      const rise = high > low ? (Math.exp(high - top) - bottom) / (high - low) : Math.exp(high - top);
      constant += bottom - rise * (low - one.shift);
      for (const r of one.members) {
        const [slope, offset] = reluChord(box.lo[r], box.hi[r]);
        weights[r] += rise * one.row[r] * slope;
        constant += rise * one.row[r] * offset;
      }
    });
    return [{ weights, constant, log: true, top }];
  }

  chord(one, box) {
    let low = one.shift;
    let high = one.shift;
    for (const r of one.members) {
      low += one.row[r] * Math.max(box.lo[r], 0);
      high += one.row[r] * Math.max(box.hi[r], 0);
    }
    return { low, high };
  }

  below(z) {
    const { value, weights } = softMax(this.rivals, z, this.count);
    return [{ weights, constant: value - dot(weights, z) }];
  }

  // The tangent at z; each rival alone; all rivals alike (log sum exp >= log count + mean).
  starts(z) {
    const alone = this.rivals.map((one) => [{ weights: Float64Array.from(one.row), constant: one.shift }]);
    const alike = new Float64Array(this.count);
    let constant = Math.log(this.rivals.length);
    for (const one of this.rivals) {
      constant += one.shift / this.rivals.length;
      one.row.forEach((v, r) => (alike[r] += v / this.rivals.length));
    }
    return [this.below(z), [{ weights: alike, constant }], ...alone];
  }

  cuts([side], z) {
    const left = softMax(this.own, z, this.count);
    const leftConstant = left.value - dot(left.weights, z);
    if (!side.log) {
      return [{ weights: left.weights.map((v, r) => v - side.weights[r]), constant: leftConstant - side.constant }];
    }
    const value = dot(side.weights, z) + side.constant;
    // Where A is not positive its logarithm has no tangent: ask for A >= 0 first.
    if (!(value > 1e-290)) return [{ weights: side.weights.map((v) => -v), constant: -side.constant }];
    const right = side.weights.map((v) => v / value);
    const rightConstant = Math.log(value) + side.top - dot(right, z);
    return [{ weights: left.weights.map((v, r) => v - right[r]), constant: leftConstant - rightConstant }];
  }

  excess(z) {
    return softMax(this.own, z, this.count).value - softMax(this.rivals, z, this.count).value;
  }

  // The rival whose chord lies highest above its exponential, cut where it does: at ln(chord slope).
  split(box, z) {
    let best = null;
    const top = Math.max(...this.rivals.map((one) => this.chord(one, box).high));
    for (const one of this.rivals) {
      const { low, high } = this.chord(one, box);
      let here = one.shift;
      let line = one.shift;
      let widest = -1;
      for (const r of one.members) {
        const [slope, offset] = reluChord(box.lo[r], box.hi[r]);
        here += one.row[r] * Math.max(z[r], 0);
        line += one.row[r] * (slope * z[r] + offset);
        const width = box.hi[r] - box.lo[r];
        if (width > 1e-9 * (Math.abs(box.hi[r]) + 1e-9) && (widest < 0 || width > box.hi[widest] - box.lo[widest])) widest = r;
      }
      if (widest < 0 || !(high > low)) continue;
      const rise = (Math.exp(high - top) - Math.exp(low - top)) / (high - low);
      const gap = Math.exp(low - top) + rise * (line - low) - Math.exp(here - top);
      if (best && gap <= best.gap) continue;
      const turn = Math.log(rise) + top; // the output at which exp has the slope of the chord
      const [lo, hi] = [box.lo[widest], box.hi[widest]];
      const at = one.members.length === 1 ? (turn - one.shift) / one.row[widest] : lo < 0 && hi > 0 ? 0 : (lo + hi) / 2;
      const margin = 0.1 * (hi - lo);
      best = { r: widest, at: Math.min(Math.max(at, lo + margin), hi - margin), gap };
    }
    return best;
  }
}

// log sum exp of outputs that are sums of ReLUs, and its gradient by z.
function softMax(outputs, z, count) {
  const f = outputs.map((one) => one.members.reduce((s, r) => s + one.row[r] * Math.max(z[r], 0), one.shift));
  const top = Math.max(...f);
  const powers = f.map((v) => Math.exp(v - top));
  const total = powers.reduce((s, v) => s + v, 0);
  const weights = new Float64Array(count);
  outputs.forEach((one, i) => {
    for (const r of one.members) if (z[r] > 0) weights[r] = (one.row[r] * powers[i]) / total;
  });
  return { value: top + Math.log(total), weights };
}
