"""Mutants of the attacks."""

from tests.mutants import mutants_of, tests_in

ATTACKS = tests_in("robustness/test_attacks.py")
ATTACKS_HONESTY = tests_in("robustness/test_attacks_honesty.py")
ATTACKS_OBJECTS = tests_in("robustness/test_attacks_objects.py")
ATTACKS_TIGHT = tests_in("robustness/test_attacks_tight.py")

ON_DDN = ATTACKS_TIGHT(
    "test_a_descent_returns_the_nearest_flip_it_saw_and_stays_inside_it",
    "test_beating_one_rival_is_no_flip",
)
ON_PGD = ATTACKS_TIGHT(
    "test_descents_go_downhill_in_their_ball",
    "test_the_bisection_goes_between_what_flips_and_what_does_not",
) + ATTACKS_HONESTY("test_pgd_that_attacks_nothing_is_refused")
ON_DEEPFOOL = ATTACKS_TIGHT(
    "test_deepfool_adds_up_its_steps_and_goes_beyond",
    "test_sliding_never_makes_it_longer",
    "test_a_slide_that_ends_further_away_is_not_taken",
)
ON_SUITE = (
    ATTACKS_TIGHT(
        "test_in_a_box_the_suite_stays_in_it",
        "test_a_false_claim_does_not_hide_a_true_one",
        "test_what_the_model_itself_does_not_confirm_is_not_found",
    )
    + ATTACKS_HONESTY("test_a_gradient_that_misleads_is_answered_by_the_default_and_told_otherwise")
    + ATTACKS_OBJECTS("test_an_attack_of_ones_own_is_shortened_and_checked")
    + ATTACKS("test_bad_input_is_told_in_a_sentence")
)
ON_POLISH = ATTACKS_TIGHT(
    "test_polish_touches_the_score_and_keeps_the_nearest",
    "test_polish_looks_at_every_piece_and_returns_the_nearest",
    "test_polish_keeps_the_nearest_of_its_pieces",
)
ON_APGD = ATTACKS_TIGHT(
    "test_descents_go_downhill_in_their_ball",
    "test_the_step_of_apgd_is_halved_where_it_overshoots",
)

MUTANTS = [
    *mutants_of(
        "robustness/attacks/ddn.py",
        # Not here: that a flip counts without being shorter than the best. The radius is capped by the
        # best length, so every later flip is. The same holds for FMN.
        (
            "        radius = np.minimum(radius, best_length)\n",
            "",
            "the radius leaves what is known behind: steps are wasted",
            ATTACKS_TIGHT("test_a_descent_returns_the_nearest_flip_it_saw_and_stays_inside_it"),
        ),
        (
            "np.minimum(now, best_length) * (1 - c),",
            "np.minimum(now, best_length),",
            "the radius never shrinks",
            ON_DDN,
        ),
        (
            "step = _direction(gradient, norm)",
            "step = -_direction(gradient, norm)",
            "uphill",
            ON_DDN,
        ),
        (
            "now, flipped = length(delta, norm), margin <= 0",
            "now, flipped = length(delta, norm), value <= 0",
            "beating one rival counts as a flip",
            ON_DDN,
        ),
    ),
    *mutants_of(
        "robustness/attacks/fmn.py",
        (
            "radius = np.minimum(np.where(flipped, shrunk, grown), best_length)",
            "radius = np.where(flipped, shrunk, grown)",
            "the radius leaves what is known behind",
            ATTACKS_TIGHT("test_a_descent_returns_the_nearest_flip_it_saw_and_stays_inside_it"),
        ),
    ),
    *mutants_of(
        "robustness/attacks/pgd.py",
        (
            "delta = to_box(x[left], to_ball(delta - step, radius[left], norm), model.bounds)",
            "delta = to_box(x[left], delta - step, model.bounds)",
            "PGD leaves its ball",
            ON_PGD,
        ),
        (
            "to_ball(delta - step, radius[left], norm)",
            "to_ball(delta + step, radius[left], norm)",
            "uphill",
            ON_PGD,
        ),
        (
            "if step_size is not None and not (np.isfinite(step_size) and step_size > 0):",
            "if False:",
            "a step of zero attacks nothing and reads as robust",
            ON_PGD,
        ),
        (
            "low = np.where(end.flipped, low, np.maximum(low, radius))",
            "low = low",
            "the bisection never goes up",
            ON_PGD,
        ),
        (
            "radius = np.where(np.isinf(high), 2 * radius, (low + high) / 2)",
            "radius = np.where(np.isinf(high), radius, (low + high) / 2)",
            "a first radius that is too small is never left",
            ON_PGD,
        ),
        (
            "best = nearer(x, best, AttackEnd(point, end.flipped), problem.norm)",
            "best = AttackEnd(point, end.flipped)",
            "the last radius counts, not the smallest",
            ON_PGD,
        ),
    ),
    *mutants_of(
        "robustness/attacks/deepfool.py",
        (
            "(1 + overshoot) * total[left]",
            "total[left]",
            "many short steps stay short of the boundary",
            ON_DEEPFOOL,
        ),
        (
            "total[left] += step",
            "total[left] = step",
            "only the last step is kept",
            ON_DEEPFOOL,
        ),
        (
            "better = hit & (now < size[live])",
            "better = hit",
            "sliding may make it longer",
            ON_DEEPFOOL,
        ),
    ),
    *mutants_of(
        "robustness/attacks/line_search.py",
        (
            "return AttackEnd(point, end.flipped & ~open_)",
            "return end",
            "flips that are not confirmed are kept",
            ATTACKS_TIGHT("test_a_line_search_returns_flips_and_the_nearest_multiple")
            + ATTACKS_HONESTY("test_a_flip_that_cannot_be_confirmed_is_dropped"),
        ),
        (
            "        hit = found <= 0\n        point[open_[hit]] = between[hit]",
            "        hit = found <= 1e-3\n        point[open_[hit]] = between[hit]",
            "a point that does not flip is returned",
            ATTACKS_TIGHT("test_a_line_search_returns_flips_and_the_nearest_multiple")
            + ATTACKS_HONESTY("test_a_flip_that_cannot_be_confirmed_is_dropped"),
        ),
        (
            "    flipped = end <= 0\n",
            "    flipped = end <= np.inf\n",
            "whatever an attack ends at counts as flipped",
            ATTACKS_TIGHT("test_a_line_search_returns_flips_and_the_nearest_multiple")
            + ATTACKS_HONESTY("test_a_flip_that_cannot_be_confirmed_is_dropped"),
        ),
        (
            "for i in range(-doublings, doublings + 1):",
            "for i in range(doublings + 1):",
            "near flips along a line are passed over",
            ATTACKS_TIGHT("test_a_line_search_returns_flips_and_the_nearest_multiple")
            + ATTACKS_HONESTY("test_a_flip_that_cannot_be_confirmed_is_dropped"),
        ),
    ),
    *mutants_of(
        "robustness/attacks/result.py",
        (
            "closer = second.radii(x, norm) < first.radii(x, norm)",
            "closer = second.radii(x, norm) > first.radii(x, norm)",
            "the farther of two witnesses counts",
            ATTACKS_TIGHT("test_ends_are_joined_row_by_row")
            + ATTACKS_HONESTY("test_a_result_says_not_found_and_never_robust"),
        ),
        (
            "np.where(self.flipped, length(self.point - x, norm), np.inf)",
            "length(self.point - x, norm)",
            "an attack that failed has radius zero",
            ATTACKS_TIGHT("test_ends_are_joined_row_by_row")
            + ATTACKS_HONESTY("test_a_result_says_not_found_and_never_robust"),
        ),
        (
            "point[rows[other.flipped]] = other.point[other.flipped]",
            "point[rows] = other.point",
            "points that did not flip overwrite those that did",
            ATTACKS_TIGHT("test_ends_are_joined_row_by_row")
            + ATTACKS_HONESTY("test_a_result_says_not_found_and_never_robust"),
        ),
        (
            "return np.isinf(self.radii)",
            "return np.isnan(self.radii)",
            "nothing found reads as answered",
            ATTACKS_TIGHT("test_ends_are_joined_row_by_row")
            + ATTACKS_HONESTY("test_a_result_says_not_found_and_never_robust"),
        ),
    ),
    *mutants_of(
        "robustness/attacks/suite.py",
        (
            "return AttackEnd(point, flipped & end.flipped)\n\n\ndef _refuse",
            "return AttackEnd(point, end.flipped)\n\n\ndef _refuse",
            "an attack may claim what is not so",
            ON_SUITE,
        ),
        (
            "return confirmed(problem.model, problem.x, problem.label, best), names",
            "return best, names",
            "witnesses are not re-checked on the model itself",
            ON_SUITE,
        ),
        (
            "            _refuse_if_nothing_moves(problem)\n",
            "            pass\n",
            "a constant network reads as robust",
            ON_SUITE,
        ),
        (
            "winners[row] = name if hit else NOT_FOUND",
            "winners[row] = name",
            "nothing found is credited to an attack",
            ON_SUITE,
        ),
        (
            'if problem.norm != "l2" or model.bounds is not None:',
            'if problem.norm != "l2":',
            "a box is forgotten in the span",
            ATTACKS_TIGHT(
                "test_a_box_makes_the_way_longer",
                "test_in_a_box_the_suite_stays_in_it",
                "test_a_false_claim_does_not_hide_a_true_one",
                "test_what_the_model_itself_does_not_confirm_is_not_found",
            )
            + ATTACKS_HONESTY(
                "test_a_gradient_that_misleads_is_answered_by_the_default_and_told_otherwise"
            )
            + ATTACKS_OBJECTS("test_an_attack_of_ones_own_is_shortened_and_checked")
            + ATTACKS("test_bad_input_is_told_in_a_sentence"),
        ),
    ),
    *mutants_of(
        "robustness/attacks/polish.py",
        (
            "value = score - self.rival.constant - float(self.rival.weights @ down)",
            "value = score - float(self.rival.weights @ down)",
            "the minorant loses its constant",
            ON_POLISH,
        ),
        (
            "return (head if label == 1 else -head), np.zeros((0, head.shape[1]))",
            "return head, np.zeros((0, head.shape[1]))",
            "negative points are polished the wrong way",
            ON_POLISH,
        ),
        (
            "if now < shortest:\n                best, shortest = delta, now",
            "best, shortest = delta, now",
            "the last piece counts, not the nearest",
            ON_POLISH,
        ),
    ),
    *mutants_of(
        "robustness/attacks/random_starts.py",
        (
            "need = ~problem.nearest.flipped",
            "need = np.zeros(len(x), dtype=bool)",
            "points that nothing flipped are left alone",
            ATTACKS_HONESTY(
                "test_random_starts_alone_answer_where_nothing_was_found",
                "test_dead_points_are_flipped_by_random_starts",
                "test_a_gradient_that_misleads_is_answered_by_the_default_and_told_otherwise",
            ),
        ),
        (
            "need[rest] = gradient_is_dead(model, x[rest], label[rest], rivals)",
            "pass",
            "a dead gradient gets no random starts",
            ATTACKS_HONESTY(
                "test_dead_points_are_flipped_by_random_starts",
                "test_a_gradient_that_misleads_is_answered_by_the_default_and_told_otherwise",
            ),
        ),
    ),
    *mutants_of(
        "robustness/attacks/apgd.py",
        (
            "return to_box(x[rows], to_ball(delta, radius[rows], norm), model.bounds)",
            "return to_box(x[rows], delta, model.bounds)",
            "APGD leaves its ball",
            ON_APGD,
        ),
        (
            "eta[rows[halve]] /= 2",
            "pass",
            "the step is never halved",
            ON_APGD,
        ),
    ),
    *mutants_of(
        "robustness/attacks/attack.py",
        (
            "or value < 1:",
            "or value < 0:",
            "an attack of no steps reads as robust",
            ATTACKS_TIGHT("test_a_gradient_is_dead_where_nothing_is_felt")
            + ATTACKS_OBJECTS("test_an_attack_without_steps_is_refused"),
        ),
        (
            "dead[rows] = ~np.any(gradient != 0, axis=1)",
            "dead[rows] = np.any(gradient != 0, axis=1)",
            "live gradients are called dead",
            ATTACKS_TIGHT("test_a_gradient_is_dead_where_nothing_is_felt")
            + ATTACKS_OBJECTS("test_an_attack_without_steps_is_refused"),
        ),
    ),
]
