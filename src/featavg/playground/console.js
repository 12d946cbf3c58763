// The simulator and the exact radii under one roof: what a curious reader finds in the console as
// `playground.laboratory`, and what the tests call.

import { nearest } from "./robustness/nearest.js";
import { RadiusSolver, brackets, median, shareBeyond } from "./robustness/radii.js";
import { score } from "./robustness/readout.js";
import { prepare } from "./simulator/laboratory.js";
import { measure } from "./simulator/measures.js";
import { Random } from "./simulator/random.js";
import { drawFineTargets, drawTest, drawTraining, rowLengths } from "./simulator/sample.js";
import { makeTask, theoryRadii } from "./simulator/task.js";
import { Training } from "./simulator/training.js";

export const laboratory = {
  Random, makeTask, theoryRadii, drawFineTargets, drawTest, drawTraining, rowLengths, Training, measure, prepare,
  nearest, RadiusSolver, brackets, median, shareBeyond, score,
};
