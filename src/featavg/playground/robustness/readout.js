// From the outputs of a network to a coarse decision: the sign of one number.

import { logSumExp } from "../simulator/losses.js";

// labels: the class of each output; a network with one output is its own score.
export function score(outputs, labels, readout) {
  if (outputs.length === 1) return outputs[0];
  const up = outputs.filter((_, j) => labels[j] > 0);
  const down = outputs.filter((_, j) => labels[j] < 0);
  const sum = (values) => values.reduce((s, v) => s + v, 0);
  if (readout === "max") return Math.max(...up) - Math.max(...down);
  if (readout === "sum") return sum(up) - sum(down);
  return logSumExp(up) - logSumExp(down);
}
