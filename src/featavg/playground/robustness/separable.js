// A second lower bound for the read-out `probability`, neuron by neuron.
//
// For any kappa, and any weight >= 0, let u* = -rows^T kappa. Every flipped u, with s = rows (u - u*),
// has
//
//   |u|^2 >= |u*|^2 + sum_r [ D_r s_r^2 - 2 kappa_r s_r ] + 2 weight (sum_O exp f - sum_V exp f)
//
// as long as rows^T D rows <= 1, which lends each neuron of the rivals a share D_r of the quadratic.
// The right side is a sum over neurons: its least value over a box is a handful of one-dimensional
// problems. With multipliers of a local solution it is tight there.
//
// Groups of several neurons: exp of a sum is at most a mean of exponentials of single neurons
// (Jensen, equal at the local solution), and at least its tangent there.

import { dot } from "../simulator/vectors.js";
import { direction, moved } from "./subspace.js";

const BISECTIONS = 30;

// D for the rivals' neurons: Gershgorin's bound on the largest eigenvalue of their Gram matrix.
export function stiffnessOf(space, concave) {
  let largest = 0;
  for (const r of concave) {
    let total = 0;
    for (const q of concave) total += Math.abs(dot(space.rows[r], space.rows[q]));
    largest = Math.max(largest, total);
  }
  return 1 / ((largest || 1) * (1 + 1e-10));
}

// The certified distance of what is flipped inside the box.
export function separableBound(space, relaxation, box, price, z, stiffness) {
  const { kappa, weight, place } = price;
  const step = direction(space, kappa).map((v) => -v);
  const star = moved(space, z, step);
  const level = outputOf(best(relaxation.own, place), place);
  const least = new Float64Array(space.count);
  const done = new Uint8Array(space.count);
  let constant = 0;
  for (const one of relaxation.rivals) {
    const size = one.members.length;
    if (size === 0) constant -= 2 * weight * Math.exp(one.shift - level);
    const total = outputOf(one, place);
    for (const r of one.members) {
      done[r] = 1;
      const beta = size * one.row[r];
      const factor = total - level - beta * Math.max(place[r], 0) - Math.log(size);
      least[r] = rivalTerm(star[r], kappa[r], weight, stiffness, beta, factor, box.lo[r], box.hi[r]);
    }
  }
  for (const one of relaxation.own) {
    const power = Math.exp(outputOf(one, place) - level);
    if (one.members.length !== 1) {
      constant += 2 * weight * power * (1 - one.members.reduce((s, r) => s + one.row[r] * Math.max(place[r], 0), 0));
    }
    for (const r of one.members) {
      done[r] = 1;
      least[r] = one.members.length === 1
        ? ownTerm(star[r], kappa[r], weight, one.row[r], one.shift - level, box.lo[r], box.hi[r])
        : lineTerm(star[r], kappa[r], weight * power * one.row[r], box.lo[r], box.hi[r]);
    }
  }
  let total = dot(step, step) + constant;
  let size = dot(step, step) + Math.abs(constant);
  for (let r = 0; r < space.count; r++) {
    // A neuron that feeds nothing: its price is zero, and so is its term.
    const value = done[r] ? least[r] : lineTerm(star[r], kappa[r], 0, box.lo[r], box.hi[r]);
    total += value;
    size += Math.abs(value) + Math.abs(kappa[r]) * (Math.abs(star[r]) + Math.abs(box.lo[r]) + Math.abs(box.hi[r]));
  }
  total -= 1e-13 * size; // what rounding may have added
  return total > 0 ? Math.sqrt(total) : 0;
}

function best(outputs, z) {
  return outputs.reduce((top, one) => (outputOf(one, z) > outputOf(top, z) ? one : top));
}

function outputOf(one, z) {
  let total = one.shift;
  for (const r of one.members) total += one.row[r] * Math.max(z[r], 0);
  return total;
}

// D s^2 - 2 kappa s - 2 weight exp(factor + beta relu(x)), s = x - star: its least value on [lo, hi].
function rivalTerm(star, kappa, weight, stiffness, beta, factor, lo, hi) {
  const power = (x) => weight * Math.exp(factor + beta * Math.max(x, 0));
  const at = (x) => (stiffness * (x - star) - 2 * kappa) * (x - star) - 2 * power(x);
  const slope = (x) => 2 * (stiffness * (x - star) - kappa - beta * power(x));
  const start = Math.min(Math.max(0, lo), hi);
  const vertex = Math.min(Math.max(star + kappa / stiffness, lo), start);
  const places = [lo, hi, start, vertex];
  // Convex up to `turn`, concave beyond, where the least value is at an end.
  const bend = (Math.log(stiffness / (weight * beta * beta)) - factor) / beta;
  const turn = Math.min(Math.max(Number.isNaN(bend) ? start : bend, start), hi);
  places.push(turn);
  let slack = 0;
  if (turn > start && slope(start) < 0 && slope(turn) > 0) {
    let [left, right] = [start, turn];
    for (let step = 0; step < BISECTIONS; step++) {
      const middle = (left + right) / 2;
      if (slope(middle) < 0) left = middle;
      else right = middle;
    }
    places.push(left);
    slack = -slope(left) * (right - left); // a convex function lies above its tangent
  }
  return Math.min(...places.map(at)) - Math.max(0, slack);
}

// 2 weight exp(shift + a relu(x)) - 2 kappa (x - star): convex for x >= 0, a line below.
function ownTerm(star, kappa, weight, a, shift, lo, hi) {
  const at = (x) => 2 * weight * Math.exp(shift + a * Math.max(x, 0)) - 2 * kappa * (x - star);
  const root = kappa > 0 ? (Math.log(kappa / (weight * a)) - shift) / a : 0;
  const places = [lo, hi, Math.min(Math.max(0, lo), hi)];
  if (root > 0) places.push(Math.min(Math.max(root, lo), hi));
  return Math.min(...places.map(at));
}

// 2 slope relu(x) - 2 kappa (x - star).
function lineTerm(star, kappa, slope, lo, hi) {
  const at = (x) => 2 * slope * Math.max(x, 0) - 2 * kappa * (x - star);
  return Math.min(at(lo), at(hi), at(Math.min(Math.max(0, lo), hi)));
}

// The multipliers at a local solution u: kappa = multiplier times the gradient of
// log sum_O exp f - log sum_V exp f, and the weight of the inequality without logarithms.
export function priceAt(space, relaxation, z, u) {
  const place = moved(space, z, u);
  const gradient = relaxation.cuts(relaxation.below(place), place)[0].weights;
  const across = direction(space, gradient);
  const square = dot(across, across);
  const multiplier = square > 0 ? -dot(u, across) / square : 0;
  if (!(multiplier > 0)) return null;
  return { kappa: gradient.map((v) => multiplier * v), weight: multiplier / leftSum(relaxation, place), place };
}

// The same from the multipliers of cutting planes inside a node: the walls of the node (the first
// `fences` rows) have a share in kappa, and none in the inequality.
export function priceOf(space, relaxation, z, planes) {
  const place = moved(space, z, planes.u);
  const kappa = new Float64Array(space.count);
  let mass = 0;
  planes.multipliers.forEach((share, q) => {
    if (!(share > 0)) return;
    if (q >= planes.fences) mass += share;
    planes.all[q].forEach((v, r) => (kappa[r] += share * v));
  });
  return mass > 0 ? { kappa, weight: mass / leftSum(relaxation, place), place } : null;
}

// The sum over the own outputs, at the level that keeps its largest term at one.
function leftSum(relaxation, place) {
  const level = outputOf(best(relaxation.own, place), place);
  return relaxation.own.reduce((s, one) => s + Math.exp(outputOf(one, place) - level), 0);
}
