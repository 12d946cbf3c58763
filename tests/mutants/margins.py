"""Mutants of margins: networks and linear classifiers at tiny losses, KKT residuals, the SVM."""

from tests.mutants import mutants_of, tests_in

LINEAR = tests_in("margins/test_linear.py")
MNIST_NETWORK = tests_in("margins/test_mnist_network.py")
TIGHT = tests_in("margins/test_tight.py")
IMPLICIT = tests_in("margins/test_implicit_steps.py")
MEASURES_TIGHT = tests_in("measures/test_tight.py")

MUTANTS = [
    *mutants_of(
        "measures/kkt.py",
        (
            "complementarity=float(multipliers @ (q - 1.0) / multipliers.sum())",
            "complementarity=float(multipliers @ q / multipliers.sum())",
            "complementarity is one at a KKT point",
            MEASURES_TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
        (
            "return np.asarray(found / lengths)",
            "return np.asarray(found)",
            "multipliers of scaled columns",
            MEASURES_TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
        (
            "row[r * x.shape[1] : (r + 1) * x.shape[1]] = y[i] * head[0, r] * x[i]",
            "row[r * x.shape[1] : (r + 1) * x.shape[1]] = head[0, r] * x[i]",
            "kinks pull the wrong way for negative points",
            MEASURES_TIGHT("test_a_kink_pulls_a_negative_point_the_right_way"),
        ),
        (
            "support=int((multipliers > _SUPPORT * largest).sum())",
            "support=int((multipliers >= 0).sum())",
            "every point is a support vector",
            MEASURES_TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/margin.py",
        (
            "np.put_along_axis(others, index, -np.inf, axis=-1)",
            "pass",
            "the own output is the best other",
            MEASURES_TIGHT("test_margins_by_hand"),
        ),
        (
            "scale = norm**order",
            "scale = norm",
            "margins that grow with the weights",
            MEASURES_TIGHT("test_margins_by_hand"),
        ),
        (
            "smoothed = -logsumexp(log_losses, axis=-1) / scale",
            "smoothed = -log_losses.mean(axis=-1) / scale",
            "the smoothed margin is a mean",
            MEASURES_TIGHT("test_margins_by_hand"),
        ),
        (
            "slack = np.log(outputs.shape[-2]) / scale",
            "slack = np.log(outputs.shape[-2])",
            "the sandwich is too wide to fail",
            MEASURES_TIGHT("test_margins_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/svm.py",
        (
            "if not abs(solution.gap) <= _GAP:",
            "if False:",
            "a QP that was not solved is believed",
            MEASURES_TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "primal /= min(1.0, float((rows @ w).min())) ** 2",
            "pass",
            "a point that misses its margin makes the gap too small",
            MEASURES_TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "dual = float(alpha.sum()) - 0.5 * float(built @ built)",
            "dual = float(alpha.sum()) - 0.5 * float(w @ w)",
            "the dual value is taken at the primal point",
            MEASURES_TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "w, alpha = w / scale, alpha / scale**2",
            "w, alpha = w / scale, alpha / scale",
            "multipliers in the wrong unit",
            MEASURES_TIGHT("test_multipliers_build_the_direction"),
        ),
        (
            "return self.w * self.margin",
            "return self.w",
            "a direction that is not of length one",
            MEASURES_TIGHT("test_multipliers_build_the_direction"),
        ),
    ),
    *mutants_of(
        "paper/connections/best_margin.py",
        (
            "return float(-solution.fun) / 2, net, shares / shares.sum()",
            "return float(-solution.fun), net, shares / shares.sum()",
            "twice the margin",
            MEASURES_TIGHT("test_the_best_margin_is_attained_and_certified"),
        ),
        (
            "candidates = np.concatenate([ends, peaks, -peaks])",
            "candidates = ends",
            "the upper bound misses the peaks between the edges",
            MEASURES_TIGHT("test_the_best_margin_is_attained_and_certified"),
        ),
    ),
    *mutants_of(
        "paper/margins/linear.py",
        (
            "shift = -math.log(len(rows))",
            "shift = 0.0",
            "the loss is summed, so time runs n times faster",
            LINEAR("test_flow_in_log_time_is_the_driver_s_flow"),
        ),
        (
            "shift = depth - math.log(len(rows))",
            "shift = depth",
            "the loss is summed: another penalty",
            LINEAR("test_path_against_a_general_solver"),
        ),
        (
            "gradient = w - first @ rows",
            "gradient = 2 * w - first @ rows",
            "twice the penalty",
            LINEAR("test_path_against_a_general_solver"),
        ),
        (
            "hessian = np.eye(len(w)) + (rows.T * second) @ rows",
            "hessian = np.eye(len(w))",
            "Newton without curvature",
            LINEAR("test_path_against_a_general_solver"),
        ),
    ),
    *mutants_of(
        "paper/margins/network/epoch.py",
        (
            "weights = (s - softplus - log_scale).exp()",
            "weights = (s - log_scale).exp()",
            "the slope of exp(-q), not of cross-entropy",
            MNIST_NETWORK("test_scaled_loss_against_high_precision"),
        ),
        (
            "slopes.scatter_(1, targets.unsqueeze(1), -weights.unsqueeze(1))",
            "pass",
            "the own output has no gradient",
            MNIST_NETWORK("test_scaled_loss_against_high_precision"),
        ),
        (
            "torch.where(s < -_FLAT, s, softplus.log())",
            "softplus.log()",
            "losses below 1e-308 are zero",
            MNIST_NETWORK("test_scaled_loss_against_high_precision"),
        ),
        (
            "if not total <= count * (1 + 1e-12):",
            "if False:",
            "a pass that raised the loss is accepted",
            TIGHT("test_a_loss_above_the_limit_by_a_hair_fails"),
        ),
        (
            "return total > ROUND_OFF * len(light)",
            "return False",
            "samples that came to matter stay left out",
            TIGHT("test_what_was_left_out_matters_above_round_off"),
        ),
        (
            "int((weights.cumsum() <= _LIGHT * len(weights)).sum())",
            "int((weights <= 1e-3).sum())",
            "samples that matter are left out",
            TIGHT("test_light_samples_are_light_together"),
        ),
        (
            "if not ratio <= _TOO_HIGH:",
            "if False:",
            "a pass that exploded goes on",
            TIGHT("test_a_pass_that_left_all_bounds_ends"),
        ),
    ),
    *mutants_of(
        "paper/margins/network/support.py",
        (
            "kept = measured if measured.log_loss <= limit else None",
            "kept = measured",
            "a round that raised the loss counts",
            TIGHT("test_a_round_must_not_raise_the_loss_once_the_data_is_fitted"),
        ),
        (
            "members = np.union1d(members, run.watched)",
            "pass",
            "who came to matter is left out again",
            TIGHT("test_who_came_to_matter_is_in_the_next_support"),
        ),
    ),
    *mutants_of(
        "paper/margins/network/support_steps.py",
        (
            "int(np.argmax(rest <= share * weights.sum())) + 1",
            "int(np.argmax(rest <= share * weights.sum()))",
            "one sample of the support is missing",
            TIGHT("test_the_support_is_the_fewest_that_hold_the_loss"),
        ),
        (
            "self.rate /= shrink",
            "pass",
            "a rate that failed is tried again for ever",
            TIGHT("test_a_pass_over_the_support_is_undone_if_its_loss_rose"),
        ),
        (
            "self.rate *= grow",
            "pass",
            "the rate never grows",
            TIGHT("test_a_pass_over_the_support_is_undone_if_its_loss_rose"),
        ),
        (
            "return outside > 0.5",
            "return True",
            "a rate that is too long is never blamed",
            IMPLICIT("test_samples_that_made_a_step_fail_join"),
        ),
        (
            "[across.T, new.products]",
            "[0 * across.T, new.products]",
            "newcomers do not feel the others",
            IMPLICIT("test_samples_that_made_a_step_fail_join"),
        ),
    ),
    *mutants_of(
        "paper/margins/network/implicit.py",
        (
            "outside = products[np.ix_(inside, ~inside)] @ direction[~inside]",
            "outside = 0.0 * p",
            "Newton forgets the samples that lost their share",
            IMPLICIT("test_newtons_direction_solves_its_equation_with_shares_that_are_zero"),
        ),
        (
            "return _minimum(log_losses, products, rate, shares, tolerance)",
            "return shares",
            "the shares of a smoothed problem",
            IMPLICIT("test_the_step_against_a_plain_minimiser"),
        ),
        (
            "total += first.convolution2 @ second.convolution2.t()",
            "pass",
            "inner products without a layer",
            IMPLICIT("test_sample_gradients_against_autograd"),
        ),
        (
            "slopes4 = scaled_loss(kept.outputs, y, log_losses).slopes.float()",
            "slopes4 = scaled_loss(kept.outputs, y, 0.0).slopes.float()",
            "gradients of the loss, not of its logarithm",
            IMPLICIT("test_sample_gradients_against_autograd"),
        ),
    ),
    *mutants_of(
        "paper/margins/network/attempts.py",
        (
            "rate /= controller.shrink",
            "pass",
            "attempts ahead have the rate of the first",
            TIGHT("test_attempts_ahead_have_smaller_rates_and_orders_of_their_own"),
        ),
        (
            'name = f"margin-pass-{plan.epoch}-{plan.attempt}"',
            'name = f"margin-pass-{plan.epoch}"',
            "a failed pass is repeated in the same order",
            TIGHT("test_attempts_ahead_have_smaller_rates_and_orders_of_their_own"),
        ),
    ),
]
