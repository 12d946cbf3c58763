// Branch and bound for the nearest flipped point, where listing all convex pieces is too much and
// for the read-out `probability`.
//
// A node is a box of pre-activations. In the box an affine function lies above the right side, so
// the flipped points of the node lie in a convex set, and the distance of that set is a lower
// bound: a few tiny quadratic programs, one more cut each. All that matters lies in the ball
// |u| <= R, R the best candidate, and beyond the half-space n . u >= t that the multipliers
// prove: boxes shrink to what this cap holds.

import { dot, norm } from "../simulator/vectors.js";
import { nearest } from "./nearest.js";
import { priceAt, priceOf, separableBound, stiffnessOf } from "./separable.js";
import { direction, moved } from "./subspace.js";

const ROUNDS = 12;
const SATISFIED = 1e-11;

export class TreeSearch {
  constructor(space, relaxations, gap) {
    this.space = space;
    this.relaxations = relaxations;
    this.gap = gap;
  }

  // `floor` is a bound that is known already, `hints` steps worth improving.
  at(z, budget, floor = 0, hints = []) {
    this.z = z;
    this.found = { certified: floor, attack: Infinity, u: null, programs: 0, finished: false };
    for (const relaxation of this.relaxations) this.start(relaxation, hints);
    if (this.found.attack < Infinity) this.search(floor, budget);
    return this.found;
  }

  get goal() {
    return this.found.attack * (1 - this.gap);
  }

  search(floor, budget) {
    const size = this.space.count;
    let nodes = this.relaxations.map((relaxation) => ({
      bound: floor,
      relaxation,
      low: new Float64Array(size).fill(-Infinity),
      high: new Float64Array(size).fill(Infinity),
      normal: null,
      proven: 0, // the half-space normal . u >= proven holds all flipped points of the node
      depth: 0,
      z: this.z,
    }));
    let settled = Infinity;
    for (let count = 0; nodes.length; count++) {
      let index = 0;
      for (let i = 1; i < nodes.length; i++) if (nodes[i].bound < nodes[index].bound) index = i;
      const node = nodes[index];
      if (node.bound >= this.goal) break;
      if (count >= budget) {
        this.found.certified = Math.max(floor, Math.min(settled, node.bound, this.found.attack));
        return;
      }
      nodes[index] = nodes[nodes.length - 1];
      nodes.pop();
      const children = this.branch(node);
      if (children.length === 0) settled = Math.min(settled, node.bound);
      nodes.push(...children);
    }
    const open = nodes.reduce((low, one) => Math.min(low, one.bound), Infinity);
    this.found.finished = true;
    // Boxes were cut down to the ball of what was still of interest: no proof goes further.
    this.found.certified = Math.max(floor, Math.min(settled, open, this.goal));
  }

  branch(node) {
    const box = this.box(node);
    if (!box) {
      node.bound = Infinity;
      return [];
    }
    if (node.relaxation.separable) this.raise(node, box);
    if (node.bound >= this.goal) return [];
    const answer = this.planes(node.relaxation, node.relaxation.above(box), [this.z, node.z], node);
    if (answer.bound > node.bound) {
      node.bound = answer.bound;
      node.normal = answer.normal;
      node.proven = answer.bound;
    }
    if (answer.u === null || node.bound >= this.goal) return [];
    const z = moved(this.space, this.z, answer.u);
    this.keep(node.relaxation, answer.u);
    const cut = node.relaxation.split(box, z);
    if (!cut || !(cut.gap > 0)) return [];
    // A better candidate makes every box smaller; it is worth looking for one now and then.
    if (node.depth % 4 === 1) this.improve(node.relaxation, z);
    return [0, 1].map((side) => {
      const low = node.low.slice();
      const high = node.high.slice();
      (side ? low : high)[cut.r] = cut.at;
      return { ...node, low, high, z, depth: node.depth + 1 };
    });
  }

  // The bound neuron by neuron, with the price of the best candidate and of a local solution
  // inside the node.
  raise(node, box) {
    const { relaxation } = node;
    relaxation.stiffness ??= stiffnessOf(this.space, relaxation.concave);
    const local = this.planes(relaxation, relaxation.below(clipped(node.z, box)), [this.z, node.z], node);
    const prices = [this.found.u && priceAt(this.space, relaxation, this.z, this.found.u),
      local.u && priceOf(this.space, relaxation, this.z, local)];
    for (const price of prices) {
      if (!price) continue;
      const bound = separableBound(this.space, relaxation, box, price, this.z, relaxation.stiffness);
      node.bound = Math.max(node.bound, bound);
    }
  }

  // What the cap {|u| <= R, n . u >= t} and the splits leave of each pre-activation.
  box(node) {
    const { count, rows } = this.space;
    const lo = new Float64Array(count);
    const hi = new Float64Array(count);
    const [R, t] = [this.goal, node.proven];
    const side = Math.sqrt(Math.max(0, R * R - t * t));
    const slack = 1e-12 * (R + norm(this.z));
    for (let r = 0; r < count; r++) {
      const length = norm(rows[r]);
      let up = R * length;
      let down = R * length;
      if (node.normal && t > 0) {
        const along = dot(rows[r], node.normal);
        const across = Math.sqrt(Math.max(0, length * length - along * along)) * side;
        if (R * along < t * length) up = t * along + across;
        if (-R * along < t * length) down = -t * along + across;
      }
      lo[r] = Math.max(this.z[r] - down - slack, node.low[r]);
      hi[r] = Math.min(this.z[r] + up + slack, node.high[r]);
      if (lo[r] > hi[r]) return null;
    }
    return { lo, hi };
  }

  // The nearest point with left <= side inside the node, by cutting planes.
  planes(relaxation, side, seen, node = null) {
    const rows = [];
    const limits = [];
    const all = [];
    const add = (weights, constant) => {
      all.push(weights);
      rows.push(direction(this.space, weights));
      limits.push(-constant - dot(weights, this.z));
    };
    if (node) {
      for (let r = 0; r < this.space.count; r++) {
        if (node.low[r] > -Infinity) add(unit(this.space.count, r, -1), node.low[r]);
        if (node.high[r] < Infinity) add(unit(this.space.count, r, 1), -node.high[r]);
      }
    }
    const fences = rows.length;
    for (const z of seen) for (const cut of relaxation.cuts(side, z)) add(cut.weights, cut.constant);
    let best = { u: null, bound: 0, normal: null };
    for (let round = 0; round < ROUNDS; round++) {
      const answer = nearest(rows, limits);
      this.found.programs++;
      if (answer.bound > best.bound) best = { ...best, bound: answer.bound, normal: proven(rows, answer.multipliers) };
      best.u = answer.u;
      best.multipliers = answer.multipliers;
      if (answer.u === null || (node && best.bound >= this.goal)) break;
      const z = moved(this.space, this.z, answer.u);
      const length = norm(answer.u);
      let added = false;
      for (const cut of relaxation.cuts(side, z)) {
        const steep = norm(direction(this.space, cut.weights));
        if (dot(cut.weights, z) + cut.constant > Math.max(SATISFIED, 1e-3 * this.gap) * length * steep) {
          add(cut.weights, cut.constant);
          added = true;
        }
      }
      if (!added) break;
    }
    return { ...best, all, fences };
  }

  start(relaxation, hints) {
    const places = hints.map((u) => moved(this.space, this.z, u));
    for (const side of relaxation.starts(this.z)) {
      const answer = this.planes(relaxation, side, [this.z]);
      if (answer.u === null) continue;
      this.keep(relaxation, answer.u);
      places.push(moved(this.space, this.z, answer.u));
    }
    for (const z of places) this.improve(relaxation, z);
  }

  // The convex-concave procedure: touch the right side at z, solve, repeat.
  improve(relaxation, z) {
    let last = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
      const answer = this.planes(relaxation, relaxation.below(z), [this.z, z]);
      if (answer.u === null) return;
      this.keep(relaxation, answer.u);
      const length = norm(answer.u);
      if (!(length < last * (1 - Math.max(1e-2 * this.gap, 1e-10)))) return;
      last = length;
      z = moved(this.space, this.z, answer.u);
    }
  }

  // Keep a step that flips, if need be after a push outwards far below the gap.
  keep(relaxation, u) {
    const length = norm(u);
    for (const push of [1e-10, 1e-4 * this.gap, 1e-2 * this.gap, 0.1 * this.gap]) {
      if ((1 + push) * length >= this.found.attack) return;
      const step = u.map((v) => v * (1 + push));
      if (relaxation.excess(moved(this.space, this.z, step)) <= 0) {
        this.found.attack = (1 + push) * length;
        this.found.u = step;
        return;
      }
    }
  }
}

// The unit normal of the half-space that the multipliers prove.
function proven(rows, multipliers) {
  const normal = new Float64Array(rows[0].length);
  rows.forEach((a, q) => {
    for (let t = 0; t < normal.length; t++) normal[t] -= multipliers[q] * a[t];
  });
  const length = norm(normal);
  return length > 0 ? normal.map((v) => v / length) : null;
}

function clipped(z, box) {
  return z.map((v, r) => Math.min(Math.max(v, box.lo[r]), box.hi[r]));
}

function unit(size, r, value) {
  const out = new Float64Array(size);
  out[r] = value;
  return out;
}
