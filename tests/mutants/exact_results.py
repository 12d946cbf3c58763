"""Mutants of listed pieces, l_inf trees, witnesses and results."""

from tests.mutants import mutants_of, tests_in

EXACT_EDGES = tests_in("robustness/test_exact_edges.py")
EXACT_TIGHT = tests_in("robustness/tight")

MUTANTS = [
    *mutants_of(
        "robustness/exact/piece_search.py",
        (
            "depth = depth - error * (mass * self.reach + np.abs(shift))\n",
            "pass\n",
            "half-spaces without rounding margin in their depth",
            EXACT_TIGHT("test_listed_pieces_charge_rounding_errors"),
        ),
        (
            " + error * mass\n",
            "\n",
            "half-spaces without rounding margin in their slope",
            EXACT_TIGHT("test_listed_pieces_charge_rounding_errors"),
        ),
        (
            "errors * self.reach + shift_errors",
            "errors * self.reach",
            "rounding of the constants is not charged",
            EXACT_TIGHT("test_listed_pieces_charge_rounding_errors"),
        ),
        (
            "shift_errors = self.space.error * np.abs(self.shift[f, which])",
            "shift_errors = 0.0 * limits",
            "rounding of the constants is not charged",
            EXACT_TIGHT("test_listed_pieces_charge_rounding_errors"),
        ),
        (
            "errors = self.space.error * (np.array(cuts.mass) + self.down_mass[leaf, which])",
            "errors = 0.0 * limits",
            "rounding of slopes is not charged",
            EXACT_TIGHT("test_listed_pieces_charge_rounding_errors"),
        ),
        (
            "if pending[leaf] >= found.attack * (1.0 - SAME_WITHIN):",
            "if found.candidates:",
            "the first piece with a flip ends the search",
            EXACT_TIGHT("test_a_piece_that_looked_nearest_does_not_end_the_search"),
        ),
        (
            "found.certified = float(self.bounds.min())",
            "found.certified = float(self.bounds.max())",
            "the farthest piece is certified",
            EXACT_TIGHT("test_the_nearest_of_several_pieces"),
        ),
        (
            "float(p @ self.z) + self.shift[f, i]",
            "float(p @ self.z)",
            "later cuts lose the constant",
            EXACT_TIGHT("test_never_in_fractions"),
        ),
        (
            "                found.finished = False\n",
            "",
            "a spent budget is called finished",
            EXACT_TIGHT("test_the_nearest_of_several_pieces"),
        ),
        (
            "product((1.0, 0.0), repeat=len(chosen))",
            "product((1.0,), repeat=len(chosen))",
            "only the piece with all rivals on is searched",
            EXACT_TIGHT("test_the_nearest_of_several_pieces"),
        ),
        (
            "2 ** int(family.concave.sum())",
            "2 * int(family.concave.sum())",
            "wide networks are listed piece by piece",
            EXACT_TIGHT("test_pieces_are_as_many_as_subsets"),
        ),
    ),
    *mutants_of(
        "robustness/exact/flipped_set.py",
        (
            "rows @ space.constant - slack)",
            "rows @ space.constant + slack)",
            "the slack goes the wrong way",
            EXACT_TIGHT("test_families"),
        ),
        (
            "np.any(shift[scale == 0] > 0)",
            "np.any(shift[scale == 0] >= 0)",
            "a score of exactly zero is not flipped",
            EXACT_TIGHT("test_families"),
        ),
        (
            "difference / scale[:, None], shift / scale",
            "difference / scale[:, None], shift",
            "the constant is not scaled with its inequality",
            EXACT_TIGHT("test_families"),
        ),
        (
            "up * ((z > 0) & ~flat) - down",
            "up * (z > 0) + down",
            "at an obtuse corner the witness is not found",
            EXACT_TIGHT("test_families"),
        ),
        (
            "return np.concatenate([rows[flat], slopes[steep]])",
            "return slopes[steep]",
            "at an obtuse corner the witness is not found",
            EXACT_TIGHT("test_families"),
        ),
    ),
    *mutants_of(
        "robustness/exact/linf_tree.py",
        (
            "beta = np.clip(beta, 0.0, own @ self.family.up)",
            "beta = np.maximum(beta, 0.0)",
            "multipliers that prove nothing count",
            EXACT_TIGHT("test_the_linf_bound_clips_multipliers_that_prove_nothing"),
        ),
        (
            "own = np.maximum(multipliers[: len(constant)], 0.0)",
            "own = multipliers[: len(constant)]",
            "negative multipliers count",
            EXACT_TIGHT("test_the_linf_bound_clips_multipliers_that_prove_nothing"),
        ),
        (
            "        gap -= 1e-13 * float(own @ np.abs(constant) + beta @ np.abs(self.at_x))\n",
            "",
            "the bound ignores rounding of its depth",
            EXACT_TIGHT("test_the_linf_bound_clips_multipliers_that_prove_nothing"),
        ),
        (
            "        steep = float(np.abs(slopes).sum()) + rounded\n",
            "        steep = float(np.abs(slopes).sum())\n",
            "the bound ignores rounding of its slope",
            EXACT_TIGHT("test_the_linf_bound_clips_multipliers_that_prove_nothing"),
        ),
        (
            "height = np.where(crosses, -low * high / wide, 0.0)",
            "height = np.where(crosses, 0.5 * -low * high / wide, 0.0)",
            "lines below ReLU",
            EXACT_TIGHT("test_linf_lines_are_above_relu"),
        ),
        (
            "np.where(crosses, high / wide, (low >= 0).astype(float))",
            "np.where(crosses, high / wide, 0.0)",
            "a neuron that is on counts as off",
            EXACT_TIGHT("test_linf_lines_are_above_relu"),
        ),
        (
            "return TreeResult(min(bound, closed, attack), attack, nodes, finished=False)",
            "return TreeResult(min(closed, attack), attack, nodes, finished=False)",
            "a spent budget forgets the open nodes",
            EXACT_TIGHT("test_the_linf_search_ends_with_what_is_proven"),
        ),
        (
            "return TreeResult(min(closed, attack), attack, nodes, finished=True)",
            "return TreeResult(closed, attack, nodes, finished=True)",
            "certified beyond the ball that was searched",
            EXACT_TIGHT("test_the_linf_search_ends_with_what_is_proven"),
        ),
        (
            "low, high = self.at_x - radius * self.sizes, self.at_x + radius * self.sizes",
            "low, high = self.at_x - 0.9 * radius * self.sizes, self.at_x + 0.9 * radius * self.sizes",
            "lines drawn for a smaller ball than is searched",
            EXACT_TIGHT("test_linf_lines_are_above_relu"),
        ),
    ),
    *mutants_of(
        "robustness/exact/result.py",
        (
            "lower = robust_share(self.certified, radii)",
            "lower = robust_share(self.attack, radii)",
            "the lower curve is the attack's",
            EXACT_TIGHT("test_a_point_is_not_robust_at_its_own_radius"),
        ),
        (
            "upper = robust_share(self.attack, radii)",
            "upper = robust_share(self.certified, radii)",
            "the upper curve is the certificate's",
            EXACT_TIGHT("test_a_point_is_not_robust_at_its_own_radius"),
        ),
        (
            "gaps[np.isinf(self.attack) & np.isfinite(self.certified)] = 1.0",
            "pass",
            "no attack at all counts as no gap",
            EXACT_TIGHT("test_gaps"),
        ),
        (
            "((0, 0), (0, width - p.witness.shape[1]))",
            "((0, 0), (width - p.witness.shape[1], 0))",
            "padded witnesses are moved to other coordinates",
            EXACT_EDGES("test_joined_pads_what_no_weight_meets"),
        ),
        (
            "return cls(certified.copy(), attack.copy(), witness,",
            "return cls(certified.copy(), certified.copy(), witness,",
            "attacks are not written into their places",
            EXACT_TIGHT("test_answers_become_columns"),
        ),
        (
            "return cls(**joined, witness=np.concatenate(witnesses), norm=parts[0].norm)",
            "return cls(**joined, witness=np.concatenate(witnesses))",
            "l_inf radii become l2 when joined",
            EXACT_TIGHT("test_joined_radii_keep_their_norm"),
        ),
    ),
    *mutants_of(
        "robustness/exact/budget.py",
        (
            "for candidate in sorted(found.candidates, key=lambda one: one.length):",
            "for candidate in found.candidates:",
            "the first candidate is taken for the nearest",
            EXACT_TIGHT("test_only_steps_that_flip_are_witnesses"),
        ),
        (
            "return nodes >= self.nodes or self.late",
            "return nodes > self.nodes or self.late",
            "a budget is overdrawn",
            EXACT_TIGHT("test_a_budget_is_spent_at_its_last_node"),
        ),
        (
            "perf_counter() > self.deadline",
            "False",
            "a deadline is never met",
            EXACT_TIGHT("test_a_budget_is_spent_at_its_last_node"),
        ),
        (
            "np.linalg.lstsq(rows, -lengths)",
            "np.linalg.lstsq(rows, lengths)",
            "witnesses are nudged outwards, back over the boundary",
            EXACT_TIGHT("test_inwards_is_away_from_every_constraint"),
        ),
    ),
    *mutants_of(
        "robustness/exact/two_layer.py",
        (
            "alone = decision.margins(points[:1], label)[0] <= 0",
            "alone = True",
            "a step that does not flip is a witness",
            EXACT_TIGHT("test_only_steps_that_flip_are_witnesses"),
        ),
        (
            "    if off is not None:\n        ways.append(scale * off)\n",
            "",
            "at an obtuse corner the witness is not found",
            EXACT_EDGES("test_obtuse_corner"),
        ),
        (
            "return np.asarray(point) if decision.margins(point[None], label)[0] <= 0 else None",
            "return np.asarray(point)",
            "a corner that does not flip is a witness",
            EXACT_TIGHT("test_only_steps_that_flip_are_witnesses"),
        ),
    ),
    *mutants_of(
        "robustness/geometry/subspace.py",
        (
            "norms = lengths * largest[alive]",
            "norms = lengths",
            "weights lose their size",
            EXACT_TIGHT("test_families"),
        ),
        (
            "np.maximum(net.biases[~alive], 0.0)",
            "net.biases[~alive] * 0.0",
            "constant neurons are dropped",
            EXACT_TIGHT("test_families"),
        ),
        (
            "error=(net.dimension + net.neurons + 8) * ROUND_OFF",
            "error=ROUND_OFF",
            "a sum of d products is charged one rounding",
            EXACT_TIGHT("test_the_subspace_keeps_the_network"),
        ),
        (
            "offsets=net.biases[alive] / norms",
            "offsets=net.biases[alive]",
            "biases are not scaled with their weights",
            EXACT_TIGHT("test_the_subspace_keeps_the_network"),
        ),
    ),
]
