"""Mutants of steppers, controllers and losses."""

from tests.mutants import mutants_of, tests_in

DRIVER = tests_in("training/test_driver.py")
LOSSES = tests_in("training/test_losses.py")
OPTIMIZERS = tests_in("training/test_optimizers.py")
TIGHT = tests_in("training/test_tight.py")

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
        (
            "(*first, *second, step), log_rate, None)",
            "(*first, *second, state[-1]), log_rate, None)",
            "every step is the first one",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "gradient = [scaled(loss, g) for g in evaluation.gradient]",
            "gradient = list(evaluation.gradient)",
            "epsilon meets the normalised gradient",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            "for v, g in zip(state[count : 2 * count], gradient, strict=True)",
            "for v, g in zip(state[:count], gradient, strict=True)",
            "the two memories are mixed up",
            DRIVER("test_steppers_are_their_formulas"),
        ),
        (
            '        """No: it looks at single coordinates."""\n        return False',
            '        """No: it looks at single coordinates."""\n        return True',
            "Adam is run in compressed coordinates, where it is another method",
            DRIVER("test_a_bad_recipe_is_refused"),
        ),
    ),
    *mutants_of(
        "training/steppers/sign.py",
        (
            "np.sign(g)",
            "g",
            "sign descent is normalised descent",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/steppers/sgd.py",
        (
            "self.beta * u - scaled(factor, g)",
            "-scaled(factor, g)",
            "mini-batches without momentum",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "factor = np.exp(log_rate + part.log_loss)",
            "factor = np.exp(log_rate + evaluation.log_loss)",
            "the loss of all points scales the gradient of a few",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "epoch, number = divmod(step, batches)",
            "epoch, number = 0, step % batches",
            "every epoch in the same order",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "shuffled[number * size : (number + 1) * size]",
            "shuffled[:size]",
            "the same few points for ever",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/steppers/weight_decay.py",
        (
            "q - scaled(shrink, p)",
            "q - scaled(shrink, q)",
            "the decay is applied after the step",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "shrink = self.decay * np.exp(log_rate)",
            "shrink = self.decay * np.exp(0 * log_rate)",
            "the decay does not follow the rate",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "params=moved, evaluation=objective.evaluate(moved)",
            "params=moved",
            "the loss of other parameters is reported",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/steppers/_bogacki_shampine.py",
        (
            "later = moved((3 / 4, k2))",
            "later = moved((1 / 2, k2))",
            "the third stage is early: the order is lost",
            TIGHT("test_a_flow_step_is_of_third_order_and_its_error_of_the_third_power"),
        ),
        (
            "end = moved((2 / 9, k1), (1 / 3, k2), (4 / 9, k3))",
            "end = moved((1 / 9, k1), (1 / 3, k2), (4 / 9, k3))",
            "weights that do not sum to one",
            TIGHT("test_a_flow_step_is_of_third_order_and_its_error_of_the_third_power"),
        ),
        (
            "-5 / 72 * a + b / 12 + c / 9 - d / 8",
            "-5 / 72 * a + b / 12 + c / 9",
            "the error estimate does not vanish with the step",
            TIGHT("test_a_flow_step_is_of_third_order_and_its_error_of_the_third_power"),
        ),
        (
            "np.log(4 / 9) - third.log_loss",
            "np.log(4 / 9) - evaluation.log_loss",
            "time runs slower than it does",
            TIGHT("test_time_passes_by_the_quadrature_of_the_step"),
        ),
    ),
    *mutants_of(
        "training/steppers/flow.py",
        (
            "self.tolerance * _scale(p, q, h.ndim)",
            "_scale(p, q, h.ndim)",
            "the tolerance is not looked at",
            DRIVER("test_gradient_flow_is_the_limit_of_small_steps"),
        ),
        (
            "tuple(-g for g in evaluation.gradient)",
            "evaluation.gradient",
            "the flow runs uphill",
            DRIVER("test_gradient_flow_is_the_limit_of_small_steps"),
        ),
    ),
    *mutants_of(
        "training/controllers/__init__.py",
        (
            "return Judgement(np.ones(state.shape, dtype=bool), state + 1.0)",
            "return Judgement(np.ones(state.shape, dtype=bool), state)",
            "schedules stand still",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "(step + 1.0) / max(warmup, 1)",
            "step / max(warmup, 1)",
            "the first step of a warm-up is lost",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/controllers/cosine.py",
        (
            "(1.0 + np.cos(np.pi * share)) / 2.0",
            "(1.0 + np.cos(np.pi * share))",
            "twice the rate",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/controllers/step_decay.py",
        (
            "np.floor(step / self.every)",
            "step / self.every",
            "a slope in the place of stairs",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/controllers/error.py",
        (
            "return Judgement(error <= 1.0, state + np.log(factor))",
            "return Judgement(error <= np.inf, state + np.log(factor))",
            "steps with any error are taken",
            TIGHT("test_the_error_decides_at_its_tolerance"),
        ),
        (
            "error ** (-1 / 3)",
            "error ** (1 / 3)",
            "the step grows with its error",
            TIGHT("test_the_error_decides_at_its_tolerance"),
        ),
    ),
    *mutants_of(
        "training/controllers/loss_based.py",
        (
            "accepted = np.isfinite(after) & (after <= before.log_loss)",
            "accepted = np.isfinite(after)",
            "a rise of the loss is accepted",
            TIGHT("test_a_loss_that_rose_by_a_hair_is_rejected"),
        ),
        (
            "(after <= before.log_loss)",
            "(after <= before.log_loss + 1e-3)",
            "a small rise of the loss is accepted",
            TIGHT("test_a_loss_that_rose_by_a_hair_is_rejected"),
        ),
        (
            "step = np.where(accepted, math.log(self.grow), -math.log(self.shrink))",
            "step = np.where(accepted, math.log(self.grow), 0.0)",
            "a rejected rate is tried again for ever",
            TIGHT("test_a_loss_that_rose_by_a_hair_is_rejected"),
        ),
        (
            "step = np.where(accepted, math.log(self.grow), -math.log(self.shrink))",
            "step = np.where(accepted, math.log(self.shrink), -math.log(self.shrink))",
            "the rate grows by the wrong factor",
            TIGHT("test_a_loss_that_rose_by_a_hair_is_rejected"),
        ),
        (
            "return state - evaluation.log_loss",
            "return state",
            "the rate does not follow the loss",
            TIGHT("test_a_loss_that_rose_by_a_hair_is_rejected"),
        ),
    ),
    *mutants_of(
        "training/losses/__init__.py",
        (
            "log_total - np.log(log_losses.shape[-1])",
            "log_total",
            "the sum of losses is called their mean",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
        (
            "slopes = -targets * np.exp(",
            "slopes = targets * np.exp(",
            "the slope has the wrong sign",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
        (
            "if not np.isin(targets, (-1, 1)).all():",
            "if False:",
            "labels 0 and 1 train nothing on half of the points",
            LOSSES("test_labels_out_of_range_are_refused"),
        ),
        (
            "targets.max() >= outputs",
            "targets.max() > outputs",
            "a label beyond the outputs is read past the end",
            LOSSES("test_labels_out_of_range_are_refused"),
        ),
        (
            "top[..., 0] + np.log(",
            "np.log(",
            "exponents are summed without their scale",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
    ),
    *mutants_of(
        "training/losses/logistic.py",
        (
            "np.where(q > FLAT, -q, np.log(softplus))",
            "np.log(softplus)",
            "losses below 1e-308 are zero",
            LOSSES("test_a_loss_of_ten_to_the_minus_881_is_a_number_like_any_other"),
        ),
        (
            "-(q + softplus))",
            "-q)",
            "the slope of the exponential loss",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
        (
            "np.where(q > FLAT, -q, np.log(softplus))",
            "np.where(q > 1.0, -q, np.log(softplus))",
            "a seam in the loss",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
    ),
    *mutants_of(
        "training/losses/cross_entropy.py",
        (
            "np.where(s < -FLAT, s, np.log(softplus))",
            "np.log(softplus)",
            "losses below 1e-308 are zero",
            LOSSES("test_a_loss_of_ten_to_the_minus_881_is_a_number_like_any_other"),
        ),
        (
            "np.put_along_axis(slopes, index, -missing, axis=-1)",
            "pass",
            "the own output has no gradient",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
        (
            "slopes = missing * shares / total",
            "slopes = missing * shares",
            "rivals' shares do not sum to one",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
    ),
    *mutants_of(
        "training/losses/exponential.py",
        (
            "return from_margins(targets, -q, -q)",
            "return from_margins(targets, -q, -2 * q)",
            "the slope of another loss",
            LOSSES("test_value_and_slope_are_the_plain_ones"),
        ),
    ),
    *mutants_of(
        "training/losses/smoothed_logistic.py",
        (
            "e * np.exp(-down) - (1 - e) * np.exp(-up)",
            "-(1 - e) * np.exp(-up)",
            "large margins are not pulled back",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
        (
            "e, q = self.smoothing / 2,",
            "e, q = self.smoothing,",
            "twice the smoothing",
            OPTIMIZERS("test_an_optimizer_is_its_formula"),
        ),
    ),
    *mutants_of(
        "training/losses/smoothed_cross_entropy.py",
        (
            "self.smoothing / c + 1 - self.smoothing",
            "1 - self.smoothing",
            "labels do not sum to one",
            OPTIMIZERS("test_smoothed_losses_are_their_formulas"),
        ),
    ),
]
