"""Build the documentation: generated pages first, then Sphinx with warnings as errors, then the links.

    python tools/docs.py [--out out/docs] [--quick]

Verdicts, statements, the API, the gallery and the notebooks are written from the package itself,
never by hand. `--quick` runs no example and no notebook.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools import api_pages, code_blocks, notebooks, verdict_pages  # noqa: E402
from tools.gallery import gallery  # noqa: E402


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path, default=ROOT / "out" / "docs")
    options.add_argument("--quick", action="store_true", help="run no example and no notebook")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder) / "docs", Path(folder) / "html"
        shutil.copytree(ROOT / "docs", source)
        write_pages(source, run=not given.quick)
        with timed("Sphinx"):
            if not sphinx(source, built):
                return 1
        broken = links(built)
        for line in broken:
            print(f"broken link: {line}", file=sys.stderr)
        if broken:
            return 1
        shutil.rmtree(given.out, ignore_errors=True)
        shutil.copytree(built, given.out, ignore=shutil.ignore_patterns(".doctrees", ".buildinfo"))
    print(f"Documentation: {given.out / 'index.html'}")
    return 0


def write_pages(source: Path, run: bool) -> None:
    """Everything that is made and not written."""
    import featavg as fa

    fa.playground(source / "playground.html")
    verdict_pages.write(source)
    with timed("API, with the examples that the tests leave out"):
        api_pages.write(source / "api", run=run)
    with timed("gallery"):
        gallery(source / "gallery", run=run)
    with timed("notebooks"):
        for script in notebooks.scripts():
            made = notebooks.executed(script) if run else notebooks.unexecuted(script)
            page = notebooks.page(made, source / "notebooks", script.stem)
            (source / "notebooks" / f"{script.stem}.md").write_text(page, encoding="utf-8")
    if run:
        with timed("blocks of code that the tests leave out"):
            for page in code_blocks.pages():
                if any(block.mark == "long" for block in code_blocks.blocks(page)):
                    code_blocks.run(page, long=True)


def sphinx(source: Path, built: Path) -> bool:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    return not subprocess.run([*command, str(source), str(built)], check=False).returncode


class timed:  # noqa: N801 (reads as a sentence)
    """Says how long a part took."""

    def __init__(self, part: str) -> None:
        self.part = part

    def __enter__(self) -> None:
        self.started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        print(f"{time.perf_counter() - self.started:6.1f} s  {self.part}", flush=True)


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
