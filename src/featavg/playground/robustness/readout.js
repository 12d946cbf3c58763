// From the outputs of a network to a coarse decision: the sign of one number.

import { largest, logSumExp } from "../simulator/losses.js";

// How many of the largest outputs of a class count: 1 for `max`, q for `top:q=...`.
export function pooled(readout) {
  return readout.startsWith("top:q=") ? Number(readout.slice(6)) : 1;
}

// Of a network whose neurons compete, each neuron is an output, and the pooling is the read-out.
export function decisionOf({ pooling = "mean", neurons }, labels, readout) {
  if (pooling === "mean") return [labels, readout];
  return [Int8Array.from({ length: neurons }, (_, r) => (r < neurons / 2 ? 1 : -1)), pooling];
}

// labels: the class of each output; a network with one output is its own score.
export function score(outputs, labels, readout) {
  if (outputs.length === 1) return outputs[0];
  const up = outputs.filter((_, j) => labels[j] > 0);
  const down = outputs.filter((_, j) => labels[j] < 0);
  const sum = (values) => values.reduce((s, v) => s + v, 0);
  const top = (values) => sum(largest(values, pooled(readout)).map((r) => values[r])) / pooled(readout);
  if (readout.startsWith("top")) return top(up) - top(down);
  if (readout === "max") return Math.max(...up) - Math.max(...down);
  if (readout === "sum") return sum(up) - sum(down);
  return logSumExp(up) - logSumExp(down);
}
