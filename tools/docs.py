"""Build the documentation: generated pages, then Sphinx with warnings as errors, then the links.

    python tools/docs.py [--out out/docs] [--quick]

Verdicts, statements, the API, the gallery and the notebooks are written from the package itself,
never by hand. What a page shows is executed first, on all cores (`--quick`: not at all); the notebook
that needs PyTorch is shown without its outputs where there is none.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor
from html.parser import HTMLParser
from multiprocessing import get_context
from multiprocessing.util import Finalize
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import api_pages, gallery, notebooks, verdict_pages  # noqa: E402

started = time.perf_counter()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "docs")
    options.add_argument("--quick", action="store_true", help="run no example and no notebook")
    given = options.parse_args()
    with workers() as pool, tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "docs", Path(folder) / "html"
        shutil.copytree(ROOT / "docs", source)
        shown = {} if given.quick else {page: pool.submit(*job) for page, job in on_pages().items()}
        try:
            write_pages(source, shown)
            said("pages")
            if not sphinx(source, built) or not whole(built):
                return 1
            publish(built, given.out)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return 0


def workers() -> ProcessPoolExecutor:
    """One process a core, each with one BLAS thread and a fresh interpreter."""
    from featavg.machine import cores

    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    context = get_context("spawn")
    return ProcessPoolExecutor(max(cores(), 1), mp_context=context, initializer=clean_exit)


def clean_exit() -> None:
    """Have joblib's processes sent away when this one ends.

    A process that multiprocessing started waits for its children and runs nothing of `atexit`, by
    which joblib ends them elsewhere: they would leave after five idle minutes, and we with them.
    """
    # Before the queues are closed, at 10: through them its processes are told.
    Finalize(None, dismiss_joblib, exitpriority=20)


def dismiss_joblib() -> None:
    if "joblib.externals.loky" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor(reuse=True).shutdown(wait=True)


def on_pages() -> dict[Path, tuple[object, ...]]:
    """What has to run before the pages can be written, the longest first: a call for each script."""
    tutorials = [script for script in notebooks.scripts() if not notebooks.lacks(script)]
    calls: dict[Path, tuple[object, ...]] = {script: (notebooks.executed, script) for script in tutorials}
    return calls | {script: (gallery.drawn, script) for script in gallery.scripts()}


def write_pages(source: Path, shown: dict[Path, Future[object]]) -> None:
    """Everything that is made and not written; `shown` is what scripts gave."""
    import featavg as fa

    fa.playground(source / "playground.html")
    verdict_pages.write(source)
    shutil.copy(ROOT / "CHANGELOG.md", source / "changelog.md")
    with api_pages.without_torch():
        api_pages.write(source / "api")
    gallery.write(source / "gallery", shown)
    for script in notebooks.scripts():
        made = shown[script].result() if script in shown else notebooks.notebook(script)
        page = notebooks.page(made, source / "notebooks", script.stem)
        notebook = source / "notebooks" / f"{script.stem}.ipynb"
        notebook.write_text(notebooks.text_of(script), encoding="utf-8")
        (source / "notebooks" / f"{script.stem}.md").write_text(page, encoding="utf-8")


def sphinx(source: Path, built: Path) -> bool:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "auto"]
    done = subprocess.run([*command, "-b", "html", str(source), str(built)], check=False)
    said("Sphinx")
    return not done.returncode


def whole(built: Path) -> bool:
    """No link leads nowhere."""
    broken = links(built)
    for line in broken:
        print(f"broken link: {line}", file=sys.stderr)
    return not broken


def publish(built: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(built, out, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    print(f"Documentation: {out / 'index.html'}", flush=True)


def said(part: str) -> None:
    print(f"{time.perf_counter() - started:6.1f} s  {part}", flush=True)


class Anchors(HTMLParser):
    """Where a page points to, and which places it has."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.targets.append(value)
            if name == "id" and value:
                self.places.add(value)


def links(site: Path) -> list[str]:
    """Links inside the site that lead nowhere."""
    pages: dict[Path, Anchors] = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = parsed = Anchors()
        parsed.feed(path.read_text(encoding="utf-8"))
    broken = []
    for path, parsed in pages.items():
        for target in parsed.targets:
            split = urlsplit(target)
            if split.scheme or split.netloc:
                continue
            aim = (path.parent / unquote(split.path)).resolve() if split.path else path
            missing = not aim.exists() or (
                split.fragment and aim in pages and unquote(split.fragment) not in pages[aim].places
            )
            if missing and split.fragment != "top":
                broken.append(f"{path.relative_to(site.resolve())}: {target}")
    return broken


if __name__ == "__main__":
    raise SystemExit(main())
