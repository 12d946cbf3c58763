"""Mutants of sweeps and of the rule of verdicts."""

from tests.mutants import mutants_of, tests_in

LEDGER = tests_in("claims/test_ledger.py")
SWEEP = tests_in("sweep/test_sweep.py")
TIGHT = tests_in("sweep/test_tight.py")

MUTANTS = [
    *mutants_of(
        "paper/engine/check.py",
        (
            "if least <= low and high <= most:",
            "if least <= high and low <= most:",
            "a check that straddles its bound passes",
            LEDGER("test_the_rule_of_verdicts"),
        ),
        (
            "if least <= low and high <= most:",
            "if least < low and high < most:",
            "an end of the tolerance does not pass",
            LEDGER("test_checks"),
        ),
        (
            'return (-math.inf, bound) if self.relation == "<=" else (bound, math.inf)',
            'return (bound, math.inf) if self.relation == "<=" else (-math.inf, bound)',
            "the relations change places",
            LEDGER("test_checks"),
        ),
        (
            "return mean - deviation, mean + deviation",
            "return mean, mean",
            "seeds that disagree decide",
            LEDGER("test_the_rule_of_verdicts"),
        ),
        (
            "broken = any(map(math.isnan, values))",
            "broken = False",
            "a seed that is NaN is ignored",
            LEDGER("test_seeds_are_judged_by_mean_and_deviation"),
        ),
        (
            "stdev(values) if len(values) > 1 else 0.0",
            "stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0",
            "more seeds make a verdict by counting",
            LEDGER("test_repeating_the_same_seeds_does_not_change_a_check"),
        ),
    ),
    *mutants_of(
        "paper/engine/claim.py",
        (
            "(CheckStatus.FAILED, CheckStatus.FAILED): Verdict.FAILS,",
            "(CheckStatus.FAILED, CheckStatus.FAILED): Verdict.IN_PART,",
            "nothing ever fails",
            LEDGER("test_the_rule_of_verdicts"),
        ),
        (
            "statuses = self.main, (CheckStatus.FAILED, CheckStatus.UNDECIDED)",
            "statuses = self.main, (CheckStatus.UNDECIDED, CheckStatus.FAILED)",
            "a failure hides behind a check that straddles",
            LEDGER("test_the_rule_of_verdicts"),
        ),
        (
            "if check.essential and check.status is status:",
            "if check.status is status:",
            "a by-product changes the verdict",
            LEDGER("test_the_rule_of_verdicts"),
        ),
        (
            "        if main.passed:\n",
            "        if True:\n",
            "the main check does not decide alone",
            LEDGER("test_the_rule_of_verdicts"),
        ),
    ),
    *mutants_of(
        "simulate/sweep/work.py",
        (
            "parts = [values, seed, measure.name, measure.version, featavg.__version__]",
            "parts = [values, measure.name, measure.version, featavg.__version__]",
            "all seeds are one run",
            TIGHT("test_every_part_of_a_run_is_in_its_id"),
        ),
        (
            "parts = [values, seed, measure.name, measure.version, featavg.__version__]",
            "parts = [values, seed, measure.name, featavg.__version__]",
            "a measure that changed is not measured again",
            TIGHT("test_every_part_of_a_run_is_in_its_id"),
        ),
        (
            "parts = [values, seed, measure.name, measure.version, featavg.__version__]",
            "parts = [seed, measure.name, measure.version, featavg.__version__]",
            "all settings are one run",
            TIGHT("test_every_part_of_a_run_is_in_its_id"),
        ),
        (
            'exclude={"seeds"}',
            "exclude=set()",
            "a seed alone is another run than in company",
            TIGHT("test_a_seed_is_the_same_run_alone_and_in_company"),
        ),
        (
            "if job.version != featavg.__version__:",
            "if False:",
            "workers of another version compute",
            SWEEP("test_workers_of_another_version_are_refused"),
        ),
    ),
    *mutants_of(
        "simulate/sweep/plan.py",
        (
            "np.geomspace(low, high, count) if log else np.linspace(low, high, count)",
            "np.linspace(low, high, count)",
            "log axes are straight",
            TIGHT("test_points_of_an_axis"),
        ),
        (
            "low * (high / low) ** share if axis.log else low + share * (high - low)",
            "low + share * (high - low)",
            "random points on a log axis crowd at its end",
            TIGHT("test_points_of_an_axis"),
        ),
        (
            "if both:",
            "if False:",
            "a field that is given and varied is silently varied",
            SWEEP("test_bad_sweeps_are_refused_before_anything_is_written"),
        ),
    ),
]
