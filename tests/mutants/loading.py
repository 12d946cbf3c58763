"""Mutants of the loader of networks of others."""

from tests.mutants import mutants_of, tests_in

TORCH = tests_in("nets/test_loading.py")
ONNX = tests_in("nets/test_loading_onnx.py")
SEQUENTIAL = TORCH("test_a_sequential_answers_as_torch_does")
GRAPH = ONNX("test_an_onnx_file_answers_as_onnx_does")
REFUSED = ONNX("test_what_cannot_be_read_is_refused_in_a_sentence")

MUTANTS = [
    *mutants_of(
        "nets/loading/affine.py",
        (
            "mixed = np.flatnonzero(~self.positive[carried])",
            "mixed = np.zeros(0, int)",
            "inputs are carried past a layer as if they were positive",
            GRAPH,
        ),
        (
            "share = np.where(self.positive[carried], 1.0, 1.0 / (1.0 + self.leak))",
            "share = np.ones(len(carried))",
            "what leaky neurons carry is too large by the leak",
            GRAPH,
        ),
        (
            "both.taken(below).scaled(-slope)",
            "both.taken(below).scaled(slope)",
            "a leaky ReLU among ReLUs has the wrong sign below zero",
            SEQUENTIAL,
        ),
        ("rows = np.flatnonzero(flat >= 0)", "rows = np.arange(len(flat))", "padding is the last pixel", SEQUENTIAL),
    ),
    *mutants_of(
        "nets/loading/operators.py",
        (
            "cells = patches.reshape(groups, inside, pixels, size)",
            "cells = patches[:1].repeat(channels, axis=0).reshape(groups, inside, pixels, size)",
            "all channels of a convolution read the first",
            SEQUENTIAL,
        ),
        (
            "found.scaled(1.0 / np.mean(patches >= 0, axis=3)[None])",
            "found",
            "padding counts in an average that leaves it out",
            SEQUENTIAL,
        ),
    ),
    *mutants_of(
        "nets/loading/onnx_graph.py",
        ("if model.functions:", "if False:", "a function of the file is overlooked", REFUSED),
        (
            'node.domain not in ("", "ai.onnx") or',
            "",
            "a custom operator with a standard name is taken for it",
            REFUSED,
        ),
    ),
]
