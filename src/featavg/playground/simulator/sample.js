// Training and test points, in R^d as they are or, the same in law, in k + M + n coordinates.
//
// Gradient descent sees the data only through inner products, and Gaussian noise has no preferred
// direction. Turn R^d so that its first coordinates are spanned by the k features, the M initial
// weights and the n noise vectors, in this order: what is left of each vector is a row of a
// lower-triangular Bartlett factor with chi-distributed lengths. Nothing is approximated.

import { Random } from "./random.js";

// Fills `count` rows of `width` numbers with standard normal vectors of R^d, seen in a frame that
// they span one by one behind `before` directions that were there before.
export function fillBartlett(rows, count, width, before, d, random) {
  for (let i = 0; i < count; i++) {
    const start = i * width;
    for (let t = 0; t < before + i; t++) rows[start + t] = random.normal();
    rows[start + before + i] = random.chi(d - before - i);
  }
}

function fillNormal(rows, random) {
  for (let i = 0; i < rows.length; i++) rows[i] = random.normal();
}

export function drawClusters(task, n, random) {
  const clusters = new Int32Array(n);
  for (let i = 0; i < n; i++) clusters[i] = random.below(task.k);
  return clusters;
}

function addFeatures(x, width, clusters, task, features) {
  for (let i = 0; i < clusters.length; i++) {
    const start = i * width;
    const from = clusters[i] * width;
    for (let t = 0; t < width; t++) x[start + t] = task.alpha * features[from + t] + task.sigma * x[start + t];
  }
}

// The features in `width` coordinates: along the first axes, or turned at random. A turn changes
// nothing for methods that do not look at single coordinates.
export function featuresIn(task, width, orientation, seed) {
  const { k, factor } = task;
  const features = new Float64Array(k * width);
  if (orientation !== "random") {
    for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) features[i * width + j] = factor[i * k + j];
    return features;
  }
  const random = new Random(seed, "orientation");
  const directions = [];
  while (directions.length < k) {
    const v = Float64Array.from({ length: width }, () => random.normal());
    for (let pass = 0; pass < 2; pass++) {
      for (const u of directions) {
        let share = 0;
        for (let t = 0; t < width; t++) share += u[t] * v[t];
        for (let t = 0; t < width; t++) v[t] -= share * u[t];
      }
    }
    const length = Math.sqrt(v.reduce((s, e) => s + e * e, 0));
    directions.push(v.map((e) => e / length));
  }
  for (let i = 0; i < k; i++) {
    for (let j = 0; j <= i; j++) {
      for (let t = 0; t < width; t++) features[i * width + t] += factor[i * k + j] * directions[j][t];
    }
  }
  return features;
}

export function isCompressed(task, n, neurons, keepsRotations) {
  return keepsRotations && task.k + neurons + n < task.d;
}

// `neurons` counts those of all networks that are to share the sample.
export function drawTraining(task, { n, neurons, seed, keepsRotations, orientation }) {
  const compressed = isCompressed(task, n, neurons, keepsRotations);
  const width = compressed ? task.k + neurons + n : task.d;
  const clusters = drawClusters(task, n, new Random(seed, "train-clusters"));
  const unitWeights = new Float64Array(neurons * width);
  const x = new Float64Array(n * width);
  const features = featuresIn(task, width, keepsRotations ? "axes" : orientation, seed);
  const forWeights = new Random(seed, "weights");
  const forNoise = new Random(seed, "train-noise");
  if (compressed) {
    fillBartlett(unitWeights, neurons, width, task.k, task.d, forWeights);
    fillBartlett(x, n, width, task.k + neurons, task.d, forNoise);
  } else {
    fillNormal(unitWeights, forWeights);
    fillNormal(x, forNoise);
  }
  addFeatures(x, width, clusters, task, features);
  return { task, n, width, compressed, clusters, x, unitWeights, features, seed, lengths: rowLengths(x, n, width) };
}

// How many leading coordinates of each row are not zero: a triangular sample costs half.
export function rowLengths(x, n, width) {
  const lengths = new Int32Array(n);
  for (let i = 0; i < n; i++) {
    let last = width;
    while (last > 0 && x[i * width + last - 1] === 0) last--;
    lengths[i] = last;
  }
  return lengths;
}

// What the network with fine labels is told of each point: its cluster for a share of the points, of
// which a share is wrong (another cluster of the class); k for the others of class -1, k + 1 of +1.
export function drawFineTargets(task, clusters, { share = 1, wrong = 0, seed }) {
  const { k, labels } = task;
  const random = new Random(seed, "labels");
  return clusters.map((j) => {
    const [known, right, which] = [random.uniform(), random.uniform(), random.uniform()];
    if (known >= share) return labels[j] > 0 ? k + 1 : k;
    const others = [...labels.keys()].filter((i) => i !== j && labels[i] === labels[j]);
    return right < wrong && others.length ? others[Math.floor(which * others.length)] : j;
  });
}

// Fresh points: their coordinates beyond the frame of the training set meet no weight.
export function drawTest(task, training, count, seed) {
  const { width, features } = training;
  const clusters = drawClusters(task, count, new Random(seed, "test-clusters"));
  const x = new Float64Array(count * width);
  fillNormal(x, new Random(seed, "test-noise"));
  addFeatures(x, width, clusters, task, features);
  const y = Int8Array.from(clusters, (j) => task.labels[j]);
  return { n: count, width, clusters, x, y };
}
