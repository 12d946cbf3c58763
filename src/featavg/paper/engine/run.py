"""Run claims, one after the other or side by side; what was finished is kept."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from featavg.errors import InputError
from featavg.machine import cores, work_alone
from featavg.paper.engine import store, terminal
from featavg.paper.engine.claim import Claim, Context, Verdict
from featavg.paper.engine.registry import find_claims
from featavg.paper.engine.result import ClaimResult, judge, too_long
from featavg.progress import Progress, silent

# Minutes of work from which on processes are started for it: they take some seconds to start.
WORTH_PROCESSES = 0.5


def run_claims(
    chosen: Sequence[Claim],
    settings: Context,
    folder: Path,
    earlier: dict[str, ClaimResult | None],
    resume: bool,
    quiet: bool,
    workers: int | None = None,
) -> list[ClaimResult]:
    """The outcome of every claim of `chosen`, in that order.

    What is finished is kept in `folder` and taken over if `resume`; `earlier` has the recorded outcomes of
    full-tier claims. `workers` are processes: by default all cores for a quick run that takes a while.
    """
    outcomes: dict[str, ClaimResult] = {}
    by_id = {claim.id: claim for claim in chosen}
    waiting: list[Claim] = []
    taken_over = 0
    for claim in chosen:
        done = store.kept(folder, claim, settings) if resume else None
        if done is not None:
            outcomes[claim.id] = done
            taken_over += 1
        elif claim.tier == "full" and not settings.full:
            outcomes[claim.id] = earlier[claim.id] or too_long(claim, settings)
        else:
            waiting.append(claim)
    if taken_over and not quiet:
        print(f"{taken_over} claims were finished by an earlier run and are taken over.")
    count = _workers(workers, waiting, settings)
    with terminal.Watch(waiting, quiet=quiet, workers=count) as watch:
        for outcome in _judged(waiting, settings, watch, count):
            store.keep(folder, outcome, by_id[outcome.id], settings)
            watch.finish(outcome)
            logging.getLogger(__name__).info("%s: %s", outcome.id, outcome.verdict.value)
            outcomes[outcome.id] = _or_recorded(outcome, earlier.get(outcome.id))
    return [outcomes[claim.id] for claim in chosen]


def run_claim(
    id: str,
    seeds: int | tuple[int, ...] = 5,
    data_dir: str | Path | None = None,
    progress: Progress = silent,
    **values: Any,
) -> ClaimResult:
    """Run one claim, with some of its parameters changed; the tolerances stay those of the claim.

    Args:
        id: of the claim.
        seeds: how many, counted from 0, or which.
        data_dir: where data sets are.
        progress: called with the share done and a note.
        values: parameters of the claim, `Claim.parameters` has their defaults.

    >>> import featavg as fa
    >>> result = fa.paper.run_claim("lemma-12-epsilon")
    >>> result.verdict.value, result.evidence.checks[0].passed
    ('holds', True)
    """
    (claim,) = find_claims([id])
    chosen = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    folder = None if data_dir is None else Path(data_dir)
    return judge(claim, Context(chosen, claim.tier == "full", folder, progress), **claim.values_of(values))


def _workers(workers: int | None, waiting: Sequence[Claim], settings: Context) -> int:
    """How many processes. The full tier has one: its claims use all cores and memory themselves."""
    if workers is not None and workers < 1:
        raise InputError("workers", f"is {workers}", "give the number of processes, at least one")
    minutes = sum(float(claim.minutes) for claim in waiting)
    if workers is None and (settings.full or minutes < WORTH_PROCESSES):
        return 1
    return max(1, min(workers or cores(), len(waiting)))


def _judged(waiting: Sequence[Claim], settings: Context, watch: terminal.Watch, workers: int) -> Iterator[ClaimResult]:
    """The result of every claim, in any order."""
    if workers == 1:
        for claim in waiting:
            watch.update(claim, 0.0, "")
            yield judge(claim, replace(settings, progress=partial(watch.update, claim)))
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    # What one process has computed another does not know: claims on the same runs go to one process.
    families: dict[str, list[Claim]] = {}
    for claim in waiting:
        families.setdefault(claim.shares or f"alone: {claim.id}", []).append(claim)
    # The longest first, so that no worker is left with a long claim at the end.
    ordered = sorted(families.values(), key=lambda some: sum(float(claim.minutes) for claim in some), reverse=True)
    # One BLAS thread each, so that a claim's numbers do not depend on how many run beside it.
    with parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1)
        try:
            for results in pool(delayed(_judge_alone)(family, settings) for family in ordered):
                yield from results
        except TerminatedWorkerError as error:
            raise InputError(
                "workers",
                "lost a process, perhaps for want of memory",
                "use fewer; with --resume, finished claims are kept",
            ) from error


def _judge_alone(family: Sequence[Claim], settings: Context) -> list[ClaimResult]:
    work_alone()
    return [judge(claim, settings) for claim in family]


def _or_recorded(outcome: ClaimResult, earlier: ClaimResult | None) -> ClaimResult:
    """A claim that cannot be run here shows its recorded result, and says why it is an old one."""
    if outcome.verdict is Verdict.NOT_RUN and not outcome.error and earlier is not None:
        return replace(earlier, reason=f"Not run here: {outcome.reason}")
    return outcome
