"""Mutants of the audit: its inputs, its verdict and its advice."""

from tests.mutants import mutants_of, tests_in

TESTS = tests_in("audit")

MUTANTS = [
    *mutants_of(
        "audit/dense.py",
        (
            "slack = 32 * float(np.finfo(float).eps)",
            "slack = 0.0",
            "a flip that is a rounding error counts",
            TESTS("test_a_flip_of_a_dense_network_must_be_deeper_than_rounding"),
        ),
    ),
    *mutants_of(
        "audit/inputs.py",
        (
            "        self.rows[self.seen] = image, label, finer\n",
            "        self.rows[len(self.rows)] = image, label, finer\n",
            "images of a stream take each other's place",
            TESTS("test_a_stream_is_sampled_evenly_and_in_bounded_memory"),
        ),
        (
            "for given, first, second, neutral in zip(",
            "for given, second, first, neutral in zip(",
            "a model's own normalisation goes before the processor's",
            TESTS("test_models_that_take_names_and_state_their_normalisation"),
        ),
    ),
    *mutants_of(
        "audit/gain.py",
        (
            "(np.arange(net.outputs) < net.outputs // 2)",
            "(np.arange(net.outputs) >= net.outputs // 2)",
            "neurons that compete speak for the other class",
            TESTS("test_the_predicted_gain_agrees_with_the_measured_one_on_gaussian_features"),
        ),
    ),
    *mutants_of(
        "audit/remedies.py",
        (
            "np.roll(head.weights, half, axis=0)",
            "head.weights",
            "the new head names the other class",
            TESTS("test_neurons_that_compete_are_a_head_from_class_labels_alone"),
        ),
    ),
]
