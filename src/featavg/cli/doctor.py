"""`featavg doctor`: what is installed, what this machine has, which data are found."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import featavg
from featavg.boundary.public import public
from featavg.cli.flags import DataDir
from featavg.machine import cores
from featavg.registry import IMAGE_SETS
from featavg.storage.places import install_command

CORE = (
    *("numpy", "scipy", "daqp", "scikit-learn", "matplotlib", "typer", "rich", "xarray"),
    *("jinja2", "joblib", "pooch", "pillow", "safetensors", "jaxtyping"),
)
EXTRAS = ("torch", "foolbox")


@dataclass(frozen=True)
class Installation:
    """The findings of `doctor`.

    Attributes:
        core, extras: the version of each package, None where it is missing.
        data: of each data set, whether its files are here, as the loader would find them.
        out_problem: why nothing can be written below `out`, or None.

    Returned by `fa.doctor`, which has an example.
    """

    featavg: str
    python: str
    machine: str
    cores: int
    memory_bytes: int | None
    blas: str | None
    core: Mapping[str, str | None]
    extras: Mapping[str, str | None]
    data_dir: str
    data: Mapping[str, str]
    out: str
    out_problem: str | None

    @property
    def ready(self) -> bool:
        """Whether featavg can work here."""
        return None not in self.core.values() and self.out_problem is None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"ready": self.ready}

    def rows(self) -> dict[str, str]:
        """Every finding as a name and a few words."""
        from featavg.machine import readable

        rows = {
            "featavg": self.featavg,
            "Python": f"{self.python}, {self.machine}",
            "cores": str(self.cores),
            "free memory": readable(self.memory_bytes) if self.memory_bytes else "unknown",
            "BLAS": self.blas or "unknown",
        }
        for name, version in self.core.items():
            rows[name] = version or "missing: pip install featavg"
        for name, version in self.extras.items():
            rows[f"{name} (extra)"] = version or f"not installed: {install_command(name)}"
        rows |= {name: f"{state} ({self.data_dir})" for name, state in self.data.items()}
        problem = f"({self.out_problem})" if self.out_problem else "can be written"
        return rows | {"digits": "here (scikit-learn)", "results": f"{self.out} {problem}"}

    def __repr__(self) -> str:
        lines = [f"{name:18} {text}" for name, text in self.rows().items()]
        return "\n".join([*lines, "Ready." if self.ready else "Not ready: see above."])

    def _repr_html_(self) -> str:
        from featavg.figures.typeset import table

        return table("Installation", self.rows())


@public
def doctor(data_dir: str | Path | None = None, out: str | Path = ".") -> Installation:
    """Say what is installed, what this machine has and which data are found.

    Args:
        data_dir: the folder with data sets; $FEATAVG_DATA or pooch's unless given.
        out: the folder that results would go to; nothing is left in it.

    >>> import featavg as fa
    >>> fa.doctor().ready
    True
    """
    from featavg.data.image_sets.archives import state
    from featavg.data.image_sets.loading import data_folder
    from featavg.machine import available_bytes

    folder = data_folder(None if data_dir is None else Path(data_dir))
    target = Path(out).absolute()
    downloads = {name: each for name, each in IMAGE_SETS.items() if each.md5}
    return Installation(
        featavg=featavg.__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        cores=cores(),
        memory_bytes=available_bytes(),
        blas=_blas(),
        core={name: _version(name) for name in CORE},
        extras={name: _version(name) for name in EXTRAS},
        data_dir=str(folder),
        data={name: state(each, folder) for name, each in downloads.items()},
        out=str(target),
        out_problem=_write_problem(target),
    )


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _blas() -> str | None:
    try:
        import numpy as np

        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (ImportError, KeyError, TypeError):
        return None


def _write_problem(out: Path) -> str | None:
    """Why nothing can be written below `out`, or None; nothing is left behind."""
    from featavg.errors import InputError
    from featavg.storage.files import usable_folder

    try:
        usable_folder(out)
    except InputError as error:
        return error.problem.removeprefix(f"({out}) ")
    return None


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(_doctor)


def _doctor(
    data_dir: DataDir = None,
    out: Annotated[Path, typer.Option(help="Folder that results would go to.")] = Path("."),
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what is installed, what this machine has and which data are found."""
    from json import dumps

    installation = doctor(data_dir, out)
    typer.echo(dumps(installation.to_json(), indent=1) if json else repr(installation))
    raise typer.Exit(0 if installation.ready else 1)
