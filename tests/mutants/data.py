"""Mutants of the data and their compression."""

from tests.mutants import mutants_of, tests_in

CLUSTERS = tests_in("data/test_clusters.py")
COMPRESS = tests_in("data/test_compress.py")
TIGHT = tests_in("data/test_tight.py")

MUTANTS = [
    *mutants_of(
        "data/compress.py",
        (
            "d - before - np.arange(count, dtype=float)",
            "d - np.arange(count, dtype=float)",
            "too many degrees of freedom behind the features",
            COMPRESS("test_every_inner_product_has_the_law_of_the_real_dimension"),
        ),
        (
            "fill_bartlett(x, task.k + neurons, task.d,",
            "fill_bartlett(x, task.k, task.d,",
            "noise does not meet the initial weights",
            COMPRESS("test_training_has_the_law_of_the_real_dimension"),
        ),
        (
            "    x *= task.sigma\n",
            "",
            "noise of the wrong size",
            TIGHT("test_points_are_features_and_noise"),
        ),
        (
            "row[before + i] = lengths[i]",
            "pass",
            "rows without their own direction: the diagonal is ignored",
            TIGHT("test_points_are_features_and_noise"),
        ),
        (
            'fits = size < task.d and task.orientation == "axes"',
            "fits = size < task.d",
            "turned features are compressed as if they were not",
            COMPRESS("test_a_random_orientation_stays_in_the_real_dimension"),
        ),
        (
            'if coordinates == "compressed" and size > task.d:',
            "if False:",
            "a compression that is not exact",
            COMPRESS("test_compression_that_cannot_be_exact_is_refused"),
        ),
        (
            "rest -= self.task.alpha * self.features[self.clusters]",
            "rest -= self.features[self.clusters]",
            "the noise keeps a part of the feature",
            TIGHT("test_points_are_features_and_noise"),
        ),
        (
            "self.unit_weights[..., first : first + count, :]",
            "self.unit_weights[..., :count, :]",
            "networks that share a draw start alike",
            TIGHT("test_networks_of_one_draw_have_their_own_directions"),
        ),
    ),
    *mutants_of(
        "data/clusters.py",
        (
            "if smallest < -1e-9 * float(np.trace(gram)) or np.any(np.diag(gram) <= 0):",
            "if smallest < -1e-1 * float(np.trace(gram)) or np.any(np.diag(gram) <= 0):",
            "a Gram matrix that no features have is accepted",
            TIGHT("test_a_gram_matrix_may_miss_zero_by_rounding_only"),
        ),
        (
            "if smallest < -1e-9 * float(np.trace(gram)) or np.any(np.diag(gram) <= 0):",
            "if smallest < 0 or np.any(np.diag(gram) <= 0):",
            "a singular Gram matrix is refused for its rounding",
            TIGHT("test_a_gram_matrix_may_miss_zero_by_rounding_only"),
        ),
        (
            "if smallest < -1e-9 * float(np.trace(gram)) or np.any(np.diag(gram) <= 0):",
            "if smallest < -1e-9 * float(np.trace(gram)):",
            "a feature of length zero is accepted",
            TIGHT("test_a_feature_has_a_length"),
        ),
        (
            "np.allclose(gram, gram.T, rtol=1e-10, atol=0)",
            "True",
            "a Gram matrix that is not symmetric is accepted",
            CLUSTERS("test_an_impossible_task_is_refused_in_one_sentence"),
        ),
        (
            "np.fill_diagonal(cosines, 1.0)",
            "pass",
            "the diagonal is ignored: features of the wrong length",
            TIGHT("test_lengths_and_cosines_go_together"),
        ),
        (
            "return norms[:, None] * cosines * norms",
            "return norms * cosines",
            "inner products with half of the lengths",
            TIGHT("test_lengths_and_cosines_go_together"),
        ),
        (
            "root = vectors * np.sqrt(np.clip(values, 0.0, None))",
            "root = vectors * np.clip(values, 0.0, None)",
            "dependent features are stretched",
            TIGHT("test_dependent_features_keep_their_lengths"),
        ),
    ),
]
