// The exact l2 radius by listing convex pieces, the most promising first.
//
// A sum of ReLUs is the maximum over subsets S of neurons of the sums over S without ReLUs. So the
// flipped set is the union over S of the convex sets {up . relu(z) + shift <= down . z_S}: 2^m of
// them where the activation regions are 2^(2m). Each is found by cutting planes: up . relu(z) is
// at least its part over any subset T, and T is chosen active at the last solution.

import { dot, norm } from "../simulator/vectors.js";
import { nearest } from "./nearest.js";
import { direction, moved } from "./subspace.js";

const SATISFIED = 1e-11;
const SAME = 1e-12;

export class PieceSearch {
  constructor(space, families) {
    this.space = space;
    this.families = families;
    this.leaves = families.flatMap((one, f) => subsets(one.concave).map((subset) => leaf(space, one, f, subset)));
  }

  // From the pre-activations z: { certified, attack, u (or null), programs, finished }.
  at(z, budget = Infinity) {
    this.z = z;
    const found = { certified: 0, attack: Infinity, u: null, programs: 0, finished: true };
    for (const one of this.leaves) {
      one.values = one.down.map((weights) => dot(weights, z));
      one.bound = 0;
      one.settled = false;
    }
    this.cuts = this.families.map((_, f) => this.firstCuts(f));
    this.leaves.forEach((one) => this.raise(one, this.cuts[one.family]));
    for (;;) {
      let best = null;
      for (const one of this.leaves) if (!one.settled && (!best || one.bound < best.bound)) best = one;
      if (!best || best.bound >= found.attack * (1 - SAME)) break;
      if (found.programs >= budget) {
        found.finished = false;
        break;
      }
      this.solve(best, found);
    }
    found.certified = Math.min(found.attack, ...this.leaves.map((one) => one.bound));
    return found;
  }

  // The cuts of the pattern at the point itself.
  firstCuts(f) {
    const cuts = [];
    const known = new Set();
    this.families[f].up.forEach((_, i) => this.addCut(f, i, this.z, cuts, known));
    cuts.known = known;
    return cuts;
  }

  // up_i over the neurons that are on at `at`, as a slope in u and a value at z.
  addCut(f, i, at, cuts, known) {
    const key = `${i}:${at.map((v) => (v > 0 ? 1 : 0)).join("")}`;
    if (known.has(key)) return false;
    known.add(key);
    const weights = this.families[f].up[i].map((v, r) => (at[r] > 0 ? v : 0));
    cuts.push({
      i,
      slope: direction(this.space, weights),
      value: dot(weights, this.z) + this.families[f].shifts[i],
    });
    return true;
  }

  // Each cut alone is a half-space with a distance in closed form.
  raise(one, cuts, from = 0) {
    for (let q = from; q < cuts.length; q++) {
      const { i, slope, value } = cuts[q];
      const depth = value - one.values[i];
      if (depth <= 0) continue;
      const length = norm(slope.map((v, t) => v - one.slopes[i][t]));
      one.bound = Math.max(one.bound, length > 0 ? depth / length : Infinity);
    }
  }

  solve(one, found) {
    found.programs++;
    const cuts = this.cuts[one.family];
    const rows = cuts.map(({ i, slope }) => slope.map((v, t) => v - one.slopes[i][t]));
    const limits = cuts.map(({ i, value }) => one.values[i] - value);
    const answer = nearest(rows, limits);
    one.bound = Math.max(one.bound, answer.bound);
    if (answer.u === null || answer.bound >= found.attack) {
      one.settled = true;
      return;
    }
    const length = norm(answer.u);
    const z = moved(this.space, this.z, answer.u);
    const family = this.families[one.family];
    const before = cuts.length;
    family.up.forEach((weights, i) => {
      let left = family.shifts[i];
      for (let r = 0; r < z.length; r++) if (z[r] > 0) left += weights[r] * z[r];
      if (left - dot(one.down[i], z) > SATISFIED * length) this.addCut(one.family, i, z, cuts, cuts.known);
    });
    if (cuts.length > before) {
      for (const other of this.leaves) {
        if (other.family === one.family && !other.settled) this.raise(other, cuts, before);
      }
      return;
    }
    one.settled = true;
    if (length < found.attack) {
      found.attack = length;
      found.u = answer.u;
    }
  }
}

function leaf(space, one, family, subset) {
  const down = one.down.map((weights) => weights.map((v, r) => (subset.has(r) ? v : 0)));
  return { family, down, slopes: down.map((weights) => direction(space, weights)) };
}

function subsets(items) {
  const all = [];
  for (let mask = 2 ** items.length - 1; mask >= 0; mask--) {
    all.push(new Set(items.filter((_, i) => (mask >> i) & 1)));
  }
  return all;
}
