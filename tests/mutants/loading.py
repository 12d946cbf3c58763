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
            "signs = (1.0,) if k and not self.leak else (1.0, -1.0)",
            "signs = (1.0,)",
            "inputs are carried past a layer as if they were positive",
            GRAPH,
        ),
        (
            "share = sign if len(signs) == 1 else sign / (1.0 + self.leak)",
            "share = sign",
            "what leaky neurons carry is too large by the leak",
            GRAPH,
        ),
        (
            "return self.rectified(value).plus(below.scaled(-leak))",
            "return self.rectified(value).plus(below.scaled(leak))",
            "a leaky ReLU among ReLUs has the wrong sign below zero",
            SEQUENTIAL,
        ),
        ("rows = np.flatnonzero(flat >= 0)", "rows = np.arange(len(flat))", "padding is the last pixel", SEQUENTIAL),
    ),
    *mutants_of(
        "nets/loading/windows.py",
        (
            "first = np.arange(out) // (out // groups) * inside",
            "first = np.zeros(out, dtype=int)",
            "all groups of a convolution read the first channels",
            SEQUENTIAL,
        ),
        (
            "return pooled if padding_counts else pooled.scaled(1.0 / share)",
            "return pooled",
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
