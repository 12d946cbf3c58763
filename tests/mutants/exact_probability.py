"""Mutants of the probability read-out, and of the proofs that nothing flips."""

from tests.mutants import mutants_of, tests_in

EXACT_EDGES = tests_in("robustness/test_exact_edges.py")
EXACT_TIGHT = tests_in("robustness/tight")

MUTANTS = [
    *mutants_of(
        "robustness/exact/probability.py",
        (
            "constants = bottom + rise * (self.rival @ relu_offset",
            "constants = rise * (self.rival @ relu_offset",
            "chords of exp too low",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "np.where(rise > 0, bottom[v] - rise * lo, top[v])",
            "np.where(rise > 0, bottom[v] - rise * hi, top[v])",
            "chords of exp through the wrong end",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "rise = _ratio(top - bottom, highest - lowest, top)",
            "rise = bottom",
            "a tangent in the place of a chord",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "- log_a + 1.0 - side.constants / a",
            "- log_a - side.constants / a",
            "the tangent of the logarithm is one too low",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "slope[None] - side.coefficients / a",
            "slope[None] - side.coefficients",
            "the tangent of the logarithm has the wrong slope",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "constant - side.log_scale - log_a",
            "constant - log_a",
            "the common exponent is forgotten",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "constants = power - slopes @ z",
            "constants = power",
            "tangents of exp that do not touch",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "slope = (weights @ self.own) * on",
            "slope = weights @ self.own",
            "the tangent of the own side ignores ReLUs",
            EXACT_TIGHT("test_a_probability_cut_where_the_own_neuron_is_off"),
        ),
        (
            "+ below.constant",
            "",
            "the mean of rivals without the logarithm of their number",
            EXACT_TIGHT("test_all_rivals_alike_touch_where_they_are_alike"),
        ),
        (
            "return own - rival",
            "return rival - own",
            "flipped and not flipped change places",
            EXACT_TIGHT("test_probability_sides_and_cuts"),
        ),
        (
            "sizes[v] = top[v] + rise * np.abs(lo)",
            "sizes[v] = top[v]",
            "rounding of the chord's constant is not charged",
            EXACT_TIGHT("test_a_probability_chord_says_how_large_its_sums_were"),
        ),
    ),
    *mutants_of(
        "robustness/exact/probability_terms.py",
        (
            "-2.0 * weight * float(np.exp(f[self.mute]).sum())",
            "0.0",
            "rivals without a neuron are forgotten: the bound is too large",
            EXACT_TIGHT("test_probability_terms_are_below_the_whole"),
        ),
        (
            "np.log(self.jensen) - beta * on[r]",
            "-beta * on[r]",
            "Jensen's shares do not sum to one",
            EXACT_TIGHT("test_probability_terms_are_below_the_whole"),
        ),
        (
            "values[5] += np.minimum(self.slope(x), 0.0) * (turn - x)",
            "pass",
            "where Newton stops early the least value is too large",
            EXACT_TIGHT("test_a_rival_term_is_below_its_least_value_where_newton_stops_early"),
        ),
        (
            "places = np.stack([lo, vertex, start, hi, turn, x])",
            "places = np.stack([lo, vertex, start, x, turn, x])",
            "the upper end is not looked at",
            EXACT_TIGHT("test_probability_terms_are_below_the_whole"),
        ),
        (
            "float((power * (1.0 - self.own @ on))[self.plural].sum())",
            "float(power[self.plural].sum())",
            "the tangent plane of an own group has the wrong constant",
            EXACT_TIGHT("test_probability_terms_are_below_the_whole"),
        ),
        (
            "np.where(k > 0, np.maximum(np.nan_to_num(root, nan=0.0), 0.0), -np.inf)",
            "near[r] + 0.0 * root",
            "the least value of an own term is not looked for",
            EXACT_TIGHT("test_probability_terms_are_below_the_whole"),
        ),
        (
            "least, constant = np.where(np.isfinite(least), least, -np.inf), -np.inf",
            "pass",
            "an overflow proves something",
            EXACT_TIGHT("test_exponentials_that_overflow_prove_nothing"),
        ),
    ),
    *mutants_of(
        "robustness/exact/farkas.py",
        (
            "and constant > 0",
            "and constant >= 0",
            "a system that holds at one point, where the score is zero, is called empty",
            EXACT_TIGHT("test_farkas_needs_a_strict_sign"),
        ),
        (
            "all(v >= 0 for v in null)",
            "all(v <= 0 or v >= 0 for v in null)",
            "negative multipliers prove anything",
            EXACT_TIGHT("test_farkas_needs_a_strict_sign"),
        ),
        (
            "return work[done][1] if done == size - 1 else None",
            "return work[done][1]",
            "one of several null vectors is taken for all",
            EXACT_TIGHT("test_farkas_needs_a_strict_sign"),
        ),
    ),
    *mutants_of(
        "robustness/exact/farkas.py",
        (
            "own.sum() <= (~own).sum()",
            "own.sum() < (~own).sum()",
            "a tie, which is flipped, is excluded without proof",
            EXACT_EDGES("test_what_flips_somewhere_is_not_called_never"),
        ),
        (
            "        if slope[r] * biases[r] > raised:\n            return False\n",
            "",
            "biases may lift a rival above its mixture",
            EXACT_TIGHT("test_a_mixture_is_checked_in_fractions"),
        ),
        (
            "if exact is None or any(v < 0 for v in exact):",
            "if exact is None:",
            "negative mixtures dominate anything",
            EXACT_TIGHT("test_a_mixture_is_checked_in_fractions"),
        ),
        (
            "all(sum(table[o, v] for v in rivals) <= 1 for o in outputs)",
            "True",
            "an own output is used more than once",
            EXACT_EDGES("test_equal_shares_are_no_proof_but_a_full_row_is"),
        ),
        (
            "columns_fit = all(sum(table[o, v] for o in outputs) <= 1 for v in rivals)",
            "columns_fit = True",
            "a mixture of more than everything",
            EXACT_TIGHT("test_a_mixture_is_checked_in_fractions"),
        ),
        (
            "    if any(row[size] != 0 for row in rows[len(pivots) :]):\n        return None\n",
            "",
            "equations that contradict each other are called solved",
            EXACT_EDGES("test_solving_in_fractions"),
        ),
    ),
]
