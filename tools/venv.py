"""Fill the project's own virtual environment: `python3 tools/venv.py core`, `... docs` or `... dev`.

The Makefile calls this before every command, so the usual case, all there, must be quick: it
compares one stamp and returns. The stamp is written after pip has succeeded, and a mark stands from
before pip starts until then. Whoever finds the mark knows that an earlier install failed or was
killed, and starts from an empty environment: pip takes a half-copied package for an installed one.

Written for any Python, so that an old one can say that it is old. Standard library only.
"""

import fcntl
import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
# Beside .venv, because emptying that must not take the mark away.
MARK = os.path.join(ROOT, ".venv.installing")
LOCK = os.path.join(ROOT, ".venv.lock")

OLDEST = (3, 10)
# Each level has all of those before it.
ORDER = ("core", "docs", "dev")
# What is installed, and what a person who waits is told.
LEVELS = {
    "core": (["-e", "."], "Installing featavg into .venv (usually under a minute) ..."),
    "docs": (
        ["-e", ".", "--group", "docs"],
        "Adding the tools of the documentation to .venv (usually under a minute) ...",
    ),
    "dev": (
        ["-e", ".[torch]", "--group", "dev"],
        "Installing featavg, PyTorch and the tests' tools into .venv (usually 1-3 minutes) ...",
    ),
}


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        return "usage: venv.py " + "|".join(sorted(LEVELS))
    if sys.version_info < OLDEST:
        return (
            "featavg needs Python %d.%d or newer, and this is %d.%d: name another one, "
            "as in `make PYTHON=python3.12 reproduce`." % (OLDEST + sys.version_info[:2])
        )
    level = sys.argv[1]
    if is_filled(level):
        return None
    with open(LOCK, "w") as lock:
        # Two makes at once: the second waits here, and then finds its work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        return None if is_filled(level) else fill(level, lock)


def is_filled(level):
    """A later level has all of an earlier one, and does for it."""
    if os.path.exists(MARK) or not os.path.exists(VENV_PYTHON):
        return False
    wanted = fingerprint()
    return any(read(stamp(each)) == wanted for each in ORDER[ORDER.index(level) :])


def fill(level, lock):
    target, message = LEVELS[level]
    interrupted = os.path.exists(MARK)
    if interrupted:
        print("The last install did not finish: starting again from an empty .venv.")
    print(message)
    sys.stdout.flush()
    fresh = interrupted or not is_usable()
    write(MARK, "")
    if fresh and run([sys.executable, "-m", "venv", "--clear", VENV], lock):
        return "Could not make .venv (on Debian: apt-get install python3-venv)."
    for each in LEVELS:
        if os.path.exists(stamp(each)):
            os.remove(stamp(each))
    # -q twice: pip's errors are shown, its warnings about the machine's own settings are not.
    pip = [VENV_PYTHON, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    constraints = ["-c", "constraints.txt"]
    # Dependency groups are newer than the pip that many Pythons bring.
    if "--group" in target and run(pip + constraints + ["pip"], lock):
        return "pip could not renew itself (see above); the next make starts again."
    if run(pip + constraints + target, lock):
        return "pip could not install featavg (see above); the next make starts again."
    write(stamp(level), fingerprint())
    os.remove(MARK)
    return None


def is_usable():
    """Has a Python that still starts, is new enough and has pip: a half-made one fails here."""
    if not os.path.exists(VENV_PYTHON):
        return False
    check = "import sys, pip._internal; sys.exit(sys.version_info < %r)" % (OLDEST,)
    with open(os.devnull, "w") as nowhere:
        return subprocess.call([VENV_PYTHON, "-c", check], stderr=nowhere) == 0


def fingerprint():
    """What to install, and where: an environment cannot be moved."""
    digest = hashlib.sha256(VENV.encode())
    for name in ("pyproject.toml", "constraints.txt"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def stamp(level):
    return os.path.join(VENV, ".installed-" + level)


def read(path):
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return file.read()


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def run(command, lock):
    # The child holds the lock too: should this process be killed, a pip that goes on stays alone.
    return subprocess.call(command, cwd=ROOT, pass_fds=[lock.fileno()])


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Interrupted: the next make starts the install again.")
    except OSError as problem:
        sys.exit("Could not fill .venv: %s" % problem)
