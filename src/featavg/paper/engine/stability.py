"""How often a claim's verdict comes out the same with other seeds.

Ten further blocks of five seeds (1000 to 1004, 2000 to 2004, ...) are judged like the first, 0 to 4. The
verdicts are kept in `featavg/paper/stability.json`, and the report shows beside each verdict how many
blocks share it. Claims in which nothing is random have nothing to count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import featavg
from featavg.errors import InputError
from featavg.paper.engine.claim import Claim, Context
from featavg.paper.engine.registry import find_claims
from featavg.paper.engine.run import run_claims
from featavg.progress import duration
from featavg.storage.files import dumps, usable_folder, write
from featavg.storage.places import results_folder
from featavg.storage.provenance import commit
from featavg.storage.reading import read_json

RECORD = Path(featavg.__file__).parent / "paper" / "stability.json"
# A claim that uses four times the seeds reaches 19 beyond the first one: the blocks stay disjoint.
BLOCK_SIZE, APART = 5, 1000
DEFAULT_OUT = results_folder("stability")


def block_seeds(block: int) -> tuple[int, ...]:
    """The seeds of a block; block 0 is the one that claims are judged by.

    >>> block_seeds(0), block_seeds(2)
    ((0, 1, 2, 3, 4), (2000, 2001, 2002, 2003, 2004))
    """
    return tuple(range(APART * block, APART * block + BLOCK_SIZE))


def is_random(claim: Claim) -> bool:
    """Whether seeds can change what the claim measures."""
    return claim.seeds != 0


def stability(
    only: str | Iterable[str] | None = None,
    blocks: int = 10,
    out: str | Path | None = None,
    data_dir: str | Path | None = None,
    record: bool = False,
    claims: Sequence[Claim] | None = None,
    quiet: bool = False,
    workers: int | None = None,
) -> dict[str, list[str]]:
    """The verdicts of each claim: by the seeds 0 to 4 first, then by `blocks` other blocks of seeds.

    Args:
        only: ids or beginnings of ids, in a list or separated by commas; the quick tier by default.
        blocks: how many other blocks of five seeds.
        out: folder for what is finished, so that a killed run resumes; `featavg-results/stability`.
        data_dir: where data sets are.
        record: keep the verdicts in the package, beside those of other claims.
        claims: take these instead of the registered ones.
        quiet: print nothing.
        workers: processes; all cores by default.

    >>> import tempfile
    >>> import featavg as fa
    >>> fa.paper.stability("theorem-2-clean", blocks=1, out=tempfile.mkdtemp(), quiet=True)
    {'theorem-2-clean': ['holds', 'holds']}
    """
    if blocks < 1:
        raise InputError("blocks", f"is {blocks}", "give at least one")
    tiers = ("quick",) if only is None else ("quick", "full")
    chosen = [c for c in find_claims(only, claims) if is_random(c) and c.tier in tiers]
    if not chosen:
        raise InputError("only", "names nothing random", "name a claim that uses seeds")
    folder, started = usable_folder(Path(out) if out is not None else DEFAULT_OUT), perf_counter()
    settings = Context(data_dir=Path(data_dir) if data_dir else None)
    verdicts: dict[str, list[str]] = {claim.id: [] for claim in chosen}
    for block in range(blocks + 1):
        for tier in tiers:
            used = replace(settings, seeds=block_seeds(block), full=tier == "full")
            some = [claim for claim in chosen if claim.tier == tier]
            place = folder / f"block-{block}"
            for result in run_claims(some, used, place, {}, True, quiet, workers):
                verdicts[result.id].append(result.verdict.value)
        if not quiet:
            left = (perf_counter() - started) / (block + 1) * (blocks - block)
            print(f"Block {block + 1} of {blocks + 1} done; about {duration(left)} left.")
    if record:
        record_verdicts(verdicts)
    return verdicts


def agreement(verdicts: Sequence[str], shown: str) -> tuple[int, int]:
    """How many of the other blocks have the verdict `shown`, and how many blocks there are.

    >>> agreement(["holds", "holds", "undecided"], "holds")
    (1, 2)
    """
    others = list(verdicts[1:])
    return others.count(shown), len(others)


def others_text(verdicts: Sequence[str], shown: str) -> str:
    """The other verdicts, counted.

    >>> others_text(["holds", "holds", "undecided", "fails", "undecided"], "holds")
    '2 undecided, 1 fails'
    """
    others = Counter(verdict for verdict in verdicts[1:] if verdict != shown)
    return ", ".join(f"{count} {verdict}" for verdict, count in others.most_common())


def in_words(claim_id: str, shown: str) -> str:
    """How many other blocks have the verdict `shown`, from the record; empty if there is none."""
    verdicts = recorded().get("claims", {}).get(claim_id, {}).get("verdicts", ())
    if len(verdicts) < 2:
        return ""
    same, count = agreement(verdicts, shown)
    rest = others_text(verdicts, shown)
    return f"the same verdict on {same} of {count} other blocks of seeds" + (f" ({rest})" if rest else "")


@cache
def recorded(path: Path = RECORD) -> dict[str, Any]:
    """What was recorded with the package."""
    described: dict[str, Any] = read_json(path) if path.exists() else {}
    return described


def record_verdicts(verdicts: Mapping[str, Sequence[str]], path: Path = RECORD) -> None:
    """Keep the verdicts, in the order of the claims; those of other claims stay."""
    known = recorded(path).get("claims", {})
    made = {"version": featavg.__version__, "commit": commit()}
    known |= {name: made | {"verdicts": list(each)} for name, each in verdicts.items()}
    order = [claim.id for claim in find_claims(None) if claim.id in known]
    write(path, dumps({"claims": {name: known[name] for name in order}}), "record")
    recorded.cache_clear()
