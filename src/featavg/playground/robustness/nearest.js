// The nearest point of a polyhedron to the origin: min |u| subject to rows u <= limits.
//
// The dual active-set method of Goldfarb and Idnani for an identity matrix. It starts at u = 0 with
// no constraint, takes up the most violated one, and lets go of those whose multiplier would turn
// negative. Problems have at most a few dozen rows, so factors are made anew at every change.
//
// The lower bound does not trust the solver: for any lambda >= 0 the polyhedron lies inside the
// half-space (lambda rows) u <= lambda limits.

import { dot, norm } from "../simulator/vectors.js";

const FEASIBLE = 1e-13;
const DEPENDENT = 1e-12;
const STEPS = 500;

// rows: list of Float64Array of one length; limits: list of numbers.
// Returns { u (or null if there is no point), bound, multipliers }.
export function nearest(rows, limits) {
  const size = rows.length ? rows[0].length : 0;
  const lengths = rows.map((a) => norm(a));
  const multipliers = new Float64Array(rows.length);
  const a = [];
  const b = [];
  const index = [];
  for (let q = 0; q < rows.length; q++) {
    if (lengths[q] > 0) {
      // Rows of length one: unscaled ones come back infeasible.
      a.push(rows[q].map((v) => v / lengths[q]));
      b.push(limits[q] / lengths[q]);
      index.push(q);
    } else if (limits[q] < 0) {
      multipliers[q] = 1;
      return { u: null, bound: Infinity, multipliers };
    }
  }
  const answer = solve(a, b, size);
  answer.lambda.forEach((value, p) => (multipliers[index[p]] = value / lengths[index[p]]));
  return { u: answer.u, bound: halfSpace(rows, limits, multipliers, size), multipliers };
}

// The distance of the half-space that these multipliers prove.
export function halfSpace(rows, limits, multipliers, size) {
  const normal = new Float64Array(size);
  let depth = 0;
  let mass = 0;
  for (let q = 0; q < rows.length; q++) {
    const share = multipliers[q];
    if (share <= 0) continue;
    depth -= share * limits[q];
    mass += share * Math.abs(limits[q]);
    for (let t = 0; t < size; t++) normal[t] += share * rows[q][t];
  }
  depth -= 1e-14 * mass; // what rounding may have added
  if (!(depth > 0)) return 0;
  const length = norm(normal);
  return length > 0 ? depth / length : Infinity;
}

function solve(a, b, size) {
  const lambda = new Float64Array(a.length);
  let u = new Float64Array(size);
  const active = [];
  const scale = b.reduce((top, v) => Math.max(top, Math.abs(v)), 0) || 1;
  for (let step = 0; step < STEPS; step++) {
    const next = mostViolated(a, b, u, active, FEASIBLE * scale);
    if (next < 0) return { u, lambda };
    for (;;) {
      const factor = factored(active.map((p) => a[p]), size);
      const { free, r } = project(factor, a[next]);
      const square = dot(free, free);
      const full = square > DEPENDENT ? (dot(a[next], u) - b[next]) / square : Infinity;
      let partial = Infinity;
      let leaves = -1;
      for (let p = 0; p < active.length; p++) {
        if (r[p] > 1e-14 && lambda[active[p]] / r[p] < partial) {
          partial = lambda[active[p]] / r[p];
          leaves = p;
        }
      }
      const length = Math.min(full, partial);
      if (length === Infinity) {
        // Nothing can give way: these multipliers prove that there is no point.
        lambda.fill(0);
        lambda[next] = 1;
        active.forEach((p, i) => (lambda[p] = Math.max(0, -r[i])));
        return { u: null, lambda };
      }
      active.forEach((p, i) => (lambda[p] = Math.max(0, lambda[p] - length * r[i])));
      lambda[next] += length;
      if (full <= partial) {
        active.push(next);
        u = polish(a, b, active, lambda, size) ?? u.map((v, t) => v - length * free[t]);
        break;
      }
      for (let t = 0; t < size; t++) u[t] -= length * (square > DEPENDENT ? free[t] : 0);
      lambda[active[leaves]] = 0;
      active.splice(leaves, 1);
    }
  }
  return { u, lambda };
}

function mostViolated(a, b, u, active, tolerance) {
  let worst = tolerance;
  let which = -1;
  for (let q = 0; q < a.length; q++) {
    const excess = dot(a[q], u) - b[q];
    if (excess > worst && !active.includes(q)) {
      worst = excess;
      which = q;
    }
  }
  return which;
}

// Orthonormal directions of the active rows and the triangle that rebuilds them.
function factored(rows, size) {
  const directions = [];
  const triangle = [];
  for (const source of rows) {
    const v = Float64Array.from(source);
    const shares = new Float64Array(directions.length + 1);
    for (let pass = 0; pass < 2; pass++) {
      directions.forEach((q, j) => {
        const share = dot(q, v);
        shares[j] += share;
        for (let t = 0; t < size; t++) v[t] -= share * q[t];
      });
    }
    const left = norm(v);
    shares[directions.length] = left;
    directions.push(v.map((e) => (left > 0 ? e / left : 0)));
    triangle.push(shares);
  }
  return { directions, triangle };
}

// row = sum_p r_p (active row p) + free, with free orthogonal to all of them.
function project({ directions, triangle }, source) {
  const free = Float64Array.from(source);
  const shares = new Float64Array(directions.length);
  for (let pass = 0; pass < 2; pass++) {
    directions.forEach((q, j) => {
      const share = dot(q, free);
      shares[j] += share;
      for (let t = 0; t < free.length; t++) free[t] -= share * q[t];
    });
  }
  const r = shares;
  for (let p = directions.length - 1; p >= 0; p--) {
    r[p] = triangle[p][p] > 0 ? r[p] / triangle[p][p] : 0;
    for (let j = 0; j < p; j++) r[j] -= triangle[p][j] * r[p];
  }
  return { free, r };
}

// The point where all active rows are tight, from their factor rather than from many small steps.
function polish(a, b, active, lambda, size) {
  const { directions, triangle } = factored(active.map((p) => a[p]), size);
  const y = new Float64Array(active.length);
  for (let p = 0; p < active.length; p++) {
    let total = b[active[p]];
    for (let j = 0; j < p; j++) total -= triangle[p][j] * y[j];
    if (!(triangle[p][p] > 0)) return null;
    y[p] = total / triangle[p][p];
  }
  const u = new Float64Array(size);
  directions.forEach((q, j) => {
    for (let t = 0; t < size; t++) u[t] += y[j] * q[t];
  });
  // u = -rows^T lambda: solve the transposed triangle.
  const fresh = y.map((v) => -v);
  for (let p = active.length - 1; p >= 0; p--) {
    fresh[p] /= triangle[p][p];
    for (let j = 0; j < p; j++) fresh[j] -= triangle[p][j] * fresh[p];
  }
  if (fresh.every((v) => v >= 0)) active.forEach((p, i) => (lambda[p] = fresh[i]));
  return u;
}
