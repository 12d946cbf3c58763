"""Build the wheel and the sdist, install the wheel into a clean environment, and use it from elsewhere.

    python tools/package.py [--keep]

What `make package` shows: the files that pip would install are complete (templates, styles, scripts,
recorded results), and the sdist builds the same wheel.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
CLAIM = "figure-2a-averaged"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--keep", action="store_true", help="keep the environment, and say where")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="featavg-package-"))
    try:
        wheel, sdist = build(folder)
        compare(wheel, sdist, folder)
        use(wheel, folder)
    finally:
        if given.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{wheel.name} ({wheel.stat().st_size / 1e6:.1f} MB) and {sdist.name} are in {DIST}.")
    return 0


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, by the backend that pyproject.toml names."""
    shutil.rmtree(DIST, ignore_errors=True)
    tools = folder / "tools"
    python = environment(tools)
    install = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "--require-hashes")
    call(python, *install, "-r", ROOT / "tools" / "build.txt")
    call(python, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT)
    return next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))


def compare(wheel: Path, sdist: Path, folder: Path) -> None:
    """Every file of the package is in the wheel, and in the sdist."""
    package = ROOT / "src" / "featavg"
    tracked = subprocess.run(
        ["git", "ls-files", "src/featavg"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    wanted = {Path(name).relative_to("src/featavg").as_posix() for name in tracked} or {
        path.relative_to(package).as_posix() for path in package.rglob("*.py")
    }
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
    missing = sorted(name for name in wanted if f"featavg/{name}" not in inside)
    with tarfile.open(sdist) as archive:
        listed = {name.partition("/")[2] for name in archive.getnames()}
    missing += sorted(name for name in wanted if f"src/featavg/{name}" not in listed)
    beside = [path.name for path in ROOT.glob("*.md")]
    missing += [
        name for name in ("Makefile", "constraints.txt", "docs/conf.py", "CITATION.cff", *beside) if name not in listed
    ]
    if missing:
        raise SystemExit(f"left out of the package: {', '.join(missing)}")


def use(wheel: Path, folder: Path) -> None:
    """What a user does after `pip install`, in a folder that knows nothing of this one."""
    python = environment(folder / "user")
    constraints = ROOT / "constraints.txt"
    install = ("-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", constraints)
    call(python, *install, wheel)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    featavg = python.with_name("featavg")
    call(featavg, "--version", cwd=elsewhere)
    call(featavg, "reproduce", "--only", CLAIM, cwd=elsewhere)
    call(featavg, "report", "--only", CLAIM, cwd=elsewhere)
    call(featavg, "playground", "--no-open", cwd=elsewhere)
    results = elsewhere / "featavg-results"
    for name in ("report/report.html", "report/verdicts.tex", "report/playground.html", "playground.html"):
        if not (results / name).exists():
            raise SystemExit(f"{name} was not written")


def environment(folder: Path) -> Path:
    call(Path(sys.executable), "-m", "venv", folder)
    return folder / "bin" / "python"


def call(*words: object, cwd: Path = ROOT) -> None:
    # Isolated from this clone: what is used is what was installed.
    clean = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(Path.home()), "LANG": "C.UTF-8"}
    subprocess.run([str(word) for word in words], cwd=cwd, check=True, env=clean)


if __name__ == "__main__":
    raise SystemExit(main())
