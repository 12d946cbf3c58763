"""Mutants of the quadratic programs, relaxations and branch and bound of exact l2 radii."""

from tests.mutants import mutants_of, tests_in

EXACT_TIGHT = tests_in("robustness/tight")

MUTANTS = [
    *mutants_of(
        "robustness/geometry/qp.py",
        (
            "multipliers @ (limits + limit_errors)",
            "multipliers @ limits",
            "the certificate ignores the rounding of the limits",
            EXACT_TIGHT("test_rows_without_direction"),
        ),
        (
            " + float(multipliers @ row_errors)",
            "",
            "the certificate ignores the rounding of the rows",
            EXACT_TIGHT("test_the_half_space_is_charged_for_every_rounding_error"),
        ),
        (
            "return depth / length if length > 0.0 else math.inf",
            "return depth / max(length, 1.0)",
            "an empty set is called near, a short normal shortens the bound",
            EXACT_TIGHT("test_the_half_space_is_charged_for_every_rounding_error"),
        ),
        (
            "empty = (lengths == 0.0) & (limits < 0.0)",
            "empty = (lengths == 0.0) & (limits <= 0.0)",
            "0 <= 0, which holds everywhere, proves emptiness",
            EXACT_TIGHT("test_rows_without_direction"),
        ),
        (
            "        u * scale if flag == 1 else None,",
            "        u if flag == 1 else None,",
            "the solver's point is in the wrong unit",
            EXACT_TIGHT("test_the_nearest_point_and_its_bound_meet"),
        ),
        (
            "    multipliers[kept] = found.multipliers\n",
            "",
            "the multipliers of rows beside an empty one are lost",
            EXACT_TIGHT("test_rows_without_direction"),
        ),
        (
            "-residual[:r] / residual[r] * scale",
            "residual[:r] / residual[r] * scale",
            "the second opinion points the other way",
            EXACT_TIGHT("test_the_second_opinion_alone"),
        ),
        (
            "max(bound, first.bound),",
            "min(bound, first.bound),",
            "the weaker of two proofs counts",
            EXACT_TIGHT("test_the_second_opinion_alone"),
        ),
        (
            "if not depth > 0.0:",
            "if not depth > -1.0:",
            "a half-space that holds zero gets a negative distance",
            EXACT_TIGHT("test_the_half_space_is_charged_for_every_rounding_error"),
        ),
        (
            "    if u is not None and np.any(a @ u > scale * (b + 1e-9)):\n        u = None\n",
            "",
            "a point outside the polyhedron is taken for its nearest point",
            EXACT_TIGHT("test_a_second_opinion_outside_the_polyhedron_is_none"),
        ),
        (
            "low, high = (bounds[0] - x) / reach, (bounds[1] - x) / reach",
            "low, high = bounds[0] / reach, bounds[1] / reach",
            "the box of a shortest step is around zero, not around x",
            EXACT_TIGHT("test_shortest_steps_in_a_box_and_out_of_reach"),
        ),
        (
            "return None if delta is None else delta * reach",
            "return delta",
            "a shortest step in the wrong unit",
            EXACT_TIGHT("test_shortest_steps_in_a_box_and_out_of_reach"),
        ),
        (
            "return delta if np.all(rows @ delta - limits <= 1e-4) else None",
            "return delta",
            "a step that does not arrive is called the shortest",
            EXACT_TIGHT("test_shortest_steps_in_a_box_and_out_of_reach"),
        ),
        (
            "if solution.status != 0 or not solution.x[-1] > 0:",
            "if solution.status != 0:",
            "a program without a solution is divided by zero",
            EXACT_TIGHT("test_shortest_steps_in_a_box_and_out_of_reach"),
        ),
    ),
    *mutants_of(
        "robustness/exact/relaxation.py",
        (
            "slope = (lo >= 0).astype(float)",
            "slope = (lo > 0).astype(float)",
            "a chord below ReLU: the relaxation loses flipped points",
            EXACT_TIGHT("test_chords_are_above_relu_and_meet_it_at_both_ends"),
        ),
        (
            "np.where(mixed, -lo * slope, 0.0)",
            "np.where(mixed, -0.9 * lo * slope, 0.0)",
            "a chord below ReLU: the relaxation loses flipped points",
            EXACT_TIGHT("test_chords_are_above_relu_and_meet_it_at_both_ends"),
        ),
        (
            "hi[r] = high[r] = lo[r] = low[r] = at",
            "hi[r] = high[r] = lo[r] = at",
            "a split that is not imposed on the program",
            EXACT_TIGHT("test_a_split_covers_the_box"),
        ),
        (
            "Box(lo, self.hi, low, self.high, r)",
            "Box(lo, self.hi, self.low, self.high, r)",
            "a split that is not imposed on the program",
            EXACT_TIGHT("test_a_split_covers_the_box"),
        ),
        (
            "return np.abs(self.constants) if self.magnitude is None else self.magnitude",
            "return np.abs(self.constants)",
            "rounding of cancelled terms is not charged",
            EXACT_TIGHT("test_a_probability_chord_says_how_large_its_sums_were"),
        ),
    ),
    *mutants_of(
        "robustness/exact/cutting_planes.py",
        (
            "    spread += problem.error * (problem.reach + limit)\n",
            "",
            "bounds of neurons without rounding margin",
            EXACT_TIGHT("test_a_shrunk_box_holds_the_ball_the_cap_and_the_split"),
        ),
        (
            "problem.error * (problem.reach + limit)",
            "problem.error * problem.reach",
            "rounding of the step is not charged",
            EXACT_TIGHT("test_a_shrunk_box_holds_the_ball_the_cap_and_the_split"),
        ),
        (
            "if away > limit:",
            "if away >= limit:",
            "a flip exactly at the limit is cut off",
            EXACT_TIGHT("test_a_shrunk_box_holds_the_ball_the_cap_and_the_split"),
        ),
        (
            "edge = depth * along + across",
            "edge = 0.9 * depth * along + across",
            "the cap is cut too small: flips fall out of it",
            EXACT_TIGHT("test_the_cap_is_the_cap"),
        ),
        (
            "max(radius**2 - depth**2, 0.0)",
            "max(radius - depth, 0.0)",
            "the cap has the wrong rim",
            EXACT_TIGHT("test_the_cap_is_the_cap"),
        ),
        (
            "inside = radius * along >= depth * problem.lengths",
            "inside = radius * along >= radius",
            "the wrong end of the cap is taken",
            EXACT_TIGHT("test_the_cap_is_the_cap"),
        ),
        (
            "along = np.stack([along, -along])",
            "along = np.stack([along, along])",
            "the lower bound is that of the other side",
            EXACT_TIGHT("test_the_cap_is_the_cap"),
        ),
        (
            "((1.0, box.low[r]), (-1.0, -box.high[r]))",
            "((1.0, box.low[r]), (-1.0, box.high[r]))",
            "the upper side of a split is mirrored",
            EXACT_TIGHT("test_a_shrunk_box_holds_the_ball_the_cap_and_the_split"),
        ),
        (
            "lo = np.maximum(box.lo, problem.z - spread[1])",
            "lo = np.maximum(box.lo, problem.z - spread[0])",
            "the lower bound is that of the upper side",
            EXACT_TIGHT("test_a_better_candidate_lowers_what_is_certified"),
        ),
    ),
    *mutants_of(
        "robustness/exact/branch_and_bound.py",
        # Not here, because `run` takes the minimum with the last goal: that a node is closed with the limit
        # of its time, or that the last open node is forgotten. Nor that worse candidates are kept, too: the
        # shortest is looked for in the end.
        (
            "1.0 / (largest * (1.0 + 1e-10))",
            "1.1 / largest",
            "stiffness 10% too large: rows^T D rows > 1 and the separable bound is unsound",
            EXACT_TIGHT("test_stiffness_is_as_large_as_it_may_be"),
        ),
        (
            "1.0 / (largest * (1.0 + 1e-10))",
            "0.9 / largest",
            "stiffness smaller than it may be: searches take longer",
            EXACT_TIGHT("test_stiffness_is_as_large_as_it_may_be"),
        ),
        (
            "1.0 / (largest * (1.0 + 1e-10))",
            "1.0 / largest",
            "stiffness without its margin for rounding",
            EXACT_TIGHT("test_stiffness_is_as_large_as_it_may_be"),
        ),
        (
            "            certified = min(certified, self._goal())\n",
            "",
            "a proof for a larger, older ball is claimed beyond the last goal",
            EXACT_TIGHT("test_nothing_beyond_the_goal_is_certified"),
        ),
        (
            "        total -= 4.0 * self.space.error * size\n",
            "",
            "the separable bound ignores rounding",
            EXACT_TIGHT("test_the_separable_bound_at_a_local_solution"),
        ),
        (
            "step = -(price.kappa @ self.rows)",
            "step = price.kappa @ self.rows",
            "the separable bound is taken around the mirrored step",
            EXACT_TIGHT("test_the_separable_bound_at_a_local_solution"),
        ),
        (
            "limit >= min(self._goal(), FARTHEST * self.reach)",
            "limit >= 0.0",
            "flips beyond |x| are never looked for",
            EXACT_TIGHT("test_without_a_candidate_the_search_goes_on_outwards"),
        ),
        (
            "                return min(settled, node.bound), False",
            "                return settled, False",
            "a spent budget forgets the open node",
            EXACT_TIGHT("test_a_spent_budget_certifies_no_more_than_the_open_nodes"),
        ),
        (
            "self.found.certified = max(self.floor, certified)",
            "self.found.certified = 1.001 * certified",
            "the certificate is 0.1% too large",
            EXACT_TIGHT("test_nothing_beyond_the_goal_is_certified"),
        ),
    ),
    *mutants_of(
        "robustness/exact/cutting_planes.py",
        (
            "errors * problem.reach + shift",
            "errors * problem.reach",
            "rounding of constants is not charged",
            EXACT_TIGHT("test_cutting_planes_charge_rounding_errors"),
        ),
        (
            "errors * problem.reach + shift",
            "shift",
            "rounding of values at x is not charged",
            EXACT_TIGHT("test_cutting_planes_charge_rounding_errors"),
        ),
        (
            "        errors = problem.error * np.abs(cuts.coefficients).sum(axis=1)\n",
            "        errors = np.zeros(len(cuts.constants))\n",
            "rounding of slopes is not charged",
            EXACT_TIGHT("test_cutting_planes_charge_rounding_errors"),
        ),
        (
            "constants = np.concatenate([box.low[low], -box.high[high]])",
            "constants = np.concatenate([box.low[low], box.high[high]])",
            "an imposed upper bound has the wrong sign",
            EXACT_TIGHT("test_cutting_planes_charge_rounding_errors"),
        ),
        (
            "scaled = answer.multipliers * (target / length)",
            "scaled = answer.multipliers * target",
            "prices do not lead to the solution",
            EXACT_TIGHT("test_cutting_planes_charge_rounding_errors"),
        ),
    ),
    *mutants_of(
        "robustness/exact/flipped_set.py",
        (
            "self.family.down @ offset, self.shares)",
            "self.family.down @ (0.5 * offset), self.shares)",
            "chords at half their height: flipped points are lost",
            EXACT_TIGHT("test_relu_sides_and_cuts"),
        ),
        (
            "self.family.shift - side.constants,",
            "self.family.shift,",
            "the constant of the chords is lost from the cut",
            EXACT_TIGHT("test_a_better_candidate_lowers_what_is_certified"),
        ),
        (
            "2.0 * a * np.maximum(places, 0.0)",
            "2.0 * a * places",
            "the separable term has no ReLU",
            EXACT_TIGHT("test_relu_terms_are_the_least_over_the_box"),
        ),
        (
            "np.where(stiffness > 0, np.minimum(z + kappa / soft, 0.0), 0.0),",
            "np.zeros_like(z),",
            "the vertex below zero is missed: the least value is too large",
            EXACT_TIGHT("test_relu_terms_are_the_least_over_the_box"),
        ),
        (
            "np.where(stiffness > 0, np.maximum(z + (kappa - a) / soft, 0.0), 0.0),",
            "np.zeros_like(z),",
            "the vertex above zero is missed: the least value is too large",
            EXACT_TIGHT("test_the_separable_bound_at_a_local_solution"),
        ),
        (
            "(stiffness * s - 2.0 * kappa) * s",
            "(stiffness * s - kappa) * s",
            "half the price",
            EXACT_TIGHT("test_the_separable_bound_at_a_local_solution"),
        ),
        (
            "np.max(self.net @ np.maximum(z, 0.0) + self.family.shift)",
            "np.max(self.net @ np.maximum(z, 0.0))",
            "candidates are confirmed without the constant",
            EXACT_TIGHT("test_relu_sides_and_cuts"),
        ),
        (
            "self.family.up * (z > 0) - side.coefficients",
            "self.family.up - side.coefficients",
            "a cut that is not below the left side",
            EXACT_TIGHT("test_the_nearest_of_several_pieces"),
        ),
    ),
]
