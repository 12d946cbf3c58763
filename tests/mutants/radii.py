"""Mutants of models, radii, certificates and curves."""

from tests.mutants import mutants_of, tests_in

DEEP_TIGHT = tests_in("robustness/test_deep_tight.py")

MUTANTS = [
    *mutants_of(
        "robustness/deep_radii.py",
        (
            "certified = min(found.certified, attack)",
            "certified = found.certified",
            "certified beyond the witness",
            DEEP_TIGHT("test_nothing_is_certified_beyond_the_witness"),
        ),
        (
            "if self.decision.excess(point[None], goals)[0] <= 0:",
            "if True:",
            "a step that does not flip is a witness",
            DEEP_TIGHT("test_a_candidate_that_does_not_flip_is_no_witness"),
        ),
    ),
    *mutants_of(
        "robustness/certify.py",
        (
            "if found.finished and found.certified >= radius:",
            "if found.finished:",
            "an unproven point is called certified",
            DEEP_TIGHT("test_a_certificate_says_what_is_proven"),
        ),
        (
            "if attack <= radius:",
            "if attack <= 2 * radius:",
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
]
