"""Mutants of margins: networks and linear classifiers at tiny losses, KKT residuals, the SVM."""

from tests.mutants import mutants_of, tests_in

LINEAR = tests_in("margins/test_linear.py")
TIGHT = tests_in("measures/test_tight.py")

MUTANTS = [
    *mutants_of(
        "measures/kkt.py",
        (
            "complementarity=float(multipliers @ (q - 1.0) / multipliers.sum())",
            "complementarity=float(multipliers @ q / multipliers.sum())",
            "complementarity is one at a KKT point",
            TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
        (
            "return np.asarray(found / lengths)",
            "return np.asarray(found)",
            "multipliers of scaled columns",
            TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
        (
            "row[r * x.shape[1] : (r + 1) * x.shape[1]] = y[i] * head[0, r] * x[i]",
            "row[r * x.shape[1] : (r + 1) * x.shape[1]] = head[0, r] * x[i]",
            "kinks pull the wrong way for negative points",
            TIGHT("test_a_kink_pulls_a_negative_point_the_right_way"),
        ),
        (
            "support=int((multipliers > _SUPPORT * largest).sum())",
            "support=int((multipliers >= 0).sum())",
            "every point is a support vector",
            TIGHT("test_a_kkt_point_of_two_layers_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/margin.py",
        (
            "np.put_along_axis(others, index, -np.inf, axis=-1)",
            "pass",
            "the own output is the best other",
            TIGHT("test_margins_by_hand"),
        ),
        (
            "scale = norm**order",
            "scale = norm",
            "margins that grow with the weights",
            TIGHT("test_margins_by_hand"),
        ),
        (
            "smoothed = -logsumexp(log_losses, axis=-1) / scale",
            "smoothed = -log_losses.mean(axis=-1) / scale",
            "the smoothed margin is a mean",
            TIGHT("test_margins_by_hand"),
        ),
        (
            "slack = np.log(outputs.shape[-2]) / scale",
            "slack = np.log(outputs.shape[-2])",
            "the sandwich is too wide to fail",
            TIGHT("test_margins_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/svm.py",
        (
            "if not abs(solution.gap) <= _GAP:",
            "if False:",
            "a QP that was not solved is believed",
            TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "primal /= min(1.0, float((rows @ w).min())) ** 2",
            "pass",
            "a point that misses its margin makes the gap too small",
            TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "dual = float(alpha.sum()) - 0.5 * float(built @ built)",
            "dual = float(alpha.sum()) - 0.5 * float(w @ w)",
            "the dual value is taken at the primal point",
            TIGHT("test_the_gap_is_what_is_missing"),
        ),
        (
            "w, alpha = w / scale, alpha / scale**2",
            "w, alpha = w / scale, alpha / scale",
            "multipliers in the wrong unit",
            TIGHT("test_multipliers_build_the_direction"),
        ),
        (
            "return self.w * self.margin",
            "return self.w",
            "a direction that is not of length one",
            TIGHT("test_multipliers_build_the_direction"),
        ),
    ),
    *mutants_of(
        "measures/best_margin.py",
        (
            "return float(-solution.fun) / 2, net, shares / shares.sum()",
            "return float(-solution.fun), net, shares / shares.sum()",
            "twice the margin",
            TIGHT("test_the_best_margin_is_attained_and_certified"),
        ),
        (
            "candidates = np.concatenate([ends, peaks, -peaks])",
            "candidates = ends",
            "the upper bound misses the peaks between the edges",
            TIGHT("test_the_best_margin_is_attained_and_certified"),
        ),
    ),
    *mutants_of(
        "training/linear/flow.py",
        (
            "shift = -math.log(len(rows))",
            "shift = 0.0",
            "the loss is summed, so time runs n times faster",
            TIGHT("test_kkt_numbers_do_not_depend_on_the_size_of_the_weights"),
        ),
    ),
    *mutants_of(
        "training/linear/penalties.py",
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
]
