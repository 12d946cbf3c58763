// When is a decision flipped? As a union of families of convex-against-convex inequalities
// up_i . relu(z) + shift_i <= down_i . relu(z), all i at once.
//
// One output, or `sum`: one family of one inequality. `max`: one family for each rival output j,
// with the inequalities f_i <= f_j for every output i of the own class. `top:q`: the same for every q
// rivals and every q outputs of the own class, by their sums.

import { pooled } from "./readout.js";

export function flippedFamilies(space, y, readout, labels, slack = 0) {
  const { count, outputs, head, constant } = space;
  const weights = (c) => head.subarray(c * count, (c + 1) * count);
  if (outputs === 1) return family([{ row: weights(0).map((v) => y * v), shift: y * constant[0] - slack }]);
  const own = [];
  const rival = [];
  for (let c = 0; c < outputs; c++) (labels[c] === y ? own : rival).push(c);
  if (readout === "sum") {
    const row = new Float64Array(count);
    let shift = -slack;
    for (const [group, sign] of [[own, 1], [rival, -1]]) {
      for (const c of group) {
        shift += sign * constant[c];
        weights(c).forEach((v, r) => (row[r] += sign * v));
      }
    }
    return family([{ row, shift }]);
  }
  const q = pooled(readout);
  const sums = (group) => combinations(group, q).map((chosen) => ({
    row: Float64Array.from({ length: count }, (_, r) => chosen.reduce((s, c) => s + weights(c)[r], 0)),
    shift: chosen.reduce((s, c) => s + constant[c], 0),
  }));
  const above = sums(own);
  return sums(rival).flatMap((below) =>
    family(above.map(({ row, shift }) => ({
      row: row.map((v, r) => v - below.row[r]),
      shift: shift - below.shift - slack,
    }))));
}

function combinations(items, size) {
  if (size === 0) return [[]];
  return items.flatMap((first, i) => combinations(items.slice(i + 1), size - 1).map((rest) => [first, ...rest]));
}

// Each inequality is divided by its largest entry; then no number here is large or small.
function family(inequalities) {
  const up = [];
  const down = [];
  const shifts = [];
  for (const { row, shift } of inequalities) {
    const scale = row.reduce((top, v) => Math.max(top, Math.abs(v)), 0);
    if (scale === 0 && shift > 0) return []; // it can never hold
    const by = scale || 1;
    up.push(row.map((v) => Math.max(v, 0) / by));
    down.push(row.map((v) => Math.max(-v, 0) / by));
    shifts.push(shift / by);
  }
  const concave = [];
  for (let r = 0; r < up[0].length; r++) if (down.some((d) => d[r] > 0)) concave.push(r);
  return [{ up, down, shifts, concave }];
}

// How many convex pieces listing would make.
export function pieceCount(families) {
  return families.reduce((total, one) => total + 2 ** one.concave.length, 0);
}
