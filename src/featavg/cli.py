"""The command line: `featavg --help`.

A group of commands is a file in `featavg/commands/` with a function `register(app)`, and a name in
`GROUPS`; the order of `GROUPS` is the order of the help. Commands import what they need inside
their functions, so that the help answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

from featavg import __version__
from featavg.commands import Interrupted
from featavg.errors import InputError

# Names of modules in featavg.commands.
GROUPS: tuple[str, ...] = (
    "claims",
    "simulate",
    "radius",
    "sweep",
    "presets",
    "playground",
    "connections",
    "data",
    "images",
    "audit",
    "margins",
    "doctor",
)

# typer once used click and now carries its own copy: the class is the same, its address is not.
_UsageError: Any = typer.BadParameter.__mro__[1]


def make_app() -> typer.Typer:
    """The application with every group of `GROUPS`."""
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_featavg)
    for group in GROUPS:
        import_module(f"featavg.commands.{group}").register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 (something broke), 2 (bad input), 130 (Ctrl-C).

    Bad input is one sentence on standard error, never a traceback.

    Args:
        arguments: what follows `featavg` on the command line; `sys.argv` by default.
    """
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        code = make_app()(given or ["--help"], prog_name="featavg", standalone_mode=False)
    except InputError as error:
        return _say(str(error), 2)
    except _UsageError as error:
        return _say(_usage_sentence(error), 2)
    except MemoryError:
        return _say("The memory of this machine does not suffice: lower n, d or the seeds.", 2)
    except Interrupted as error:
        return _say(str(error), 130)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    return _say("Interrupted.", 130) if code == 130 else int(code or 0)


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"featavg {__version__}")
        raise typer.Exit
    return wanted


def _featavg(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Does a network average its features, what does that cost, and how is it undone?"""


def _say(sentence: str, code: int) -> int:
    print(" ".join(sentence.split()), file=sys.stderr)
    return code


def _usage_sentence(error: Any) -> str:
    where = error.ctx.command_path if error.ctx is not None else "featavg"
    return f"{error.format_message().rstrip('.')}: see `{where} --help`."
