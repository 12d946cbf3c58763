"""Data drawn in the page have the law they have in R^d: five moments of every kind of product."""

import numpy as np
import pytest

DRAWS = 4000
NORMAL_ERRORS = 5.0  # of 2 x 7 x 5 moments none is this far off by chance

DRAW = """({ d, draws, n }) => {
  const rows = [];
  for (let seed = 0; seed < draws; seed++) {
    const task = L.makeTask({ k: 2, d, alpha: 0, sigma: 1, positive: 1, cosine: 0.3 });
    const data = L.drawTraining(task, { n, neurons: 2, seed, keepsRotations: true });
    const test = L.drawTest(task, data, 1, seed);
    const N = data.width;
    const pick = (a, i) => a.subarray(i * N, (i + 1) * N);
    const dot = (a, b) => { let s = 0; for (let t = 0; t < N; t++) s += a[t] * b[t]; return s; };
    const [w, v] = [pick(data.unitWeights, 0), pick(data.unitWeights, 1)];
    const [x, z] = [pick(data.x, n - 2), pick(data.x, n - 1)];
    const mu = pick(data.features, 1);
    const root = Math.sqrt(d);
    rows.push([(dot(w, w) - d) / root, dot(w, v) / root, (dot(z, z) - d) / root, dot(x, z) / root,
      dot(x, mu) / root, dot(w, z) / root, dot(test.x, z) / root]);
  }
  return rows;
}"""


def directly(d, draws):
    """The same products of vectors in R^d itself."""
    rng = np.random.default_rng(0)
    w, v, x, z, t = (rng.standard_normal((draws, d)) for _ in range(5))
    mu = np.zeros(d)
    mu[:2] = np.sqrt(d) * np.array([0.3, np.sqrt(1 - 0.09)])

    def dot(a, b):
        return (a * b).sum(axis=1)

    squares = (dot(w, w) - d, dot(w, v), dot(z, z) - d, dot(x, z), x @ mu, dot(w, z), dot(t, z))
    return np.stack(squares, axis=1) / np.sqrt(d)


def at_infinity(draws):
    """What the products become as d grows: normals, of variance 2 for squared lengths."""
    rows = np.random.default_rng(1).standard_normal((draws, 7))
    rows[:, [0, 2]] *= np.sqrt(2)
    return rows


@pytest.mark.parametrize(("d", "n"), [(40, 6), (10**12, 6)])
def test_five_moments_agree(laboratory, d, n):
    page = np.array(laboratory(DRAW, {"d": d, "draws": DRAWS, "n": n}))
    truth = directly(d, 50_000) if d < 100 else at_infinity(200_000)
    for power in range(1, 6):
        ours, theirs = page**power, truth**power
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        off = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / error
        assert np.all(off < NORMAL_ERRORS), (power, off)


def test_drawing_is_repeatable_and_purposes_are_apart(laboratory):
    first, again, other = laboratory(
        """() => [[0, "a"], [0, "a"], [0, "b"]].map(([seed, purpose]) => {
             const random = new L.Random(seed, purpose);
             return Array.from({ length: 5 }, () => random.normal());
           })"""
    )
    assert first == again
    assert not set(first) & set(other)


def test_chi_of_few_degrees(laboratory):
    drawn = np.array(
        laboratory(
            """() => [1, 2, 3].map((degrees) => {
                 const random = new L.Random(7, "chi");
                 return Array.from({ length: 20000 }, () => random.chi(degrees) ** 2);
               })"""
        )
    )
    for degrees, squares in zip((1, 2, 3), drawn, strict=True):
        error = np.sqrt(2 * degrees / len(squares))
        assert abs(squares.mean() - degrees) < 5 * error
        assert squares.var() == pytest.approx(2 * degrees, rel=0.15)
