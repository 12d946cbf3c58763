"""Mutants of the training driver, its checkpoints and objectives."""

from tests.mutants import mutants_of, tests_in

HEADS = tests_in("images/test_heads.py")
DEEP = tests_in("training/test_deep.py")
DRIVER = tests_in("training/test_driver.py")
GRADIENTS = tests_in("training/test_gradients.py")
OPTIMIZERS = tests_in("training/test_optimizers.py")
TIGHT = tests_in("training/test_tight.py")

MUTANTS = [
    *mutants_of(
        "training/driver.py",
        (
            "accepted = accepted & state.active & ~passed",
            "accepted = accepted & state.active",
            "a step past the end of the time span counts",
            TIGHT("test_a_step_past_the_end_of_time_is_taken_back_and_capped"),
        ),
        (
            "state.memory = _mix(accepted, proposal.state, state.memory)",
            "state.memory = proposal.state",
            "a rejected step leaves its momentum behind",
            TIGHT("test_only_seeds_that_accept_move_remember_count_and_age"),
        ),
        (
            "state.params = _mix(accepted, proposal.params, state.params)",
            "state.params = proposal.params",
            "a rejected step is taken",
            TIGHT("test_only_seeds_that_accept_move_remember_count_and_age"),
        ),
        (
            "state.rate = np.where(state.active & ~passed, rate, state.rate)",
            "state.rate = rate",
            "a seed that ended, or overshot, changes its rate",
            TIGHT("test_a_seed_that_ended_stays_as_it_is"),
        ),
        (
            "state.steps = np.asarray(state.steps + accepted)",
            "state.steps = np.asarray(state.steps + 1)",
            "a seed's steps count those of its companions",
            TIGHT("test_only_seeds_that_accept_move_remember_count_and_age"),
        ),
        (
            "elapsed = np.where(accepted, proposal.log_elapsed, -np.inf)",
            "elapsed = proposal.log_elapsed",
            "time passes for seeds that did not move",
            TIGHT("test_only_seeds_that_accept_move_remember_count_and_age"),
        ),
        (
            "state.end(Outcome.DIVERGED, ~np.isfinite(log_loss))",
            "pass",
            "a run whose loss is NaN ends well",
            TIGHT("test_every_end_has_its_name"),
        ),
        (
            "state.end(Outcome.TARGET_LOSS, log_loss <= stop.log_loss)",
            "state.end(Outcome.TARGET_LOSS, log_loss < stop.log_loss - 1.0)",
            "the target loss is overrun",
            TIGHT("test_every_end_has_its_name"),
        ),
        (
            "rules = (stepper, controller, stop, save_at, tuple(objective.trainable))",
            "rules = (stepper, stop, save_at, tuple(objective.trainable))",
            "a checkpoint of another rate is continued",
            TIGHT("test_a_checkpoint_belongs_to_its_rules_and_its_data"),
        ),
        (
            "key = fingerprint([*params, *objective.data], *rules)",
            "key = fingerprint([*params], *rules)",
            "a checkpoint of other data is continued",
            TIGHT("test_a_checkpoint_belongs_to_its_rules_and_its_data"),
        ),
        (
            "*stored)\n        evaluation = objective.evaluate(state.params)",
            "*stored)",
            "a resumed run takes its first step from the start",
            TIGHT("test_a_killed_run_goes_on_where_it_was"),
        ),
        (
            "np.minimum(controller.log_rate(state.rate, evaluation), state.cap)",
            "controller.log_rate(state.rate, evaluation)",
            "the end of the time span is never met",
            TIGHT("test_a_cap_holds_for_the_seed_that_has_it"),
        ),
        (
            "factor = np.where(accepted, np.exp(log_rate + before.log_loss), 0.0)",
            "factor = np.exp(log_rate + before.log_loss)",
            "recorders see steps that were not taken",
            TIGHT("test_only_seeds_that_accept_move_remember_count_and_age"),
        ),
        (
            "landing = log_rate + np.log(np.log1p(drop * np.exp(left - log_rate)) / drop)",
            "landing = left + 0.0 * drop",
            "the last step overshoots where the loss falls fast",
            TIGHT("test_the_landing_rate_is_where_the_time_ends"),
        ),
    ),
    *mutants_of(
        "training/driver.py",
        (
            '_ARRAYS = ("rate", "cap", "log_time",',
            '_ARRAYS = ("rate", "log_time",',
            "the cap of the last step is not restored",
            TIGHT("test_a_run_state_comes_back_whole"),
        ),
        (
            '"steps", "last_saved", "last_saved_time")',
            '"steps", "last_saved")',
            "a resumed run saves other states",
            TIGHT("test_a_run_state_comes_back_whole"),
        ),
        (
            "new = np.asarray(wanted & (self.last_saved != self.steps))",
            "new = np.asarray(wanted | False)",
            "states are saved twice",
            TIGHT("test_a_state_is_saved_once_and_for_those_who_want_it"),
        ),
        (
            "if mine.all():\n        return rows",
            "return rows",
            "rows of a seed's companions count as its own",
            TIGHT("test_rows_of_companions_are_dropped"),
        ),
    ),
    *mutants_of(
        "training/checkpoint.py",
        (
            'if meta.get("run") != run:',
            "if False:",
            "the checkpoint of another run is continued",
            TIGHT("test_a_checkpoint_belongs_to_its_rules_and_its_data"),
        ),
        (
            "digest.update(str(array.shape).encode())",
            "pass",
            "arrays of other shapes have the same name",
            TIGHT("test_a_fingerprint_sees_shapes_values_and_words"),
        ),
        (
            "digest.update(np.ascontiguousarray(array).data)",
            "pass",
            "runs on other data have the same name",
            TIGHT("test_a_checkpoint_belongs_to_its_rules_and_its_data"),
        ),
    ),
    *mutants_of(
        "training/trajectory.py",
        (
            "column[-1] if rest is None else rest",
            "0 * column[-1] if rest is None else rest",
            "a seed that ended early is padded with zeros",
            TIGHT("test_joined_runs_stay_where_they_ended"),
        ),
        (
            "along([run.log_rate for run in runs], rest=-np.inf)",
            "along([run.log_rate for run in runs])",
            "a seed that ended seems to go on",
            TIGHT("test_joined_runs_stay_where_they_ended"),
        ),
        (
            "return next((ended for ended in self.outcomes if ended in bad), self.outcomes[0])",
            "return self.outcomes[0]",
            "a diverged seed hides behind the first",
            TIGHT("test_joined_runs_stay_where_they_ended"),
        ),
    ),
    *mutants_of(
        "training/objectives.py",
        (
            "upstream *= np.ascontiguousarray(self.preactivations >= 0.0)",
            "upstream *= self.preactivations > 0.0",
            "the indicator is zero at zero",
            GRADIENTS("test_the_indicator_is_one_at_zero"),
        ),
        (
            "upstream *= np.ascontiguousarray(self.preactivations >= 0.0)",
            "pass",
            "no indicator at all",
            GRADIENTS("test_the_gradient_is_that_of_autograd"),
        ),
        (
            "return np.add.reduce(self.neuron_slopes, axis=-2)",
            "return np.mean(self.neuron_slopes, axis=-2)",
            "biases learn n times slower",
            GRADIENTS("test_the_gradient_is_that_of_autograd"),
        ),
        (
            "return self.loss.slopes.swapaxes(-1, -2) @ np.maximum(self.preactivations, 0.0)",
            "return self.loss.slopes.swapaxes(-1, -2) @ self.preactivations",
            "the head's gradient ignores ReLUs",
            GRADIENTS("test_the_gradient_is_that_of_autograd"),
        ),
        (
            "if not np.isfinite([x.min(), x.max()]).all():",
            "if False:",
            "NaN in the data trains a NaN",
            DRIVER("test_nan_in_the_data_is_refused"),
        ),
        (
            "np.take_along_axis(x, rows[..., None], -2)",
            "x[..., rows[0], :]",
            "seeds out of step get each other's mini-batch",
            OPTIMIZERS("test_seeds_out_of_step_have_their_own_mini_batches"),
        ),
    ),
    *mutants_of(
        "training/objectives.py",
        (
            "parts[biases] = np.asarray(d.sum(axis=-2))",
            "parts[biases] = np.asarray(d.mean(axis=-2))",
            "biases learn n times slower",
            DEEP("test_gradients_are_those_of_autograd"),
        ),
    ),
    *mutants_of(
        "training/heads.py",
        (
            'asleep = np.einsum("ij,ij->i", weights, spoken_for) < 0',
            'asleep = np.einsum("ij,ij->i", weights, spoken_for) > 0',
            "all neurons start asleep",
            HEADS("test_awake_neurons_all_see_the_data_and_gaussian_ones_do_not"),
        ),
        (
            "(groups[classes] == 1, 1, -1)",
            "(groups[classes] == 0, 1, -1)",
            "the coarse classes change places",
            HEADS("test_class_labels_average_and_fine_labels_do_not"),
        ),
    ),
]
