// Random numbers that a seed and a purpose decide, so that a link shows everybody the same run.

// Two purposes of one seed are independent streams: drawing more test points must not change
// the training points.
function hash(text) {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

function rotl(x, k) {
  return (x << k) | (x >>> (32 - k));
}

// xoshiro128**, filled by splitmix32.
export class Random {
  constructor(seed, purpose) {
    let s = (Math.imul(seed >>> 0, 0x9e3779b1) ^ hash(purpose) ^ Math.floor(seed / 4294967296)) >>> 0;
    this.s = new Uint32Array(4);
    for (let i = 0; i < 4; i++) {
      s = (s + 0x9e3779b9) >>> 0;
      let z = s;
      z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
      z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
      this.s[i] = z ^ (z >>> 16);
    }
    this.spare = NaN;
    for (let i = 0; i < 20; i++) this.bits();
  }

  bits() {
    const s = this.s;
    const result = Math.imul(rotl(Math.imul(s[1], 5), 7), 9) >>> 0;
    const t = s[1] << 9;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 11);
    return result;
  }

  // In [0, 1), with all 53 bits of a double.
  uniform() {
    return ((this.bits() >>> 5) * 67108864 + (this.bits() >>> 6)) / 9007199254740992;
  }

  below(count) {
    return Math.floor(this.uniform() * count);
  }

  // Marsaglia's polar method: exact in law, two normals for one logarithm.
  normal() {
    if (!Number.isNaN(this.spare)) {
      const value = this.spare;
      this.spare = NaN;
      return value;
    }
    let u, v, q;
    do {
      u = 2 * this.uniform() - 1;
      v = 2 * this.uniform() - 1;
      q = u * u + v * v;
    } while (q >= 1 || q === 0);
    const f = Math.sqrt((-2 * Math.log(q)) / q);
    this.spare = v * f;
    return u * f;
  }

  // The length of a standard normal vector of `degrees` dimensions. Marsaglia and Tsang's gamma
  // sampler costs the same at 3 degrees and at 1e12, and rejects almost nothing at the latter.
  chi(degrees) {
    if (degrees < 1) return 0;
    if (degrees < 2) return Math.abs(this.normal());
    const d = degrees / 2 - 1 / 3;
    const c = 1 / Math.sqrt(9 * d);
    for (;;) {
      const x = this.normal();
      const root = 1 + c * x;
      if (root <= 0) continue;
      const v = root * root * root;
      const u = 1 - this.uniform();
      if (Math.log(u) < 0.5 * x * x + d * (1 - v + Math.log(v))) return Math.sqrt(2 * d * v);
    }
  }
}
