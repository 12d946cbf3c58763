"""Mutants of exact radii of deep networks."""

from tests.mutants import mutants_of, tests_in

DEEP_TIGHT = tests_in("robustness/test_deep_tight.py")
DEEP_WITNESS = tests_in("robustness/test_deep_witness.py")
BALL_SEARCH = tests_in("robustness/test_ball_search.py")
SDP_BOUND = tests_in("robustness/test_sdp_bound.py")

NEVER = tests_in("robustness/test_deep_radii.py")(
    "test_what_never_flips_is_proven_in_both_norms", "test_nothing_is_called_never_that_fractions_do_not_prove"
)

MUTANTS = [
    *mutants_of(
        "robustness/exact/deep/cuts.py",
        (
            "        net.error * slopes,\n",
            "        0.0 * slopes,\n",
            "rounding of the cuts' slopes is not charged",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "net.error * (sizes + limit * slopes),",
            "0.0 * sizes,",
            "rounding of the cuts' values is not charged",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "net.error * (sizes + limit * slopes),",
            "net.error * sizes,",
            "rounding along the step is not charged",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "rotated = self.row_errors + (r + q) * 2.0**-52 * np.abs(triangle).sum(axis=0)",
            "rotated = self.row_errors",
            "rounding of the rotation is not charged",
            DEEP_TIGHT("test_a_rotation_is_charged_like_the_rows"),
        ),
        (
            "constants[i] = -split.side * split.value",
            "constants[i] = split.side * split.value",
            "a split is imposed at the mirrored value",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "coefficients[row, part.splits[i - p].neuron] = part.splits[i - p].side",
            "coefficients[row, part.splits[i - p].neuron] = 1.0",
            "the upper side of a split is imposed for both",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "-(traced.constants + constants),",
            "-traced.constants,",
            "the constants of the condition and the splits are lost",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
        (
            "sizes[:p] = np.abs(rows) @ errors.magnitudes[-1] + np.abs(shifts)",
            "sizes[:p] = np.abs(shifts)",
            "rounding of the outputs is not charged",
            DEEP_TIGHT("test_half_spaces_charge_rounding_errors"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_chain.py",
        (
            "exact = np.maximum(values.max(axis=0), 0.0)",
            "exact = values.max(axis=0)",
            "the kink itself is left out of the largest value",
            SDP_BOUND("test_the_largest_values_of_forms_over_their_pieces"),
        ),
        (
            "bent = a < 0",
            "bent = a != 0",
            "a convex form is largest at its vertex",
            SDP_BOUND("test_the_largest_values_of_forms_over_their_pieces"),
        ),
        (
            "t = np.clip(vertex, np.minimum(end, 0.0), np.maximum(end, 0.0))",
            "t = vertex",
            "a form is largest beyond the bounds of its neuron",
            SDP_BOUND("test_the_largest_values_of_forms_over_their_pieces"),
        ),
        (
            "soft = exact + rounding * np.log(total)",
            "soft = exact - rounding * np.log(total)",
            "maxima are rounded off downwards",
            SDP_BOUND("test_the_largest_values_of_forms_over_their_pieces"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_chain.py",
        (
            "slope = np.where(lo[number] >= 0, 1.0, net.leak)",
            "slope = np.where(lo[number] >= 0, 1.0, 0.0)",
            "a neuron that is off has no leak",
            SDP_BOUND("test_every_layer_is_affine_in_the_variables"),
        ),
        (
            "h, shift = h + below[0], shift + below[1]",
            "pass",
            "skips are left out",
            SDP_BOUND("test_every_layer_is_affine_in_the_variables"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_form.py",
        (
            "tops((k, e - leak * on_h), (k, e - on_h), outer.lo, outer.hi, soft[a:b]),",
            "tops((k, e), (k, e - on_h), outer.lo, outer.hi, soft[a:b]),",
            "the leak of the last layer is left out",
            SDP_BOUND("test_constants_are_the_largest_values_on_the_graph"),
        ),
        (
            "bent = square[:a] + terms.own + terms.cross, line[:a] + terms.tilt",
            "bent = square[:a] + terms.own, line[:a] + terms.tilt",
            "products of a neuron with its activation cost nothing",
            SDP_BOUND("test_constants_are_the_largest_values_on_the_graph"),
        ),
        (
            "ball = -terms.multiplier * self.ball.radius**2",
            "ball = 0.0",
            "the ball of several layers costs nothing",
            SDP_BOUND("test_the_value_is_the_least_of_the_form"),
        ),
        (
            "slope = (2.0 * terms.square * self.offsets + terms.line) @ self.all_rows",
            "slope = (terms.square * self.offsets + terms.line) @ self.all_rows",
            "squares have half their slope",
            SDP_BOUND("test_the_value_is_the_least_of_the_form"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_bound.py",
        (
            "slope = self.ball.net.leak if split.side > 0 else 1.0",
            "slope = 1.0 if split.side > 0 else self.ball.net.leak",
            "a half starts with the other side's form",
            SDP_BOUND("test_a_child_is_bounded_no_lower_than_its_parent"),
        ),
        (
            'cross = np.einsum("nv,vn->n", form.inner.rows, inverse[:, r:])',
            'cross = 0.5 * np.einsum("nv,vn->n", form.inner.rows, inverse[:, r:])',
            "the barrier is half as steep in products",
            SDP_BOUND("test_the_gradient_is_that_of_the_height"),
        ),
        (
            "ascend(partial(self.value, share=share), theta, steps, target, clock)",
            "ascend(self.value, theta, steps, target, clock)",
            "an ascent creeps along the edge of convexity",
            SDP_BOUND("test_barriers_keep_an_ascent_from_creeping_along_the_edge"),
        ),
        (
            "t[:a] * h - inner.square(net.leak),",
            "t[:a] * h - inner.square(),",
            "the gradient takes the neuron for its activation",
            SDP_BOUND("test_the_gradient_is_that_of_the_height"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_form.py",
        (
            "    if failed:\n        return -math.inf\n",
            "",
            "what is not convex is believed",
            SDP_BOUND("test_what_is_not_convex_proves_nothing_for_several_layers"),
        ),
        (
            "return lowest - spread - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))",
            "return lowest - spread - convexity",
            "rounding errors of several layers are not charged",
            SDP_BOUND("test_every_rounding_error_of_a_chain_is_charged"),
        ),
        (
            "return lowest - spread - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))",
            "return lowest - spread - _rounding(form, terms, np.maximum(np.abs(v), largest))",
            "what is added for convexity is not charged",
            SDP_BOUND("test_what_is_added_for_convexity_is_charged"),
        ),
        (
            "return lowest - spread - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))",
            "return lowest - convexity - _rounding(form, terms, np.maximum(np.abs(v), largest))",
            "a point of several layers is believed to be the least",
            SDP_BOUND("test_a_point_that_is_not_the_least_proves_less_of_a_chain"),
        ),
        (
            "    charged = float(slopes @ off)\n",
            "    charged = 0.0\n",
            "the rounding of pre-activations is not charged",
            SDP_BOUND("test_every_rounding_error_of_a_chain_is_charged"),
        ),
        (
            "charged += float(terms.mixture @ (np.abs(form.rows) @ ball.errors[-1]))",
            "pass",
            "the rounding of outputs behind several layers is not charged",
            SDP_BOUND("test_every_rounding_error_of_a_chain_is_charged"),
        ),
        (
            "sizes[r:] += np.abs(terms.own) + 0.5 * np.abs(terms.cross)",
            "sizes[r:] += np.abs(terms.own)",
            "sizes leave out the products of a neuron with its activation",
            SDP_BOUND("test_sizes_bound_the_matrix"),
        ),
        (
            "activation = np.maximum(inner.hi, -form.ball.net.leak * inner.lo)",
            "activation = 0.0 * inner.hi",
            "activations are taken for zero",
            SDP_BOUND("test_every_layer_is_affine_in_the_variables"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/sdp_chain.py",
        (
            "ends = hi if split.side > 0 else lo",
            "ends = lo if split.side > 0 else hi",
            "the wrong sign is imposed",
            SDP_BOUND("test_every_layer_is_affine_in_the_variables"),
        ),
        (
            "ends[split.layer][split.neuron] = 0.0",
            "pass",
            "an imposed sign decides nothing",
            SDP_BOUND("test_every_layer_is_affine_in_the_variables"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/ascent.py",
        (
            "while share > SHORTEST and not clock.late:",
            "while share > SHORTEST:",
            "an ascent overruns the budget",
            BALL_SEARCH("test_a_long_ascent_ends_with_its_time"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/ball_search.py",
        (
            "low[neuron] = max(low[neuron], least)",
            "low[neuron] = max(low[neuron], least + 0.5)",
            "a joint bound of an inner neuron is above what it can be",
            SDP_BOUND("test_joint_bounds_of_inner_neurons_hold_and_are_tighter"),
        ),
        (
            "short.error * (size + (radius + reach) * slope)",
            "short.error * (size + radius * slope)",
            "the rounding of W x is not charged",
            SDP_BOUND("test_every_rounding_error_of_a_chain_is_charged"),
        ),
        (
            "if self.result.finished and not self._flipped:",
            "if not self._flipped:",
            "a spent budget certifies",
            BALL_SEARCH("test_a_spent_budget_leaves_a_point_open"),
        ),
        (
            "        return self._flipped or not self.given_up",
            "        return True",
            "a part that was given up is certified",
            BALL_SEARCH("test_a_part_that_loses_nothing_is_given_up"),
        ),
        (
            "relaxation = SdpBound(ball, rows, shifts)",
            "return False",
            "several layers are never decided by the ball",
            SDP_BOUND("test_a_chain_is_what_several_layers_use"),
        ),
        (
            "if relaxation.proven(theta) > 0.0:",
            "if True:",
            "a bound is believed without a proof",
            BALL_SEARCH("test_parts_that_end_without_a_proof_are_not_certified"),
        ),
        (
            "if relaxation.proven(theta) > 0.0:",
            "if value.bound > -1e-3:",
            "what the ascent says is believed without a proof",
            BALL_SEARCH("test_a_part_that_loses_nothing_is_given_up"),
        ),
        (
            "return bool(np.any(traced.constants + shifts - fall - error > 0.0))",
            "return bool(np.any(traced.constants + shifts - fall > 0.0))",
            "the rounding of lines is not charged",
            BALL_SEARCH("test_lines_are_charged_for_rounding"),
        ),
    ),
    *mutants_of(
        "robustness/geometry/qp.py",
        (
            "return (min(largest, FAR * violated) if violated > 0.0 else largest) or 1.0",
            "return largest or 1.0",
            "a row of rounding errors hides violations",
            tests_in("robustness/tight")("test_a_row_of_rounding_errors_hides_no_violation"),
        ),
    ),
    *mutants_of(
        "robustness/exact/flip_conditions.py",
        (
            "return np.max(outputs @ self.rows.T + self.shifts, axis=-1)",
            "return np.min(outputs @ self.rows.T + self.shifts, axis=-1)",
            "one inequality of several suffices",
            DEEP_TIGHT("test_a_linear_condition_is_reached_where_every_row_is"),
        ),
    ),
    *mutants_of(
        "robustness/exact/probability.py",
        (
            "constant = entropy - (np.log(total) + top)",
            "constant = -(np.log(total) + top)",
            "the tangent of log-sum-exp is too low",
            DEEP_TIGHT("test_the_probability_inequality_is_below_the_excess_and_touches_it"),
        ),
        (
            "- (float(level.sum()) - total) / total",
            "- float(level.sum()) / total",
            "the tangent of the logarithm is one too high",
            DEEP_TIGHT("test_the_probability_inequality_is_below_the_excess_and_touches_it"),
        ),
        (
            "row[rival] = -slope / total",
            "row[rival] = -slope",
            "the tangent of the logarithm has the wrong slope",
            DEEP_TIGHT("test_the_probability_inequality_is_below_the_excess_and_touches_it"),
        ),
        (
            "level = np.where(width > 1e-12, high - slope * hi, high)",
            "level = np.where(width > 1e-12, low - slope * hi, high)",
            "chords of exp below exp",
            DEEP_TIGHT("test_the_probability_inequality_is_below_the_excess_and_touches_it"),
        ),
        (
            "slope = np.where(width > 1e-12, (high - low) / np.where(width > 1e-12, width, 1.0), 0.0)",
            "slope = low",
            "tangents in the place of chords",
            DEEP_TIGHT("test_the_probability_inequality_is_below_the_excess_and_touches_it"),
        ),
        (
            "return row[None], np.array([constant + self.margin])",
            "return row[None], np.array([constant])",
            "the search for a clear flip looks for any flip",
            DEEP_WITNESS("test_a_condition_that_is_clearly_reached_is_reached_by_the_margin"),
        ),
    ),
    *mutants_of(
        "robustness/exact/everywhere.py",
        (
            "return empty([(list(row), c) for row, c in zip(rows, constants, strict=True)])",
            "return True",
            "what float64 takes for empty is called proven",
            NEVER,
        ),
        (
            "for sign in (1, -1):",
            "for sign in (1,):",
            "half of every split is not searched",
            tests_in("robustness/test_deep_radii.py")("test_a_flip_that_only_one_half_holds_is_found"),
        ),
        (
            "return z if condition.excess(net.forward(z)[-1]) <= 0 else None",
            "return z",
            "a point that does not flip ends the search",
            tests_in("robustness/test_deep_radii.py")("test_a_seeded_part_of_the_long_comparisons"),
        ),
    ),
    *mutants_of(
        "robustness/exact/layered_network.py",
        (
            "h, s = magnitudes[-1] + sizes[number], slopes[-1]",
            "h, s = sizes[number], slopes[-1]",
            "rounding of lower layers is forgotten",
            DEEP_TIGHT("test_sizes_of_sums_by_hand"),
        ),
        (
            "h, s = h + below, s + below_slope",
            "h, s = h, s",
            "rounding of skipped layers is forgotten",
            DEEP_TIGHT("test_sizes_of_sums_by_hand"),
        ),
        (
            "error=2.0 * size * ROUND_OFF",
            "error=ROUND_OFF",
            "a sum of many products is charged one rounding",
            DEEP_TIGHT("test_sizes_of_sums_by_hand"),
        ),
        (
            "extra = on_h if self.skips[number] else None",
            "extra = None",
            "the gradient forgets the skips",
            DEEP_TIGHT("test_the_gradient_is_that_of_the_network"),
        ),
        (
            "below = h + below if self.skips[number] else h",
            "below = h",
            "the network forgets its skips",
            DEEP_TIGHT("test_the_gradient_is_that_of_the_network"),
        ),
        (
            "slopes[number] = np.where(zero[number], lowest, slopes[number])",
            "pass",
            "neurons at zero are not switched to their lower side",
            BALL_SEARCH("test_kinks_by_hand"),
        ),
        (
            "signs.insert(0, np.where(on_h > 0, 1.0, -1.0))",
            "signs.insert(0, np.ones_like(on_h))",
            "all neurons at zero are switched off",
            BALL_SEARCH("test_kinks_by_hand"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/linear_bounds.py",
        (
            "chord = np.where(undecided, (high - leak * low) / width, 0.0)",
            "chord = np.where(undecided, high / width, 0.0)",
            "the chord of a leaky ReLU is that of a ReLU",
            DEEP_TIGHT("test_lines_hold_the_activation_and_the_chord_meets_both_ends"),
        ),
        (
            "self.offset.append(np.where(undecided, high * (1.0 - chord), 0.0))",
            "self.offset.append(np.where(undecided, 0.9 * high * (1.0 - chord), 0.0))",
            "chords below the activation",
            DEEP_TIGHT("test_lines_hold_the_activation_and_the_chord_meets_both_ends"),
        ),
        (
            "decided = np.where(low >= 0, 1.0, leak)",
            "decided = np.where(low > 0, 1.0, leak)",
            "a neuron that is on from zero counts as off",
            DEEP_TIGHT("test_lines_hold_the_activation_and_the_chord_meets_both_ends"),
        ),
        (
            "np.where(falling, lines.upper[number], lines.lower[number])",
            "lines.lower[number]",
            "falling coefficients take the lower line",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "constants = constants + np.where(falling, on_h, 0.0) @ lines.offset[number]",
            "pass",
            "chords lose their offset",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "constants = constants + g @ net.biases[number]",
            "pass",
            "biases are lost from the bound",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "extra = on_h if net.skips[number] else None",
            "extra = None",
            "the bound forgets the skips",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "g[which] += coefficients",
            "pass",
            "splits of hidden layers are not imposed",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "edge = depth * along + across",
            "edge = 0.9 * depth * along + across",
            "the cap is cut too small",
            DEEP_TIGHT("test_the_extent_is_that_of_the_cap"),
        ),
        (
            "np.where(radius * along >= depth * length, radius * length, edge)",
            "edge",
            "the pole of the cap is forgotten",
            DEEP_TIGHT("test_the_extent_is_that_of_the_cap"),
        ),
        (
            "limit * (1.0 + 1e-12) + net.error * reach",
            "limit",
            "the first layer's bounds have no rounding margin",
            DEEP_TIGHT("test_bounds_of_a_ball_by_hand"),
        ),
        (
            "lo.append(up @ h_lo + down @ h_hi + bias - slack)",
            "lo.append(up @ h_lo + down @ h_lo + bias - slack)",
            "negative weights take the wrong end",
            DEEP_TIGHT("test_traced_functions_are_below_and_meet_where_signs_are_decided"),
        ),
        (
            "fall = fall + net.error * (reach + limit) * np.tile(np.maximum(net.lengths, 1.0), 2)",
            "pass",
            "the first layer's bounds have no rounding margin",
            DEEP_TIGHT("test_tightened_bounds_are_charged_for_rounding"),
        ),
        (
            "floor = floor - np.tile(error, 2)",
            "pass",
            "bounds of later layers have no rounding margin",
            DEEP_TIGHT("test_tightened_bounds_are_charged_for_rounding"),
        ),
        (
            "-floor[len(which) :])",
            "floor[len(which) :])",
            "upper bounds have the wrong sign",
            DEEP_TIGHT("test_tightened_bounds_are_charged_for_rounding"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/local_search.py",
        (
            "flips = self.excess(condition, self._inside(factors[:, None] * step)) <= 0",
            "flips = self.excess(condition, self._inside(factors[:, None] * step)) <= 1e-3",
            "steps that do not flip are kept",
            DEEP_TIGHT("test_a_local_search_keeps_flips_only"),
        ),
        (
            "level = excess - float(gradient @ u)",
            "level = excess",
            "projections start from the wrong point",
            DEEP_TIGHT("test_a_projection_is_onto_the_linearised_boundary"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/search.py",
        (
            "self.result.certified = min(proven, self._wanted())",
            "self.result.certified = proven",
            "a proof for a larger, older ball is claimed beyond the last condition",
            DEEP_TIGHT("test_nothing_beyond_the_condition_is_certified"),
        ),
        (
            "                return min(settled, part.bound), False",
            "                return settled, False",
            "a spent budget forgets the open part",
            DEEP_TIGHT("test_a_spent_budget_certifies_no_more_than_the_open_parts"),
        ),
        (
            "proven = answer.bound >= bound and length > 0",
            "proven = length > 0",
            "a half-space that was not proven cuts the ball",
            DEEP_TIGHT("test_the_halves_of_a_split"),
        ),
        (
            "ends = hi if side > 0 else lo",
            "ends = lo if side > 0 else hi",
            "the halves of a split change places",
            DEEP_TIGHT("test_the_halves_of_a_split"),
        ),
        (
            "return [], min(max(bound, answer.bound), limit)",
            "return [], limit",
            "what the solver calls empty is believed",
            DEEP_TIGHT("test_what_a_solver_calls_empty_is_not_believed"),
        ),
        (
            "if not violated.any() or clock.late:",
            "if not violated.any():",
            "the rounds of a part overrun the budget",
            BALL_SEARCH("test_the_rounds_of_a_part_end_with_their_time"),
        ),
        (
            "if decided or not finished or limit >= end:",
            "if decided or not finished or limit >= 0.0:",
            "flips beyond |x| are never looked for",
            DEEP_TIGHT("test_without_a_candidate_the_search_goes_on_outwards"),
        ),
        (
            "if self.local.excess(condition, answer.u[None])[0] <= SATISFIED * self.size:",
            "if True:",
            "solutions of the relaxation count as flips",
            DEEP_TIGHT("test_a_spent_budget_certifies_no_more_than_the_open_parts"),
        ),
        (
            "            self.result.finished = finished\n",
            "",
            "a spent budget is called finished",
            DEEP_TIGHT("test_a_spent_budget_certifies_no_more_than_the_open_parts"),
        ),
    ),
    *mutants_of(
        "robustness/exact/deep/solver.py",
        (
            "clearly = [one.clear(margin) for one in search.conditions]",
            "clearly = list(search.conditions)",
            "the tip of a thin cone has no witness",
            DEEP_WITNESS("test_the_tip_of_a_thin_cone_has_a_witness"),
        ),
        (
            "        found.finished &= clear.finished\n",
            "",
            "a spent budget is called finished",
            DEEP_WITNESS("test_what_a_spent_budget_leaves_of_a_cone_is_said"),
        ),
    ),
]
