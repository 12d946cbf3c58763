"""Run the fast tests on several Pythons, or with the oldest dependencies that are allowed.

    python tools/test_all.py [--lowest] [pytest arguments]

Each Python gets an environment of its own in .venvs/, without PyTorch: those tests skip themselves.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.10", "3.11", "3.12", "3.13")
# The tests that need neither PyTorch, nor a browser, nor minutes.
FAST = (
    "tests/test_stages.py",
    "tests/test_public_surface.py",
    "tests/data",
    "tests/nets",
    "tests/measures",
    "tests/training",
    "tests/claims/test_ledger.py",
    "tests/claims/test_registry.py",
    "tests/robustness/test_exact.py",
    "tests/robustness/test_linf.py",
    "tests/test_cli.py",
)
TOOLS = ("beartype", "hypothesis", "psutil", "pytest", "pytest-xdist")
# What the oldest typer and the oldest matplotlib were released with; not ours to name in pyproject.toml.
COMPANIONS = ("click==8.1.8", "pyparsing==3.1.4")


def main():
    arguments = sys.argv[1:]
    lowest = "--lowest" in arguments
    arguments = [a for a in arguments if a != "--lowest"]
    outcomes = {}
    for version in VERSIONS[:1] if lowest else VERSIONS:
        python = interpreter(version)
        if python is None:
            outcomes[version] = "not here"
            continue
        environment = prepare(version, python, lowest)
        paths = [path for path in FAST if (ROOT / path).exists()]
        command = [environment / "bin" / "pytest", "-n", "2", "-q", "-p", "no:cacheprovider"]
        ran = subprocess.run([*map(str, command), *paths, *arguments], cwd=ROOT, check=False)
        outcomes[version] = "passed" if ran.returncode == 0 else "failed"
    print("; ".join(f"Python {version}: {outcome}" for version, outcome in outcomes.items()))
    return int("failed" in outcomes.values())


def interpreter(version):
    """A Python of this version: on the PATH, or among pyenv's."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
        return found
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in sorted(pyenv.glob(f"{version}.*/bin/python")):
        return str(path)
    return None


def prepare(version, python, lowest):
    folder = ROOT / ".venvs" / (f"{version}-lowest" if lowest else version)
    if not (folder / "bin" / "pytest").exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        if lowest:
            subprocess.run([*pip, *oldest(), *COMPANIONS, *TOOLS], check=True)
            subprocess.run([*pip, "--no-deps", "-e", str(ROOT)], check=True)
        else:
            constraints = ["-c", str(ROOT / "constraints.txt")]
            subprocess.run([*pip, *constraints, "-e", str(ROOT), *TOOLS], check=True)
    return folder


def oldest():
    """The dependencies of pyproject.toml with >= made ==."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.M | re.S).group(1)
    return [name.replace(">=", "==") for name in re.findall(r'"([^"]+)"', listed)]


if __name__ == "__main__":
    raise SystemExit(main())
