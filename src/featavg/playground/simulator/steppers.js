// How parameters move in one step. A stepper is handed the parameter arrays, the gradients
// (normalised by the loss) and the logarithms of rate and loss, and moves the arrays in place.

const BETA = 0.9;
const ADAM = { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 };

function gradientDescent() {
  return (params, gradients, logRate, logLoss) => {
    // The product is of moderate size even where both factors are not.
    const factor = Math.exp(logRate + logLoss);
    params.forEach((p, a) => {
      const g = gradients[a];
      for (let i = 0; i < p.length; i++) p[i] -= factor * g[i];
    });
  };
}

function momentum() {
  let updates = null;
  return (params, gradients, logRate, logLoss) => {
    updates ??= params.map((p) => new Float64Array(p.length));
    const factor = Math.exp(logRate + logLoss);
    params.forEach((p, a) => {
      const g = gradients[a];
      const u = updates[a];
      for (let i = 0; i < p.length; i++) {
        u[i] = BETA * u[i] - factor * g[i];
        p[i] += u[i];
      }
    });
  };
}

function adam() {
  let first = null;
  let second = null;
  let step = 0;
  return (params, gradients, logRate, logLoss) => {
    first ??= params.map((p) => new Float64Array(p.length));
    second ??= params.map((p) => new Float64Array(p.length));
    step++;
    const { beta1, beta2, epsilon } = ADAM;
    const loss = Math.exp(logLoss);
    const rate = Math.exp(logRate);
    const fill1 = 1 - beta1 ** step;
    const fill2 = 1 - beta2 ** step;
    params.forEach((p, a) => {
      const [g, m, v] = [gradients[a], first[a], second[a]];
      for (let i = 0; i < p.length; i++) {
        const slope = loss * g[i];
        m[i] = beta1 * m[i] + (1 - beta1) * slope;
        v[i] = beta2 * v[i] + (1 - beta2) * slope * slope;
        p[i] -= (rate * (m[i] / fill1)) / (Math.sqrt(v[i] / fill2) + epsilon);
      }
    });
  };
}

function signDescent() {
  return (params, gradients, logRate) => {
    const rate = Math.exp(logRate);
    params.forEach((p, a) => {
      const g = gradients[a];
      for (let i = 0; i < p.length; i++) p[i] -= rate * Math.sign(g[i]);
    });
  };
}

const MAKERS = { gd: gradientDescent, momentum, adam, sign: signDescent };

export const MOMENTUM = BETA;

export function makeStepper(name) {
  return MAKERS[name]();
}

// Turning the data turns the run: only then does compression leave it unchanged.
export function keepsRotations(name) {
  return name === "gd" || name === "momentum";
}
