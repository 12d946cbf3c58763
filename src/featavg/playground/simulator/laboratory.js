// Two networks on one sample: what the page trains, and what its tests compare with the package.

import { initialNetwork, neuronCount } from "./networks.js";
import { drawFineTargets, drawTest, drawTraining } from "./sample.js";
import { keepsRotations } from "./steppers.js";
import { makeTask } from "./task.js";
import { Training } from "./training.js";

export const LABELS = ["coarse", "fine"];

// The first neurons of the shared frame belong to the coarse network.
export function prepare(setting) {
  const task = makeTask(setting);
  const counts = LABELS.map((labels) => neuronCount(setting, labels));
  const training = drawTraining(task, {
    n: setting.n,
    neurons: counts[0] + counts[1],
    seed: setting.seed,
    keepsRotations: keepsRotations(setting.stepper),
    orientation: setting.orientation,
  });
  const test = drawTest(task, training, setting.n_test, setting.seed);
  const fine = drawFineTargets(task, training.clusters, setting);
  let first = 0;
  const runs = {};
  LABELS.forEach((labels, i) => {
    const from = first * training.width;
    first += counts[i];
    const unit = training.unitWeights.subarray(from, first * training.width);
    const net = initialNetwork(setting, labels, unit, training.width, setting.seed);
    runs[labels] = new Training(net, training, setting.stepper, setting.lr, fine);
  });
  return { task, training, test, runs };
}
