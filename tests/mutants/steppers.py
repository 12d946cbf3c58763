"""Mutants of steppers, controllers and losses."""

from tests.mutants import mutants_of, tests_in

DRIVER = tests_in("training/test_driver.py")

MUTANTS = [
    *mutants_of(
        "training/steppers/gd.py",
        (
            "p - scaled(factor, g)",
            "p + scaled(factor, g)",
            "uphill",
            DRIVER("test_every_kind_of_run_lowers_the_loss"),
        ),
        (
            "factor = np.exp(log_rate + evaluation.log_loss)",
            "factor = np.exp(log_rate)",
            "the normalised gradient is taken for the gradient",
            DRIVER("test_every_kind_of_run_lowers_the_loss"),
        ),
    ),
    *mutants_of(
        "training/steppers/momentum.py",
        (
            "self.beta * u - scaled(factor, g)",
            "u - scaled(factor, g)",
            "nothing of the last update is lost",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "self.beta * u - scaled(factor, g)",
            "-scaled(factor, g)",
            "no memory",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "updates, log_rate, None)",
            "state, log_rate, None)",
            "the memory stays what it was at the start",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "self.beta * u - scaled(factor, g)",
            "self.beta * u - (1 - self.beta) * scaled(factor, g)",
            "the other convention: a tenth of the rate",
            DRIVER("test_steppers_are_their_formulas"),
        ),
    ),
    *mutants_of(
        "training/steppers/adam.py",
        (
            "(1 - self.beta2) * g * g",
            "(1 - self.beta2) * g",
            "the second moment is a first one",
            DRIVER("test_every_kind_of_run_lowers_the_loss"),
        ),
        (
            "1 - self.beta1**step, 1 - self.beta2**step",
            "1 - self.beta1**step, 1.0 + 0 * step",
            "the second moment keeps its bias",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "1 - self.beta1**step, 1 - self.beta2**step",
            "1.0 + 0 * step, 1 - self.beta2**step",
            "the first moment keeps its bias",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "(*first, *second, step), log_rate, None)",
            "(*state[:-1], step), log_rate, None)",
            "Adam forgets its moments",
            DRIVER("test_steppers_are_their_formulas"),
        ),
    ),
]
