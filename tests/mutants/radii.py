"""Mutants of models, radii, certificates and curves."""

from tests.mutants import mutants_of, tests_in

ATTACKS_HONESTY = tests_in("robustness/test_attacks_honesty.py")
ATTACKS_TIGHT = tests_in("robustness/test_attacks_tight.py")
DEEP_WITNESS = tests_in("robustness/test_deep_witness.py")
DEEP_TIGHT = tests_in("robustness/test_deep_tight.py")
RADII_TIGHT = tests_in("robustness/test_radii_tight.py")

ON_NORMS = ATTACKS_TIGHT("test_lengths_balls_and_boxes", "test_half_spaces_that_cannot_be_reached")
ON_MODEL = ATTACKS_TIGHT("test_a_tie_is_a_flip_and_a_broken_gradient_is_refused") + ATTACKS_HONESTY(
    "test_a_float32_flip_must_be_deeper_than_rounding", "test_half_precision_modules_are_attacked_in_float32"
)
ON_TORCH_MODEL = ATTACKS_TIGHT("test_batches_of_a_module_keep_their_labels_and_evaluation_mode") + ATTACKS_HONESTY(
    "test_a_float32_flip_must_be_deeper_than_rounding", "test_half_precision_modules_are_attacked_in_float32"
)
ON_CURVE = ATTACKS_TIGHT(
    "test_curves_by_hand", "test_misclassified_points_are_not_robust_and_all_points_count"
) + ATTACKS_HONESTY("test_pgd_that_attacks_nothing_is_refused")
ON_LINF = RADII_TIGHT("test_linf_claims_no_more_than_its_witness_and_its_ball", "test_linf_probes_steps_that_flip_only")
ON_RADII = RADII_TIGHT(
    "test_nothing_is_certified_beyond_the_witness",
    "test_the_floor_of_probability_has_the_slack_of_its_rivals",
    "test_a_score_of_zero_is_flipped",
    "test_where_no_candidate_flips_an_attack_is_asked",
    "test_nothing_found_is_not_never",
    "test_how_a_search_ended",
)

MUTANTS = [
    *mutants_of(
        "robustness/exact/deep/solver.py",
        (
            "certified, rounding = min(found.certified, attack), 1e-12 * reach",
            "certified, rounding = found.certified, 1e-12 * reach",
            "certified beyond the witness",
            DEEP_TIGHT("test_nothing_is_certified_beyond_the_witness"),
        ),
        (
            "if self.decision.margins(tried[None], label)[0] <= 0:",
            "if True:",
            "a step that does not flip is a witness",
            DEEP_TIGHT("test_a_candidate_that_does_not_flip_is_no_witness"),
        ),
        (
            "for tried in (point, zeroed):",
            "for tried in (point,):",
            "a tie at the origin alone is never shown",
            DEEP_WITNESS("test_a_tie_at_the_origin_alone_is_shown"),
        ),
    ),
    *mutants_of(
        "robustness/certify.py",
        (
            "if answer.finished and answer.certified >= radius:",
            "if answer.finished:",
            "an unproven point is called certified",
            DEEP_TIGHT("test_a_certificate_says_what_is_proven"),
        ),
        (
            "if answer.attack <= radius:",
            "if answer.attack <= 2 * radius:",
            "a flip outside the radius counts",
            DEEP_TIGHT("test_a_certificate_says_what_is_proven"),
        ),
        (
            "wrong = self.mask(Certificate.FLIPPED) | self.mask(Certificate.MISCLASSIFIED)",
            "wrong = self.mask(Certificate.FLIPPED)",
            "misclassified points are no errors",
            DEEP_TIGHT("test_misclassified_points_are_errors"),
        ),
    ),
    *mutants_of(
        "robustness/models/norms.py",
        (
            "shrink = np.minimum(1.0, radius / np.where(size > 0, size, 1.0))",
            "shrink = radius / np.where(size > 0, size, 1.0)",
            "what is inside the ball is pushed to its rim",
            ATTACKS_TIGHT("test_lengths_balls_and_boxes"),
        ),
        (
            "return np.asarray(np.clip(delta, -limit, limit))",
            "return np.asarray(delta)",
            "an l_inf ball without walls",
            ON_NORMS,
        ),
        ("np.clip(x + delta, *bounds) - x", "np.clip(delta, *bounds)", "the box is around zero", ON_NORMS),
        (
            'slope = np.abs(gradient) if norm == "linf" else gradient**2',
            "slope = gradient**2",
            "the l_inf step is as long as the l2 one",
            ON_NORMS,
        ),
        ("found = ~moving | (total > 0)", "found = moving | True", "a dead gradient finds a way", ON_NORMS),
        ("found &= ~behind | (left > 0)", "pass", "what the box cannot reach is called reached", ON_NORMS),
        ("np.abs(wide).max(axis=1, initial=0.0)", "np.abs(wide).sum(axis=1)", "l_inf lengths are l1", ON_NORMS),
    ),
    *mutants_of(
        "robustness/models/model.py",
        (
            "self.decision.margins(outputs, label) + depth)",
            "self.decision.margins(outputs, label))",
            "a witness within float32 rounding counts",
            ATTACKS_HONESTY("test_a_float32_flip_must_be_deeper_than_rounding"),
        ),
        (
            "return self._margins(outputs, label) <= 0",
            "return self._margins(outputs, label) < 0",
            "a tie is not fooled",
            ON_MODEL,
        ),
        ("if not np.all(np.isfinite(gradient)):", "if False:", "a NaN gradient reads as robust", ON_MODEL),
        ("x.max() > bounds[1]", "False", "points outside the box are attacked", ON_MODEL),
    ),
    *mutants_of(
        "robustness/models/decision.py",
        (
            "scores[rows, label] = -np.inf",
            "pass",
            "the own score is its own rival",
            ATTACKS_TIGHT("test_objectives_by_hand"),
        ),
        (
            "down[aimed] = np.eye(outputs.shape[1])[rival[aimed]]",
            "pass",
            "targeted attacks are not aimed",
            ATTACKS_TIGHT("test_objectives_by_hand"),
        ),
        (
            "return (y > 0).astype(int) if self.signed else y.astype(int)",
            "return (y < 0).astype(int) if self.signed else y.astype(int)",
            "labels change places",
            ATTACKS_TIGHT("test_objectives_by_hand"),
        ),
        (
            "sign = np.where(label == 1, 1.0, -1.0)",
            "sign = np.where(label == 1, 1.0, 1.0)",
            "negative points are attacked the wrong way",
            ATTACKS_TIGHT("test_objectives_by_hand"),
        ),
    ),
    *mutants_of(
        "robustness/models/torch_model.py",
        (
            "slack = 32 * float(torch.finfo(shift.dtype).eps)",
            "slack = 0.0",
            "a float32 witness that another batch does not confirm counts",
            ATTACKS_HONESTY("test_a_float32_flip_must_be_deeper_than_rounding"),
        ),
        ("self.module((x - self.mean) / self.std)", "self.module(x)", "the normalisation is forgotten", ON_TORCH_MODEL),
        (
            "with evaluating(self.module), torch.no_grad():",
            "with torch.no_grad():",
            "dropout and batch statistics of training decide",
            ATTACKS_TIGHT("test_batches_of_a_module_keep_their_labels_and_evaluation_mode"),
        ),
        (
            "with evaluating(self.module), torch.enable_grad():",
            "with torch.enable_grad():",
            "gradients are those of training mode",
            ATTACKS_TIGHT("test_batches_of_a_module_keep_their_labels_and_evaluation_mode"),
        ),
        ("start += len(part)", "pass", "labels of the first batch are used for all", ON_TORCH_MODEL),
    ),
    *mutants_of(
        "robustness/curve.py",
        # Not here: that misclassified points are attacked, too. PGD finds them flipped at its first look.
        (
            "count = np.sum(smallest[None, :] > at[:, None], axis=1)",
            "count = np.sum(smallest[None, :] >= at[:, None], axis=1)",
            "a point is robust at its own radius",
            ON_CURVE,
        ),
        (
            "smallest = np.min([one.radii for one in several], axis=0)",
            "smallest = np.max([one.radii for one in several], axis=0)",
            "the best case over attacks",
            ON_CURVE,
        ),
        (
            "check_pgd(steps, step_size, restarts)\n    right",
            "right",
            "an attack of no steps reads as robust",
            ON_CURVE,
        ),
        (
            "np.all([one.stuck for one in several], axis=0)",
            "np.any([one.stuck for one in several], axis=0)",
            "points that one attack resolved are called unresolved",
            ON_CURVE,
        ),
        (
            "if len({(len(one), one.unit) for one in several}) > 1:",
            "if False:",
            "pixels and raw units are mixed",
            ON_CURVE,
        ),
        (
            "low, high = wilson_interval(count, len(points), confidence)",
            "low, high = wilson_interval(count, len(right), confidence)",
            "the interval is for fewer points",
            ON_CURVE,
        ),
    ),
    *mutants_of(
        "robustness/linf.py",
        (
            "certified = min(tree.certified, reach, guess)",
            "certified = min(tree.certified, guess)",
            "certified beyond the witness",
            ON_LINF,
        ),
        (
            "certified = min(tree.certified, reach, guess)",
            "certified = min(tree.certified, reach)",
            "certified beyond what was searched",
            ON_LINF,
        ),
        ("witness, tree.nodes, tree.finished)", "witness, tree.nodes)", "a spent budget is not named", ON_LINF),
        (
            "if self.decision.margins(point[None], label)[0] <= 0:",
            "if True:",
            "a step that does not flip is a witness",
            ON_LINF,
        ),
    ),
    *mutants_of(
        "robustness/exact/two_layer.py",
        (
            "certified = min(found.certified, attack)",
            "certified = found.certified",
            "certified beyond the witness",
            ON_RADII,
        ),
        (
            "flipped(space, near, hard[1])",
            "flipped(space, near)",
            "the floor of `probability` without its slack is no bound",
            ON_RADII,
        ),
        (
            "hard = decision.readout.hard(int(np.sum(~own)))",
            "hard = decision.readout.hard(1)",
            "the slack is that of one rival",
            ON_RADII,
        ),
        (
            "if found.finished and self._never(label, clock):",
            "if found.finished:",
            "nothing found is called never flips",
            ON_RADII,
        ),
        (
            "            radii, points = shown or attacked(self.decision, x[None], np.array([label]))\n",
            "            pass\n",
            "an attack end is infinite where an attack finds a flip",
            ON_RADII,
        ),
    ),
    *mutants_of(
        "robustness/exact/decision.py",
        (
            "wrong[rows] = self.margins_of(outputs[rows], label) <= 0",
            "wrong[rows] = self.margins_of(outputs[rows], label) < 0",
            "a score of zero counts as right",
            ON_RADII,
        ),
        (
            "return np.arange(self.net.outputs) == label",
            "return np.arange(self.net.outputs) <= label",
            "rivals before the own class are forgotten",
            DEEP_TIGHT("test_conditions_name_every_rival"),
        ),
        (
            "return self.positive if label > 0 else ~self.positive",
            "return self.positive",
            "negative points have the wrong condition",
            DEEP_TIGHT("test_conditions_name_every_rival"),
        ),
    ),
    *mutants_of(
        "robustness/exact/result.py",
        (
            "return RadiusStatus.OPEN if self.finished else RadiusStatus.BUDGET",
            "return RadiusStatus.OPEN",
            "a spent budget is not named",
            ON_RADII,
        ),
        (
            "if attack < math.inf and self.certified >= attack * (1.0 - gap):",
            "if attack < math.inf:",
            "any bracket is called within the gap",
            ON_RADII,
        ),
    ),
]
