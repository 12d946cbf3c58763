"""Run the claims, print the table of verdicts, write the report."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from featavg.errors import InputError
from featavg.figures.matplotlib_figure import render
from featavg.figures.typeset import without_tags
from featavg.paper.engine.claim import Claim, Context, Verdict
from featavg.paper.engine.registry import find_claims
from featavg.paper.engine.result import ClaimResult, not_run
from featavg.paper.engine.run import run_claims
from featavg.paper.engine.store import any_kept, last_result, record_result, recorded_result
from featavg.paper.engine.terminal import show_results
from featavg.paper.report.page import write_report
from featavg.storage.files import dumps, strict_json, usable_file, usable_folder, write
from featavg.storage.places import results_folder, typed
from featavg.storage.provenance import provenance

DEFAULT_OUT = results_folder("report")


def reproduce(
    only: str | Iterable[str] | None = None,
    full: bool = False,
    seeds: int = 5,
    out: str | Path | None = None,
    json: str | Path | None = None,
    data_dir: str | Path | None = None,
    record: bool = False,
    resume: bool | None = None,
    claims: Sequence[Claim] | None = None,
    quiet: bool = False,
    workers: int | None = None,
) -> list[ClaimResult]:
    """Run claims and write `out/report.html`, `out/figures/` and, if asked, everything as `json`.

    Args:
        only: ids or beginnings of ids, in a list or separated by commas; all claims by default.
        full: run the full tier too (hours). Without it a full-tier claim shows its recorded
            result, or is "not run" with the command that runs it.
        seeds: how many seeds, counted from 0.
        out: folder for the report; `featavg-results/report` by default.
        json: file for all numbers, verdicts and figures, for machines.
        data_dir: where data sets are.
        record: keep the results of full-tier claims in the package (`featavg/results/`).
        resume: take over what an earlier run into the same folder has finished with the same
            claim, seeds, tier, version and source. By default a full run does, so that it can be
            killed and started again, and a quick run does not: it takes a minute or two and is
            then all of one piece.
        claims: run these instead of the registered ones.
        quiet: print nothing.
        workers: processes. By default a quick run that takes a while uses all cores, and a full
            run one process after the other, whose recorded times then mean something.

    A claim whose program breaks is shown as "not run" with the error, and has `error` set: the
    command line then exits with code 1, after everything else has been run and written.

    >>> import tempfile
    >>> import featavg as fa
    >>> (result,) = fa.paper.reproduce(only="lemma-12", seeds=1, out=tempfile.mkdtemp(), quiet=True)
    >>> result.verdict.value
    'holds'
    """
    if seeds < 1:
        raise InputError("seeds", f"is {seeds}", "give at least one")
    chosen = find_claims(only, claims)
    if json is not None:
        usable_file(Path(json), "json")
    folder = usable_folder(Path(out) if out is not None else DEFAULT_OUT)
    settings = Context(seeds=tuple(range(seeds)), full=full, data_dir=Path(data_dir) if data_dir else None)
    earlier = {claim.id: recorded_result(claim.id) for claim in chosen if claim.tier == "full"}
    outcomes = run_claims(chosen, settings, folder, earlier, full if resume is None else resume, quiet, workers)
    if record:
        for outcome in outcomes:
            fresh = not outcome.recorded and outcome.verdict is not Verdict.NOT_RUN
            if outcome.tier == "full" and fresh:
                record_result(outcome)
    if not quiet:
        show_results(outcomes)
    _write(outcomes, folder, Path(json) if json is not None else None, quiet)
    return outcomes


def rebuild(
    folder: str | Path | None = None,
    only: str | Iterable[str] | None = None,
    quiet: bool = False,
    slides: bool = False,
    pdf: bool = False,
) -> list[ClaimResult]:
    """Write the report again from the results that `reproduce` left in `folder`; nothing is run.

    The page has the claims that it had: those with a result there, and after a run of the whole
    quick tier all others too, as they were recorded with the package, if they were.

    Args:
        folder: what `reproduce` wrote to; `featavg-results/report` by default.
        only: ids or beginnings of ids, whether they have a result there or not.
        quiet: print nothing.
        slides: write `slides.pdf` too, a figure a page.
        pdf: write every figure as PDF too.

    >>> import tempfile
    >>> import featavg as fa  # long
    >>> folder = tempfile.mkdtemp()
    >>> ran = fa.paper.reproduce(only="lemma-12", seeds=1, out=folder, quiet=True)
    >>> [result.verdict.value for result in fa.paper.rebuild(folder, quiet=True)]
    ['holds']
    """
    chosen = find_claims(only)
    out = Path(folder) if folder is not None else DEFAULT_OUT
    if not any_kept(out):
        remedy = f"run `{typed('featavg reproduce')}` first"
        raise InputError(str(out), "holds no results of `featavg reproduce`", remedy)
    kept = {claim.id: last_result(out, claim.id) for claim in chosen}
    whole = all(kept[claim.id] for claim in chosen if claim.tier == "quick")
    settings = Context()
    results = [
        kept[claim.id] or recorded_result(claim.id) or not_run(claim, settings, f"There is no result of it in {out}.")
        for claim in chosen
        if only is not None or whole or kept[claim.id]
    ]
    if not quiet:
        show_results(results)
    _write(results, usable_folder(out), None, quiet, pdf)
    if slides:
        written = _write_slides(results, out)
        if not quiet:
            print(f"Slides: {written}")
    return results


def exit_code(outcomes: Iterable[ClaimResult]) -> int:
    """1 if the program of a claim broke, else 0: a claim that fails is a finding, not a fault."""
    return int(any(outcome.error for outcome in outcomes))


def _write(outcomes: list[ClaimResult], folder: Path, json: Path | None, quiet: bool, pdf: bool = False) -> None:
    about = provenance()
    page = write_report(outcomes, folder, about, pdf)
    if json is not None:
        described = {"provenance": about, "outcomes": [outcome.to_json() for outcome in outcomes]}
        write(json, dumps(strict_json(described)), "json")
    if not quiet:
        print(f"Report: {page}")


def write_result(result: ClaimResult, folder: Path) -> None:
    """Write one result to `folder`: every number as JSON, every figure as files."""
    write(folder / f"{result.id}.json", dumps(result.to_json()))
    for figure in result.evidence.figures if result.evidence is not None else ():
        for extension, content in render(figure).items():
            write(folder / f"{figure.name}.{extension}", content)
    print(f"Written to {folder}")


def _write_slides(results: Sequence[ClaimResult], folder: Path) -> Path:
    """Writes `folder/slides.pdf`: the figures of `results`, in their order; the file's path."""
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure as Page
    from matplotlib.image import imread

    buffer = io.BytesIO()
    with PdfPages(buffer, metadata={"Title": "featavg", "CreationDate": None}) as pages:
        shown = [(r, figure) for r in results if r.evidence is not None for figure in r.evidence.figures]
        for result, figure in shown:
            # Inches: the 16:9 page of PowerPoint and Keynote.
            page = Page(figsize=(13.33, 7.5))
            page.text(0.04, 0.92, without_tags(figure.title), fontsize=24, weight="bold")
            verdict = f"{result.verdict.value} · {result.id}"
            page.text(0.04, 0.87, verdict, fontsize=13, color="0.35")
            caption = textwrap.fill(without_tags(figure.caption), 130)
            page.text(0.04, 0.04, caption, fontsize=12, color="0.25", va="bottom")
            picture = page.add_axes((0.04, 0.16, 0.92, 0.68))
            picture.imshow(imread(io.BytesIO(render(figure, ("png",))["png"])))
            picture.set_axis_off()
            page.set_dpi(200)
            pages.savefig(page)
    return write(folder / "slides.pdf", buffer.getvalue())
