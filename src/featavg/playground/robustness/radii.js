// Robust radii of points: the l2 distance to the nearest point that is decided otherwise. Exact for
// one output, for the read-outs `sum` and `max`, and for neurons that compete; a certified bracket for `probability`, for
// networks with too many pieces to list, and for three layers.

import { DeepBracket } from "./deep.js";
import { flippedFamilies, pieceCount } from "./families.js";
import { PieceSearch } from "./pieces.js";
import { decisionOf, score } from "./readout.js";
import { ProbabilityRelaxation, ReluRelaxation } from "./relaxations.js";
import { lifted, outputsAt, preactivation, reduce } from "./subspace.js";
import { TreeSearch } from "./tree.js";

const LISTED = 1024;
const NUDGE = 1e-9; // a candidate lies on the boundary; pushed out by this share it is flipped

export class RadiusSolver {
  // labels: the class of each output. budget: nodes a point of the tree searches.
  constructor(net, labels, readout, { gap = 0.01, budget = 40 } = {}) {
    [labels, readout] = decisionOf(net, labels, readout);
    this.labels = labels;
    this.readout = readout;
    this.budget = budget;
    this.deep = net.depth === 3 ? new DeepBracket(net, labels, readout) : null;
    if (this.deep) return;
    this.space = reduce(net);
    this.curved = net.outputs > 1 && readout === "probability";
    this.search = {};
    this.floor = {};
    for (const y of [1, -1]) {
      if (!this.curved) {
        this.search[y] = this.pieces(flippedFamilies(this.space, y, readout, labels), gap);
        continue;
      }
      const relaxation = new ProbabilityRelaxation(this.space, y, labels);
      this.search[y] = new TreeSearch(this.space, [relaxation], gap);
      // log sum_V exp f <= log |V| + max_V f: `max` with that slack is a first bound.
      const slack = Math.log(relaxation.rivals.length);
      this.floor[y] = this.pieces(flippedFamilies(this.space, y, "max", labels, slack), gap);
    }
  }

  pieces(families, gap) {
    if (families.length === 0) return null;
    if (pieceCount(families) <= LISTED) return new PieceSearch(this.space, families);
    return new TreeSearch(this.space, families.map((one) => new ReluRelaxation(one)), gap);
  }

  // { certified, attack, move (in the coordinates of the points, or null), right }.
  at(x, y) {
    if (this.deep) return this.deep.at(x, y, this.budget);
    const z = preactivation(this.space, x);
    if (!(y * score(outputsAt(this.space, z), this.labels, this.readout) > 0)) {
      return { certified: 0, attack: 0, move: new Float64Array(this.space.width), right: false };
    }
    const search = this.search[y];
    if (!search) return { certified: Infinity, attack: Infinity, move: null, right: true };
    let found;
    if (this.curved) {
      const floor = this.floor[y]?.at(z, 400) ?? { certified: Infinity, u: null };
      found = search.at(z, this.budget, Math.min(floor.certified, 1e300), floor.u ? [floor.u] : []);
    } else {
      found = search.at(z, search instanceof PieceSearch ? 4000 : this.budget);
    }
    const move = found.u ? lifted(this.space, found.u.map((v) => v * (1 + NUDGE))) : null;
    return {
      certified: Math.min(found.certified, found.attack),
      attack: found.attack,
      move,
      right: true,
      programs: found.programs,
    };
  }
}

export function brackets(net, labels, readout, points, options) {
  const solver = new RadiusSolver(net, labels, readout, options);
  const certified = new Float64Array(points.n);
  const attack = new Float64Array(points.n);
  for (let i = 0; i < points.n; i++) {
    const one = solver.at(points.x.subarray(i * points.width, (i + 1) * points.width), points.y[i]);
    certified[i] = one.certified;
    attack[i] = one.attack;
  }
  return { certified, attack };
}

// The share of points that stay right when moved by r, for a certified or an attacked radius.
export function shareBeyond(radii, r) {
  let count = 0;
  for (const radius of radii) if (radius > r) count++;
  return radii.length ? count / radii.length : 0;
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (!sorted.length) return NaN;
  return Number.isInteger(middle) ? (sorted[middle - 1] + sorted[middle]) / 2 : sorted[Math.floor(middle)];
}
