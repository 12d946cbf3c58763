// The guided story: eight presets, each with a few sentences and something to try; and four presets.

export const STORY = [
  {
    title: "What the data is",
    text: "There are $k$ features $mu_1, dots, mu_k$, vectors of length $sqrt(d)$ at right angles. A point is one feature plus noise, $x = mu_j + sigma xi$. The first half of the features makes the positive class, the second half the negative one. Below, the plane shows the points near $mu_1$ (positive) and $mu_6$ (negative); the points of all other clusters lie in front of and behind its middle.",
    attempt: "Raise the noise to 3. In the plane the clusters hardly grow: noise has $d$ directions to go, and only two of them are in the picture.",
    preset: { step: 0 },
  },
  {
    title: "What the network sees",
    text: "Two networks get the same points. One is told the <em class=\"averaged\">class</em> of each point, plus or minus: coarse labels. The other is told its <em class=\"decoupled\">cluster</em>, 1 to $k$: fine labels. Before training their weights are tiny and point nowhere, so both matrices of cosines are pale.",
    attempt: "Press “one step” a few times and watch which cells of the matrices take on colour first.",
    preset: { step: 0, a: 1, b: 6 },
  },
  {
    title: "Averaging appears",
    text: "After a hundred steps the network with class labels has learned the same thing in every neuron: the <em class=\"averaged\">average</em> of the five features of its class. Nothing forced it to; a network with one neuron for each feature would fit the labels as well. Gradient descent prefers the average. The cosines in a block are all about $1/sqrt(5) approx 0.45$, and the averaging index is close to 1.",
    attempt: "Tap the neurons of the first network one after another: the bars do not change.",
    preset: { step: 100 },
  },
  {
    title: "Why an average is fragile",
    text: "To flip a decision, an attacker may push a little along every feature of the other class and against every feature of the own one. An average adds all these small pushes up, so a move of length about $sqrt(d/k)$ is enough. A network that asks for one whole feature needs $sqrt(d/2)$. The robust-accuracy curve counts exact radii; the dashed marks are these two numbers.",
    attempt: "Drag the point in the planes. The circle is the distance to the nearest point that is decided otherwise; its shadow in this plane is the square end of the line.",
    preset: { step: 100, px: 1, py: 0, a: 1, b: 6 },
  },
  {
    title: "One vector fools them all",
    text: "For the averaged network there is a single direction that flips every point: minus all positive features plus all negative ones for the positive points, and the opposite for the others. The planes now show this direction upwards. From $mu_1$ the first network's border is a short way up; the second one's is far.",
    attempt: "Put the point on another feature with the choice above the planes. The way up to the orange border stays as short.",
    preset: { step: 100, a: 1, b: 0, px: 1, py: 0 },
  },
  {
    title: "Finer labels, and any dimension",
    text: "The advantage of <em class=\"decoupled\">cluster labels</em> grows with the number of features: the ratio of the radii is $sqrt(k/2)$. Here are 16 features in $10^12$ dimensions. The page does not cheat: gradient descent sees the data only through inner products, and these can be drawn with the law they have in $10^12$ dimensions at the price of a few hundred numbers.",
    attempt: "Move $k$ from 4 to 20 and read the two marks.",
    preset: { step: 100, k: 16, d: 1e12, n: 400, lr: 3.072e-12, sigma_w: 3.072e-14 },
  },
  {
    title: "The read-out matters",
    text: "The second network has $k$ outputs, and its decision must be made from them. Taking the best output of each class keeps the robustness. Adding up the outputs of each class gives much of it away, because a little of every rival adds up again: about $sqrt(d/(1+k/2))$ instead of $sqrt(d/2)$. Gradient attacks do not notice; exact radii do.",
    attempt: "Switch the read-out between max, sum and probability and watch the blue curve.",
    preset: { step: 100, readout: "sum" },
  },
  {
    title: "And on real images?",
    text: "Features of real images are not at right angles: here any two have cosine 0.5, and the noise is twice as strong. Averaging is still there. Measured with the package on MNIST and CIFAR-10, finer labels look far more robust when each network is attacked on its own loss, and gain next to nothing when the same decision is attacked in the same way for both; for small heads on frozen features, where radii are exact, they do help. <code>featavg reproduce --full</code> repeats it.",
    attempt: "Slide the angle to 30°, then try Adam. Does it average? What do its radii say?",
    preset: { step: 100, cosine: 0.5, sigma: 2 },
  },
];

// What the address calls steps 9, 10, ...: not part of the story, but told in the same place.
export const PRESETS = [
  {
    title: "5% is enough",
    text: "Only one point in twenty carries its <em class=\"decoupled\">cluster</em>, all others their class. The second network decouples nearly as well as with all labels: compare its median radius with the theory beside it.",
    attempt: "Slide the share of fine labels to 1%, then to 0: the same network, told classes alone, averages again.",
    preset: { step: 100, share: 0.05 },
  },
  {
    title: "Half of them wrong",
    text: "Every second fine label names another cluster of the class. The averaging index hardly shows it; the radius does.",
    attempt: "Press “play”. The network learns the wrong labels by heart, and its radius keeps falling. To leave a label out is better than to guess it.",
    preset: { step: 100, wrong: 0.5 },
  },
  {
    title: "Let them compete",
    text: "No fine label for the first network: it has twenty neurons for each <em class=\"averaged\">class</em>, and only the best one of them decides about a point. Whoever wins a point is pulled towards it and wins it more. The neurons specialise, and the radius leaves the average far behind.",
    attempt: "Set the pooling to mean: the radius halves. Then try other seeds: now and then two features fall to the same neuron, and the radius is shorter.",
    preset: { step: 400, pooling: "max", m: 20, d: 500, n: 500, lr: 0.00614, sigma_w: 0.001, seed: 3 },
  },
  {
    title: "Too few to compete",
    text: "The same with two neurons for the five features of a class. Each must stand for several of them, so it is an average once more, of fewer features.",
    attempt: "Raise the number of neurons to five: one each would be enough, but chance gives one neuron two features and another none.",
    preset: { step: 400, pooling: "max", m: 2, d: 500, n: 500, lr: 0.00614, sigma_w: 0.001 },
  },
];

export const EXERCISES = [
  {
    question: "Class labels, $k = 10$ features, five to a class. What cosine should the average of five orthogonal features have with each of them? Check it in the matrix.",
    answer: "The average of five orthonormal vectors has length $1/sqrt(5)$, and its product with each is $1/5$: a cosine of $1/sqrt(5) approx 0.447$. Training reaches 0.44 after 100 steps; what is missing is the share of noise in the weights.",
  },
  {
    question: "Let $k$ grow from 4 to 16 at a fixed dimension. By which factor should the averaged radius fall, and what happens to the decoupled one?",
    answer: "$sqrt(d/k)$ halves. $sqrt(d/2)$ stays where it is: an attacker must trade one whole feature for another, however many there are.",
  },
  {
    question: "Why does the noise hardly change the pictures at $d = 10^12$ and so much at $d = 30$?",
    answer: "Noise adds about $sigma$ to an inner product with a unit vector; features have length $sqrt(d)$. Relative to a feature the noise is $sigma / sqrt(d)$: nothing in a large space, and as much as a fifth at $d = 30$.",
  },
  {
    question: "Give the cluster network three neurons per cluster instead of one. Does it average again?",
    answer: "No. The neurons of a group learn the same feature: what is averaged is decided by the labels, not by the number of neurons. The index stays near 0.",
  },
  {
    question: "Slide the angle between features to 30°. Both radii shrink. Does their ratio?",
    answer: "Hardly. What features have in common tells classes nothing; what is left of a squared length is $d(1-c)$ with the cosine $c$, and it multiplies both squared radii. The ratio $sqrt(k/2)$ does not depend on $c$.",
  },
  {
    question: "With the read-out “sum”, find the direction in which the decoupled network is weak, and say why a gradient at the point does not show it.",
    answer: "A little of every rival feature at once. At the point itself the neurons of the rivals are off, so the gradient knows nothing of them; only after a finite step do they switch on and add up.",
  },
  {
    question: "Start from large weights ($0.02$ instead of $10^{minus 5}$). What happens to the averaging index, and why?",
    answer: "It stays near 0, and both radii collapse. What is learned is short beside the first weights, so nearly nothing of a neuron lies in the span of the features: the rest is noise that an attacker can use. Small weights forget where they came from.",
  },
];
