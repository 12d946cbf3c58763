"""Mutants of the measures."""

from tests.mutants import mutants_of, tests_in

MEASURES = tests_in("audit/test_measures.py")
AVERAGING = tests_in("measures/test_averaging.py")
EFFECTIVE_WEIGHTS = tests_in("measures/test_effective_weights.py")
MEASURES_MEASURES = tests_in("measures/test_measures.py")
POWER_LAW = tests_in("measures/test_power_law.py")
TIGHT = tests_in("measures/test_tight.py")
EXACT_TIGHT = tests_in("robustness/tight")

MUTANTS = [
    *mutants_of(
        "measures/accuracy.py",
        (
            "radii[None, :] > np.asarray(at, dtype=float)[:, None]",
            "radii[None, :] >= np.asarray(at, dtype=float)[:, None]",
            "a point is robust at its own radius",
            EXACT_TIGHT("test_a_point_is_not_robust_at_its_own_radius"),
        ),
        (
            "z**2 / (4 * n**2)",
            "0.0",
            "Wald's interval in the place of Wilson's",
            MEASURES_MEASURES("test_wilson_is_the_textbook_interval"),
        ),
        (
            "ndtri(0.5 + confidence / 2)",
            "ndtri(confidence)",
            "90% is called 95%",
            MEASURES_MEASURES("test_wilson_is_the_textbook_interval"),
        ),
        (
            "np.sign(score(net(x), positive, readout)).astype(int)",
            "np.where(score(net(x), positive, readout) >= 0, 1, -1)",
            "a score of zero is right for one class",
            MEASURES_MEASURES("test_the_exact_clean_error_is_the_measured_one"),
        ),
    ),
    *mutants_of(
        "measures/alignment.py",
        (
            "return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)",
            "return vectors",
            "inner products are called cosines",
            TIGHT("test_cosines_have_signs_and_no_lengths"),
        ),
        (
            "net.weights[..., group, :].mean(axis=-2)",
            "net.weights[..., group[:1], :].mean(axis=-2)",
            "the first neuron stands for its group",
            TIGHT("test_a_group_is_the_mean_of_its_neurons"),
        ),
        (
            "inside = same if diagonal else same & ~np.eye(len(labels), dtype=bool)",
            "inside = same",
            "diagonal=False counts the diagonal",
            TIGHT("test_blocks_with_and_without_their_diagonal"),
        ),
        (
            "np.where(head[0] >= 0, 1, -1)",
            "np.where(head[0] <= 0, 1, -1)",
            "neurons speak for the other class",
            TIGHT("test_a_group_is_the_mean_of_its_neurons"),
        ),
        (
            "unit(rows) @ np.swapaxes(unit(columns), -1, -2)",
            "unit(rows) @ np.swapaxes(np.abs(unit(columns)), -1, -2)",
            "signs are lost",
            TIGHT("test_cosines_have_signs_and_no_lengths"),
        ),
        (
            "if net.outputs not in (1, task.k):",
            "if False:",
            "a network of another task is measured",
            TIGHT("test_a_group_is_the_mean_of_its_neurons"),
        ),
    ),
    *mutants_of(
        "measures/averaging.py",
        # Not here: that directions of dependent features are kept in the null. They are rounding, and the
        # pseudo-inverse of the same cut-off drops them again.
        (
            "return weights @ np.linalg.pinv(unit(features), rcond=RANK) / lengths",
            "return weights @ unit(features).T / lengths",
            "cosines in the place of coefficients: wrong off the orthogonal setting",
            AVERAGING("test_one_for_the_average_and_zero_for_one_feature_in_every_geometry"),
        ),
        (
            "total = (np.maximum(scaled, 0.0) ** 2).sum(axis=-1) ** 2",
            "total = (scaled**2).sum(axis=-1) ** 2",
            "blind to the sign of a coefficient",
            AVERAGING("test_one_for_the_average_and_zero_for_one_feature_in_every_geometry"),
        ),
        (
            "index = even * shares",
            "index = even",
            "an even nothing is an average",
            AVERAGING("test_an_even_nothing_is_no_average"),
        ),
        (
            "np.maximum(ratio - 1.0, 0.0) / (coefficients.shape[-1] - 1)",
            "np.maximum(ratio, 0.0) / coefficients.shape[-1]",
            "one feature scores 1/j",
            AVERAGING("test_one_for_the_average_and_zero_for_one_feature_in_every_geometry"),
        ),
        (
            "null = float((kept * chance[columns]).mean())",
            "null = float(chance[columns].mean())",
            "the null has all of its weight in the span",
            AVERAGING("test_the_null_is_what_random_neurons_have"),
        ),
        (
            "units.std(ddof=1) / np.sqrt(len(units))",
            "units.std(ddof=1)",
            "the spread of neurons is called the interval of the mean",
            AVERAGING("test_the_null_is_what_random_neurons_have"),
        ),
        (
            "index.mean(axis=-1).ravel() if index.ndim > 1 and len(index) > 1 else index.ravel()",
            "index.ravel()",
            "neurons of one network count as independent networks",
            AVERAGING("test_the_interval_is_over_networks"),
        ),
        (
            "even[..., neurons] = evenness(coefficients[..., neurons, :][..., clusters])",
            "even[..., neurons] = evenness(coefficients[..., neurons, :])",
            "features of the other class count",
            AVERAGING("test_one_for_the_average_and_zero_for_one_feature_in_every_geometry"),
        ),
    ),
    *mutants_of(
        "measures/decomposition.py",
        (
            "task.alpha * self._feature_squares * inside",
            "task.alpha * inside / self._feature_squares",
            "the quotient that the lecture notes print",
            TIGHT("test_coefficients_with_every_factor_another_number"),
        ),
        (
            "squares = self._noise_squares[..., None, :] / task.sigma",
            "squares = self._noise_squares[..., None, :]",
            "coefficients of noise off by sigma",
            TIGHT("test_coefficients_with_every_factor_another_number"),
        ),
        (
            "self._lambdas[-1] - task.alpha",
            "self._lambdas[-1] + task.alpha",
            "coefficients grow the wrong way",
            TIGHT("test_coefficients_with_every_factor_another_number"),
        ),
        (
            "(lambdas * squares).reshape(*size, data.task.k),",
            "lambdas.reshape(*size, data.task.k),",
            "projected coefficients in another unit",
            TIGHT("test_coefficients_with_every_factor_another_number"),
        ),
        (
            'self._lambdas, self._errors = list(arrays["lambda"]), list(arrays["errors"])',
            'self._lambdas, self._errors = [arrays["lambda"][0]], list(arrays["errors"])',
            "a resumed run starts its coefficients again",
            TIGHT("test_coefficients_with_every_factor_another_number"),
        ),
    ),
    *mutants_of(
        "measures/effective_weights.py",
        (
            "(net.preactivations(x) >= 0.0)",
            "1.0",
            "gradients without activations",
            EFFECTIVE_WEIGHTS("test_they_are_the_mean_of_finite_differences"),
        ),
        (
            "slopes = labels[clusters][..., None].astype(float) if net.outputs == 1 else member",
            "slopes = np.ones_like(member[..., :1]) if net.outputs == 1 else member",
            "the decision of negative clusters has the wrong sign",
            EFFECTIVE_WEIGHTS("test_they_are_the_mean_of_finite_differences"),
        ),
        (
            "member / counts[..., None, :]",
            "member",
            "sums in the place of means",
            EFFECTIVE_WEIGHTS("test_they_are_the_mean_of_finite_differences"),
        ),
    ),
    *mutants_of(
        "measures/shared_gradient.py",
        (
            "own = np.diag(inner) - (weights**2) @ np.diag(gram)",
            "own = np.diag(inner)",
            "noise of single gradients counts as signal",
            TIGHT("test_shared_gradients_do_not_count_noise_as_signal"),
        ),
        (
            "means = inner / np.outer(total, total)",
            "means = inner",
            "sums in the place of means",
            TIGHT("test_shared_gradients_do_not_count_noise_as_signal"),
        ),
        (
            "labels[members] = fine[rng.permutation(members)]",
            "labels[members] = fine[members]",
            "a null without permutations",
            MEASURES("test_permuted_labels_give_one_where_it_means_something_and_not_in_noise"),
        ),
    ),
    *mutants_of(
        "measures/dynamics.py",
        (
            "active = evaluation.preactivations >= 0.0",
            "active = evaluation.preactivations > 1.0",
            "neurons count as active late",
            MEASURES_MEASURES("test_activity_and_balance_by_hand"),
        ),
        (
            "share = pulls.shape[-1] / task.k",
            "share = pulls.shape[-1]",
            "an equal share of the wrong whole",
            MEASURES_MEASURES("test_activity_and_balance_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/collapse.py",
        (
            "/ classes\n    sizes",
            "\n    sizes",
            "NC1 grows with the number of classes",
            TIGHT("test_collapse_by_hand"),
        ),
        (
            "np.abs(angles + 1.0 / (classes - 1)).mean()",
            "np.abs(angles).mean()",
            "a simplex is not collapse, an orthogonal frame is",
            TIGHT("test_collapse_by_hand"),
        ),
    ),
    *mutants_of(
        "measures/power_law.py",
        (
            "np.polyfit(np.log(horizontal), np.log(vertical), 1)[0]",
            "np.polyfit(np.log(horizontal), vertical, 1)[0]",
            "a slope against the logarithm only",
            POWER_LAW("test_the_exponent_of_a_power_is_found"),
        ),
    ),
]
