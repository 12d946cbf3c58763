// What a curious reader finds in the console as `playground`, and what the tests call.

import { simulator } from "./simulator/api.js";
import { nearest } from "./robustness/nearest.js";
import { RadiusSolver, brackets, median, shareBeyond } from "./robustness/radii.js";
import { score } from "./robustness/readout.js";

export const laboratory = { ...simulator, nearest, RadiusSolver, brackets, median, shareBeyond, score };
