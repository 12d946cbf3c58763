// The little linear algebra that the page needs. Matrices are rows in one Float64Array.

export function dot(a, b) {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i] * b[i];
  return total;
}

export function norm(a) {
  let largest = 0;
  for (let i = 0; i < a.length; i++) largest = Math.max(largest, Math.abs(a[i]));
  if (largest === 0 || !Number.isFinite(largest)) return largest;
  let total = 0;
  for (let i = 0; i < a.length; i++) total += (a[i] / largest) ** 2;
  return largest * Math.sqrt(total);
}

export function row(matrix, width, i) {
  return matrix.subarray(i * width, (i + 1) * width);
}

// rows x columns of A times the transpose of B.
export function timesTransposed(a, aRows, b, bRows, width) {
  const out = new Float64Array(aRows * bRows);
  for (let i = 0; i < aRows; i++) {
    for (let j = 0; j < bRows; j++) {
      let total = 0;
      const p = i * width;
      const q = j * width;
      for (let t = 0; t < width; t++) total += a[p + t] * b[q + t];
      out[i * bRows + j] = total;
    }
  }
  return out;
}

// Lower-triangular factor of a positive semi-definite matrix. Features may be linearly dependent
// (pairwise cosine -1/(k-1)): a pivot that is zero up to rounding gives a column of zeros.
export function cholesky(gram, k) {
  const lower = new Float64Array(k * k);
  let trace = 0;
  for (let i = 0; i < k; i++) trace += gram[i * k + i];
  for (let j = 0; j < k; j++) {
    let pivot = gram[j * k + j];
    for (let t = 0; t < j; t++) pivot -= lower[j * k + t] ** 2;
    const diagonal = pivot > 1e-14 * trace ? Math.sqrt(pivot) : 0;
    lower[j * k + j] = diagonal;
    for (let i = j + 1; i < k; i++) {
      let total = gram[i * k + j];
      for (let t = 0; t < j; t++) total -= lower[i * k + t] * lower[j * k + t];
      lower[i * k + j] = diagonal > 0 ? total / diagonal : 0;
    }
  }
  return lower;
}

// Solves L L^T x = b; directions that L does not have get no share.
export function choleskySolve(lower, k, b) {
  const x = Float64Array.from(b);
  for (let i = 0; i < k; i++) {
    for (let t = 0; t < i; t++) x[i] -= lower[i * k + t] * x[t];
    x[i] = lower[i * k + i] > 0 ? x[i] / lower[i * k + i] : 0;
  }
  for (let i = k - 1; i >= 0; i--) {
    for (let t = i + 1; t < k; t++) x[i] -= lower[t * k + i] * x[t];
    x[i] = lower[i * k + i] > 0 ? x[i] / lower[i * k + i] : 0;
  }
  return x;
}

// Orthonormal rows Q and lower-triangular T with rows = T Q. Twice is enough: Gram-Schmidt
// repeated once is orthogonal to rounding even for the nearly parallel weights of an average.
export function orthonormalRows(rows, count, width) {
  const q = new Float64Array(count * width);
  const t = new Float64Array(count * count);
  for (let i = 0; i < count; i++) {
    const own = row(q, width, i);
    own.set(row(rows, width, i));
    const start = norm(own);
    for (let pass = 0; pass < 2; pass++) {
      for (let j = 0; j < i; j++) {
        const other = row(q, width, j);
        const share = dot(own, other);
        t[i * count + j] += share;
        for (let s = 0; s < width; s++) own[s] -= share * other[s];
      }
    }
    const left = norm(own);
    const fresh = left > 1e-15 * start;
    t[i * count + i] = fresh ? left : 0;
    for (let s = 0; s < width; s++) own[s] = fresh ? own[s] / left : 0;
  }
  return { q, t };
}
