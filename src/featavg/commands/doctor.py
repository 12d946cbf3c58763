"""`featavg doctor`: what is installed, what this machine has, which data is found."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

# Where published data sets lie in a data folder; any of the names will do.
DATA_SETS: dict[str, tuple[str, ...]] = {
    "MNIST": ("mnist", "MNIST"),
    "CIFAR-10": ("cifar10", "cifar-10", "cifar-10-batches-py", "cifar-10-batches-bin"),
    "CIFAR-100": ("cifar100", "cifar-100", "cifar-100-python", "cifar-100-binary"),
}
CORE = (
    *("numpy", "scipy", "daqp", "scikit-learn", "matplotlib", "typer", "rich", "pydantic"),
    *("jinja2", "joblib", "pooch", "safetensors", "jaxtyping"),
)
EXTRAS = {"torch": "pip install 'featavg[torch]'", "foolbox": "pip install 'featavg[foolbox]'"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)


def _doctor(
    data_dir: Annotated[
        Path | None, typer.Option(envvar="FEATAVG_DATA", help="Folder with data sets.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder that results would go to.")] = Path("."),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is installed, what this machine has and which data is found."""
    report = examine(data_dir, out)
    if json:
        from json import dumps

        typer.echo(dumps(report, indent=1))
    else:
        _show(report)
    raise typer.Exit(0 if report["ready"] else 1)


def examine(data_dir: Path | None, out: Path) -> dict[str, Any]:
    """All findings as plain values; `ready` says whether featavg can work here."""
    from featavg import __version__
    from featavg.data.memory import available_bytes

    core = {name: _version(name) for name in CORE}
    problem = _write_problem(out.absolute())
    return {
        "featavg": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": _cores(),
        "memory_bytes": available_bytes(),
        "blas": _blas(),
        "core": core,
        "extras": {name: _version(name) for name in EXTRAS},
        "data_dir": str(data_dir) if data_dir else None,
        "data": {name: _found(data_dir, folders) for name, folders in DATA_SETS.items()},
        "out": str(out.absolute()),
        "out_problem": problem,
        "ready": None not in core.values() and problem is None,
    }


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cores() -> int:
    # A container may have fewer than the machine.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _blas() -> str | None:
    try:
        import numpy as np

        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    except (ImportError, KeyError, TypeError):
        return None


def _found(data_dir: Path | None, folders: tuple[str, ...]) -> str | None:
    if data_dir is None:
        return None
    there = [data_dir / name for name in folders if (data_dir / name).is_dir()]
    return str(there[0]) if there else None


def _write_problem(out: Path) -> str | None:
    """Why nothing can be written below `out`, or None; nothing is left behind."""
    from tempfile import mkdtemp

    folder = next(each for each in (out, *out.parents) if each.exists())
    try:
        Path(mkdtemp(dir=folder, prefix=".featavg-")).rmdir()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _show(report: dict[str, Any]) -> None:
    from rich.markup import escape

    from featavg.commands.tables import console, table
    from featavg.data.memory import readable

    memory = report["memory_bytes"]
    rows: dict[str, str] = {
        "featavg": report["featavg"],
        "Python": f"{report['python']}, {report['machine']}",
        "cores": str(report["cores"]),
        "free memory": readable(memory) if memory else "unknown",
        "BLAS": report["blas"] or "unknown",
    }
    for name, version in report["core"].items():
        rows[name] = version or "missing: pip install featavg"
    for name, version in report["extras"].items():
        rows[f"{name} (extra)"] = version or f"not installed: {EXTRAS[name]}"
    for name, place in report["data"].items():
        rows[name] = place or f"not in {report['data_dir'] or '--data-dir or $FEATAVG_DATA'}"
    rows["digits"] = "comes with scikit-learn"
    problem = report["out_problem"]
    rows["results"] = f"{report['out']} " + (f"({problem})" if problem else "can be written")
    shown = table("", "found")
    for name, told in rows.items():
        shown.add_row(name, escape(told))
    console().print(shown)
    console().print("Ready." if report["ready"] else "Not ready: see above.", style="bold")
