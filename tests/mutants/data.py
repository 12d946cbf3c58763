"""Mutants of the data and their compression."""

from tests.mutants import mutants_of, tests_in

CLUSTERS = tests_in("data/test_clusters.py")
COMPRESS = tests_in("data/test_compress.py")
TIGHT = tests_in("data/test_tight.py")
READOUTS = tests_in("nets/test_readouts.py")
NETS_TIGHT = tests_in("nets/test_tight.py")

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
            "-= self.task.alpha * self.features[:, :near][self.clusters]",
            "-= self.features[:, :near][self.clusters]",
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
        (
            "p=task.cluster_probabilities)",
            "p=None)",
            "clusters are equally likely whatever was asked",
            CLUSTERS("test_points_scatter_around_their_feature_with_the_stated_probabilities"),
        ),
        (
            'return Sample(self, n, seed, purpose="test")',
            'return Sample(self, n, seed, purpose="train")',
            "the test points are the training points",
            CLUSTERS("test_a_test_sample_is_not_the_training_sample_of_the_same_seed"),
        ),
        (
            "points += self.task.alpha * self.task.features_in(dimension)[self.clusters]",
            "points += self.task.features_in(dimension)[self.clusters]",
            "alpha is ignored",
            TIGHT("test_points_are_features_and_noise"),
        ),
        (
            "draw.standard_normal((dimension, self.n)).T",
            "draw.standard_normal((self.n, dimension))",
            "more coordinates make other points",
            CLUSTERS("test_coordinates_are_a_beginning_of_more_coordinates"),
        ),
        (
            "if not lowest <= self.cosine < 1.0:",
            "if not -1.0 <= self.cosine < 1.0:",
            "cosines that no k features share",
            CLUSTERS("test_an_impossible_task_is_refused_in_one_sentence"),
        ),
    ),
    *mutants_of(
        "data/partition.py",
        (
            "mask[:] = given != 0",
            "mask[given.astype(int)] = True",
            "masks are read as indices",
            NETS_TIGHT("test_biases_of_the_robust_network_follow_alpha_and_the_squared_lengths"),
        ),
        (
            "if mask.all() or not mask.any():",
            "if False:",
            "a class is empty",
            READOUTS("test_what_is_neither_a_mask_nor_indices_is_refused"),
        ),
        (
            "len(np.unique(given)) < len(given)",
            "False",
            "an index that is named twice is accepted",
            READOUTS("test_what_is_neither_a_mask_nor_indices_is_refused"),
        ),
    ),
    *mutants_of(
        "data/blocks.py",
        (
            "return int(used.size - np.argmax(used[::-1])) if used.any() else 0",
            "return int(used.sum())",
            "columns behind a zero column are dropped",
            TIGHT("test_a_zero_column_in_the_middle_is_not_the_end"),
        ),
        (
            "turned[..., first:end] @ self.x[..., first:end, :width]",
            "turned[..., first:end] @ self.x[..., :end - first, :width]",
            "gradients of the wrong rows",
            TIGHT("test_a_zero_column_in_the_middle_is_not_the_end"),
        ),
    ),
    *mutants_of(
        "data/streams.py",
        (
            "zlib.crc32(purpose.encode())",
            "0",
            "noise and weights are the same numbers",
            TIGHT("test_streams_of_one_seed_differ_by_purpose_and_of_one_purpose_by_seed"),
        ),
    ),
]
