// The simulator and the exact radii under one roof, for tests and for the console.

import { Random } from "./random.js";
import { makeTask, theoryRadii } from "./task.js";
import { drawTest, drawTraining, rowLengths } from "./sample.js";
import { fixedHead, initialNetwork, outputsFrom, secondLayer } from "./networks.js";
import { Training } from "./training.js";
import { measure } from "./measures.js";
import { prepare } from "./laboratory.js";

export const simulator = {
  Random, makeTask, theoryRadii, drawTest, drawTraining, rowLengths, fixedHead, initialNetwork,
  outputsFrom, secondLayer, Training, measure, prepare,
};
