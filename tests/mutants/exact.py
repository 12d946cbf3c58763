"""Mutants of robustness/exact: every one of them makes a certificate wrong, or an answer."""

from tests.mutants import Mutant

TIGHT = "tests/robustness/test_exact_tight.py"
EDGES = "tests/robustness/test_exact_edges.py"
EXACT = "robustness/exact"


def _of(name: str, tests: str, *changes: tuple[str, str]) -> list[Mutant]:
    return [Mutant(f"{EXACT}/{name}.py", before, after, tests) for before, after in changes]


MUTANTS = [
    Mutant(
        "measures/accuracy.py",
        "radii[None, :] > np.asarray(at, dtype=float)[:, None]",
        "radii[None, :] >= np.asarray(at, dtype=float)[:, None]",
        f"{TIGHT} -k own_radius",
    ),
    *_of(
        "qp",
        f"{TIGHT} -k half_space or nearest_point or rows_without or second_opinion",
        ("multipliers @ (limits + limit_errors)", "multipliers @ limits"),
        (" + float(multipliers @ row_errors)", ""),
        ("return depth / length if length > 0.0 else math.inf", "return depth / max(length, 1.0)"),
        ("empty = (lengths == 0.0) & (limits < 0.0)", "empty = (lengths == 0.0) & (limits <= 0.0)"),
        ("        u * scale if flag == 1 else None,", "        u if flag == 1 else None,"),
        ("    multipliers[kept] = found.multipliers\n", ""),
        ("-residual[:r] / residual[r] * scale", "residual[:r] / residual[r] * scale"),
        ("max(bound, first.bound),", "min(bound, first.bound),"),
    ),
    *_of(
        "relaxation",
        f"{TIGHT} -k chords or split",
        ("slope = (lo >= 0).astype(float)", "slope = (lo > 0).astype(float)"),
        ("np.where(mixed, -lo * slope, 0.0)", "np.where(mixed, -0.9 * lo * slope, 0.0)"),
        ("hi[r] = high[r] = lo[r] = low[r] = at", "hi[r] = high[r] = lo[r] = at"),
        ("Box(lo, self.hi, low, self.high, r)", "Box(lo, self.hi, self.low, self.high, r)"),
    ),
    *_of(
        "bound_tightening",
        f"{TIGHT} -k cap or shrunk",
        ("    spread += problem.error * (problem.reach + limit)\n", ""),
        ("problem.error * (problem.reach + limit)", "problem.error * problem.reach"),
        ("if away > limit:", "if away >= limit:"),
        ("edge = depth * along + across", "edge = 0.9 * depth * along + across"),
        ("max(radius**2 - depth**2, 0.0)", "max(radius - depth, 0.0)"),
        ("inside = radius * along >= depth * problem.lengths", "inside = radius * along >= radius"),
        ("along = np.stack([along, -along])", "along = np.stack([along, along])"),
        ("((1.0, box.low[r]), (-1.0, -box.high[r]))", "((1.0, box.low[r]), (-1.0, box.high[r]))"),
        (
            "lo = np.maximum(box.lo, problem.z - spread[1])",
            "lo = np.maximum(box.lo, problem.z - spread[0])",
        ),
    ),
    *_of(
        "branch_and_bound",
        f"{TIGHT} -k stiffness or separable or candidate or outwards or spent_budget or beyond_the_goal",
        ("1.0 / (largest * (1.0 + 1e-10))", "1.1 / largest"),
        ("1.0 / (largest * (1.0 + 1e-10))", "0.9 / largest"),
        ("            certified = min(certified, self._goal())\n", ""),
        ("        total -= 4.0 * self.space.error * size\n", ""),
        ("step = -(price.kappa @ self.rows)", "step = price.kappa @ self.rows"),
        ("limit >= min(self._goal(), FARTHEST * self.reach)", "limit >= self.reach"),
        ("return min(settled, node.bound), False", "return settled, False"),
        (
            "self.found.certified = max(self.floor, certified)",
            "self.found.certified = 1.001 * certified",
        ),
    ),
    *_of(
        "cutting_planes",
        f"{TIGHT} -k cutting_planes",
        ("errors * problem.reach + shift", "errors * problem.reach"),
        ("errors * problem.reach + shift", "shift"),
        (
            "        errors = problem.error * np.abs(cuts.coefficients).sum(axis=1)\n",
            "        errors = np.zeros(len(cuts.constants))\n",
        ),
        (
            "constants = np.concatenate([box.low[low], -box.high[high]])",
            "constants = np.concatenate([box.low[low], box.high[high]])",
        ),
        ("scaled = answer.multipliers * (target / length)", "scaled = answer.multipliers * target"),
    ),
    *_of(
        "relu_relaxation",
        f"{TIGHT} -k relu",
        (
            "self.family.down @ offset, self.shares)",
            "self.family.down @ (0.5 * offset), self.shares)",
        ),
        ("self.family.shift - side.constants,", "self.family.shift,"),
        ("2.0 * a * np.maximum(places, 0.0)", "2.0 * a * places"),
        ("np.where(stiffness > 0, np.minimum(z + kappa / soft, 0.0), 0.0),", "np.zeros_like(z),"),
        ("(stiffness * s - 2.0 * kappa) * s", "(stiffness * s - kappa) * s"),
        (
            "np.max(self.net @ np.maximum(z, 0.0) + self.family.shift)",
            "np.max(self.net @ np.maximum(z, 0.0))",
        ),
    ),
    *_of(
        "probability_relaxation",
        f"{TIGHT} -k probability_sides",
        (
            "constants = bottom + rise * (self.rival @ relu_offset",
            "constants = rise * (self.rival @ relu_offset",
        ),
        (
            "np.where(rise > 0, bottom[v] - rise * lo, top[v])",
            "np.where(rise > 0, bottom[v] - rise * hi, top[v])",
        ),
        ("rise = _ratio(top - bottom, highest - lowest, top)", "rise = bottom"),
        ("- np.log(a) + 1.0 - side.constants / a", "- np.log(a) - side.constants / a"),
        ("slope[None] - side.coefficients / a", "slope[None] - side.coefficients"),
        ("constant - side.log_scale - np.log(a)", "constant - np.log(a)"),
        ("constants = power - slopes @ z", "constants = power"),
        ("slope = (weights @ self.own) * on", "slope = weights @ self.own"),
        ("+ below.constant", ""),
        ("return own - rival", "return rival - own"),
    ),
    *_of(
        "probability_terms",
        f"{TIGHT} tests/robustness/test_exact_bracket.py -k probability_terms or overflow or term_bound",
        ("-2.0 * weight * float(np.exp(f[self.mute]).sum())", "0.0"),
        ("np.log(self.jensen) - beta * on[r]", "-beta * on[r]"),
        ("values[5] += np.minimum(self.slope(x), 0.0) * (turn - x)", "pass"),
        (
            "places = np.stack([lo, vertex, start, hi, turn, x])",
            "places = np.stack([lo, vertex, start, x, turn, x])",
        ),
        (
            "float((power * (1.0 - self.own @ on))[self.plural].sum())",
            "float(power[self.plural].sum())",
        ),
        (
            "np.where(k > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), -np.inf)",
            "near[r] + 0.0 * root",
        ),
        ("least, constant = np.where(np.isfinite(least), least, -np.inf), -np.inf", "pass"),
    ),
    *_of(
        "piece_search",
        f"{TIGHT} -k pieces",
        ("depth = depth - error * (mass * self.reach + np.abs(shift))\n", "pass\n"),
        (" + error * mass\n", "\n"),
        ("errors * self.reach + shift_errors", "errors * self.reach"),
        (
            "shift_errors = self.space.error * np.abs(self.shift[f, which])",
            "shift_errors = 0.0 * limits",
        ),
        (
            "errors = self.space.error * (np.array(cuts.mass) + self.down_mass[leaf, which])",
            "errors = 0.0 * limits",
        ),
        ("if pending[leaf] >= found.attack * (1.0 - SAME):", "if found.candidates:"),
        (
            "found.certified = float(self.bounds.min())",
            "found.certified = float(self.bounds.max())",
        ),
        ("float(p @ self.z) + self.shift[f, i]", "float(p @ self.z)"),
        ("                found.finished = False\n", ""),
    ),
    *_of(
        "pieces",
        f"{TIGHT} -k several_pieces",
        ("product((1.0, 0.0), repeat=len(chosen))", "product((1.0,), repeat=len(chosen))"),
        ("2 ** int(family.concave.sum())", "2 * int(family.concave.sum())"),
    ),
    *_of(
        "flipped_set",
        f"{TIGHT} {EDGES} -k families or obtuse",
        ("rows @ space.constant - slack)", "rows @ space.constant + slack)"),
        ("np.any(shift[scale == 0] > 0)", "np.any(shift[scale == 0] >= 0)"),
        ("difference / scale[:, None], shift / scale", "difference / scale[:, None], shift"),
        ("up * ((z > 0) & ~flat) - down", "up * (z > 0) + down"),
        ("return np.concatenate([rows[flat], slopes[steep]])", "return slopes[steep]"),
    ),
    *_of(
        "farkas",
        f"{TIGHT} -k farkas or fractions",
        ("and constant > 0", "and constant >= 0"),
        ("all(v >= 0 for v in null)", "all(v <= 0 or v >= 0 for v in null)"),
        ("constant += a * max(self.biases[r], Fraction(0))", "constant += a * self.biases[r]"),
        ("return work[done][1] if done == size - 1 else None", "return work[done][1]"),
        ("                constant += a * self.biases[r]\n", ""),
    ),
    *_of(
        "domination",
        f"{EDGES} -k flips_somewhere or shares or never_is_proven or solving",
        ("own.sum() <= (~own).sum()", "own.sum() < (~own).sum()"),
        ("        if slope[r] * biases[r] > raised:\n            return False\n", ""),
        ("if exact is None or any(v < 0 for v in exact):", "if exact is None:"),
        ("all(sum(table[o, v] for v in rivals) <= 1 for o in outputs)", "True"),
        (
            "columns_fit = all(sum(table[o, v] for o in outputs) <= 1 for v in rivals)",
            "columns_fit = True",
        ),
        ("    if any(row[size] != 0 for row in rows[len(pivots) :]):\n        return None\n", ""),
    ),
    *_of(
        "linf_tree",
        f"{TIGHT} -k linf",
        ("beta = np.clip(beta, 0.0, own @ self.family.up)", "beta = np.maximum(beta, 0.0)"),
        (
            "own = np.maximum(multipliers[: len(constant)], 0.0)",
            "own = multipliers[: len(constant)]",
        ),
        ("        gap -= 1e-13 * float(own @ np.abs(constant) + beta @ np.abs(self.at_x))\n", ""),
        ("        steep += 1e-13 * float((beta + own @ np.abs(slanted)) @ self.sizes)\n", ""),
        (
            "height = np.where(crosses, -low * high / wide, 0.0)",
            "height = np.where(crosses, 0.5 * -low * high / wide, 0.0)",
        ),
        (
            "np.where(crosses, high / wide, (low >= 0).astype(float))",
            "np.where(crosses, high / wide, 0.0)",
        ),
        (
            "return TreeResult(min(bound, closed, attack), attack, nodes, finished=False)",
            "return TreeResult(min(closed, attack), attack, nodes, finished=False)",
        ),
        (
            "return TreeResult(min(closed, attack), attack, nodes, finished=True)",
            "return TreeResult(closed, attack, nodes, finished=True)",
        ),
    ),
    *_of(
        "result",
        f"{TIGHT} {EDGES} -k own_radius or gaps or put_and or joined",
        ("lower = robust_share(self.certified, radii)", "lower = robust_share(self.attack, radii)"),
        ("upper = robust_share(self.attack, radii)", "upper = robust_share(self.certified, radii)"),
        ("gaps[np.isinf(self.attack) & np.isfinite(self.certified)] = 1.0", "pass"),
        ("((0, 0), (0, width - p.witness.shape[1]))", "((0, 0), (width - p.witness.shape[1], 0))"),
        (
            '            if column.name != "norm":\n',
            '            if column.name not in ("norm", "attack"):\n',
        ),
    ),
    *_of(
        "budget",
        f"{TIGHT} -k budget_is_spent",
        ("if nodes >= self.nodes:", "if nodes > self.nodes:"),
        ("perf_counter() > self.deadline", "False"),
    ),
    *_of(
        "witness",
        f"{TIGHT} {EDGES} -k only_steps or obtuse",
        ("alone = margins(net, points[:1], label[:1], positive, readout)[0] <= 0", "alone = True"),
        (
            "for candidate in sorted(found.candidates, key=lambda one: one.length):",
            "for candidate in found.candidates:",
        ),
        ("    if off is not None:\n        ways.append(scale * off)\n", ""),
    ),
    *_of(
        "subspace",
        f"{TIGHT} -k subspace",
        ("norms = lengths * largest[alive]", "norms = lengths"),
        ("np.maximum(net.biases[~alive], 0.0)", "net.biases[~alive] * 0.0"),
        ("error=(net.dimension + net.neurons + 8) * ROUND_OFF", "error=ROUND_OFF"),
        ("offsets=net.biases[alive] / norms", "offsets=net.biases[alive]"),
    ),
]
