// Radii on request: the curve of all test points in the background, the dragged point at once.

import { RadiusSolver } from "../robustness/radii.js";
import { drawTest, featuresIn } from "../simulator/sample.js";
import { keepsRotations } from "../simulator/steppers.js";
import { makeTask } from "../simulator/task.js";

const SLICE = 30; // milliseconds of work before messages are looked at again

export class RadiusDesk {
  constructor(answer) {
    this.answer = answer;
    this.solvers = {};
    this.job = null;
  }

  take(message) {
    this[message.kind](message);
  }

  // The test points follow from the setting alone: nothing has to be sent.
  points({ setting, width }) {
    this.task = makeTask(setting);
    const orientation = keepsRotations(setting.stepper) ? "axes" : setting.orientation;
    this.features = featuresIn(this.task, width, orientation, setting.seed);
    this.test = drawTest(this.task, { width, features: this.features }, setting.n_test, setting.seed);
    this.solvers = {};
    this.job = null;
  }

  solver(net, readout, options) {
    return new RadiusSolver(net, this.task.labels, readout, options);
  }

  // Both networks at one step. A later request replaces one that is not finished.
  curve({ id, nets, readout, step, n, budget }) {
    const solvers = Object.fromEntries(
      Object.entries(nets).map(([labels, net]) => [labels, this.solver(net, readout, { gap: 0.02, budget })]));
    const count = Math.min(n, this.test.n);
    const radii = Object.fromEntries(Object.keys(nets).map((labels) => [
      labels, { certified: new Float64Array(count), attack: new Float64Array(count) }]));
    this.job = { id, solvers, radii, step, readout, count, next: 0 };
    this.work(this.job);
  }

  work(job) {
    if (this.job !== job) return;
    const end = performance.now() + SLICE;
    const { width, x, y } = this.test;
    while (job.next < job.count && performance.now() < end) {
      const i = job.next++;
      for (const [labels, solver] of Object.entries(job.solvers)) {
        const found = solver.at(x.subarray(i * width, (i + 1) * width), y[i]);
        job.radii[labels].certified[i] = found.certified;
        job.radii[labels].attack[i] = found.attack;
      }
    }
    if (job.next < job.count) {
      setTimeout(() => this.work(job));
      return;
    }
    this.job = null;
    const { id, radii, step, readout, count } = job;
    this.answer({ id, kind: "curve", radii, step, readout, n: count });
  }

  // A point sum_j c_j mu_j, and where its nearest flipped point is seen from the features.
  point({ id, nets, readout, combination, step }) {
    const { k } = this.task;
    const width = this.features.length / k;
    const x = new Float64Array(width);
    combination.forEach((share, j) => {
      for (let t = 0; t < width; t++) x[t] += share * this.features[j * width + t];
    });
    const found = {};
    for (const [labels, net] of Object.entries(nets)) {
      const solver = this.solver(net, readout, { gap: 0.02, budget: 60 });
      // The decision that is to be flipped is the network's own, whatever the point is.
      let answer = solver.at(x, 1);
      const y = answer.right ? 1 : -1;
      if (!answer.right) answer = solver.at(x, -1);
      const products = answer.move && this.features
        ? Float64Array.from({ length: k }, (_, j) => {
            let total = 0;
            for (let t = 0; t < width; t++) total += answer.move[t] * this.features[j * width + t];
            return total;
          })
        : null;
      found[labels] = { y, right: answer.right, certified: answer.certified, attack: answer.attack, products };
    }
    this.answer({ id, kind: "point", found, step });
  }
}
