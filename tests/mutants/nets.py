"""Mutants of networks and read-outs."""

from tests.mutants import mutants_of, tests_in

NETS = tests_in("nets/test_nets.py")
READOUTS = tests_in("nets/test_readouts.py")
TIGHT = tests_in("nets/test_tight.py")

MUTANTS = [
    *mutants_of(
        "nets/two_layer.py",
        (
            "if self.head.shape[:-2] != tuple(batch) or self.head.shape[-1] != neurons:",
            "if self.head.shape[-1] != neurons:",
            "the head of another batch is accepted",
            TIGHT("test_the_head_of_a_batch_has_its_axes"),
        ),
        (
            "np.repeat([1.0 / m, -1.0 / m], m)",
            "np.repeat([1.0, -1.0], m)",
            "the binary network is m times too large",
            NETS("test_the_binary_network_is_definition_2_2"),
        ),
        (
            "+ self.biases[..., None, :]",
            "",
            "biases are forgotten",
            TIGHT("test_biases_are_one_per_neuron_and_are_added"),
        ),
        (
            "if self.biases.shape != (*batch, neurons):",
            "if False:",
            "biases of another shape are broadcast",
            TIGHT("test_biases_are_one_per_neuron_and_are_added"),
        ),
    ),
    *mutants_of(
        "nets/grouped.py",
        (
            "np.full((1, h), 1.0 / h)",
            "np.full((1, h), 1.0)",
            "groups are summed, not averaged",
            NETS("test_the_grouped_network_averages_inside_groups"),
        ),
    ),
    *mutants_of(
        "nets/ideal.py",
        (
            "biases = -threshold * task.alpha * np.diag(task.gram_matrix)",
            "biases = -threshold * np.diag(task.gram_matrix)",
            "alpha is missing in the biased network",
            TIGHT("test_biases_of_the_robust_network_follow_alpha_and_the_squared_lengths"),
        ),
        (
            "biases = -threshold * task.alpha * np.diag(task.gram_matrix)",
            "biases = -threshold * task.alpha * np.sqrt(np.diag(task.gram_matrix))",
            "biases of the wrong size",
            TIGHT("test_biases_of_the_robust_network_follow_alpha_and_the_squared_lengths"),
        ),
        (
            "for sign in (1, -1)]\n    return TwoLayer(np.array(sums)",
            "for sign in (-1, 1)]\n    return TwoLayer(np.array(sums)",
            "f_FA has its classes exchanged",
            TIGHT("test_ideal_networks_decide_for_the_class"),
        ),
    ),
    *mutants_of(
        "nets/readouts/max.py",
        (
            "return [outputs[own] - outputs[j] for j in np.flatnonzero(~own)]",
            "return [outputs[own] - outputs[j] for j in np.flatnonzero(~own)[:1]]",
            "only the first rival counts",
            READOUTS("test_pieces_are_the_flipped_outputs"),
        ),
        (
            "np.eye(outputs.shape[-1])[outputs.argmax(axis=-1)]",
            "np.eye(outputs.shape[-1])[outputs.argmin(axis=-1)]",
            "the derivative of the smallest output",
            TIGHT("test_read_outs_touch_what_they_bound"),
        ),
    ),
    *mutants_of(
        "nets/readouts/probability.py",
        (
            "return float(largest[0]) + math.log(total), powers / total",
            "return float(largest[0]) + math.log(total), powers",
            "weights that do not sum to one",
            TIGHT("test_read_outs_touch_what_they_bound"),
        ),
        (
            "Minorant(np.full(count, 1.0 / count), math.log(count))",
            "Minorant(np.full(count, 1.0 / count), 2 * math.log(count))",
            "a minorant above the score",
            TIGHT("test_read_outs_touch_what_they_bound"),
        ),
        (
            "return Max(), math.log(count)",
            "return Max(), 0.0",
            "the slack between max and log sum exp is forgotten",
            TIGHT("test_read_outs_touch_what_they_bound"),
        ),
    ),
    *mutants_of(
        "nets/readouts/sum.py",
        (
            "np.where(own, 1.0, -1.0)",
            "np.where(own, -1.0, 1.0)",
            "own and rival outputs change places",
            READOUTS("test_pieces_are_the_flipped_outputs"),
        ),
    ),
    *mutants_of(
        "nets/readouts/readout.py",
        (
            "return Minorant(weights, value - float(weights @ outputs))",
            "return Minorant(weights, value)",
            "a tangent that does not touch",
            TIGHT("test_read_outs_touch_what_they_bound"),
        ),
    ),
    *mutants_of(
        "nets/readouts/registry.py",
        (
            "rule.class_score(outputs[..., mask]) - rule.class_score(outputs[..., ~mask])",
            "rule.class_score(outputs[..., ~mask]) - rule.class_score(outputs[..., mask])",
            "the decision is turned round",
            NETS("test_the_probability_readout_has_the_sign_of_its_definition"),
        ),
    ),
]
