"""The command line: `featavg --help`, which is `python -m featavg --help`.

A group of commands is a file in `featavg/cli/` with a function `register(app)`, and a name in
`GROUPS`; the order of `GROUPS` is the order of the help. Commands import what they need inside
their functions, so that the help answers at once; and they do not postpone their annotations, which
typer would evaluate several times.
"""

import errno
import inspect
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer

from featavg import __version__
from featavg.cli.flags import checked, refuse_empty
from featavg.cli.output import Interrupted
from featavg.errors import InputError

# Modules with `register(app)`, in the order of the help. The paper's commands are named, not imported:
# the library does not depend on them.
GROUPS: tuple[str, ...] = (
    "featavg.paper.commands",
    "featavg.cli.simulate",
    "featavg.cli.sweep",
    "featavg.cli.images",
    "featavg.cli.audit",
    "featavg.cli.doctor",
)
# Options of `featavg` itself that may stand anywhere on the line.
EVERYWHERE = ("--debug", "--quiet", "-q", "--verbose", "-v", "-vv")
# What the program itself did wrong: EX_SOFTWARE of sysexits.h.
BROKEN = 70

# typer once used click and now carries its own copy: the class is the same, its address is not.
_UsageError: Any = typer.BadParameter.__mro__[1]


def make_app() -> typer.Typer:
    """The application with every group of `GROUPS`."""
    app = typer.Typer(pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})
    app.callback()(_featavg)
    for group in GROUPS:
        import_module(group).register(app)
    _check_all(app)
    return app


def _check_all(app: typer.Typer) -> None:
    """Validates the flags of every command, and keeps brackets in its help."""
    for command in app.registered_commands:
        if command.callback is not None:
            _keep_brackets(command.callback)
            command.callback = checked(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _check_all(group.typer_instance)


def _keep_brackets(callback: Callable[..., Any]) -> None:
    """Escape `[default]` in help texts: rich takes it for markup, and drops it."""
    for hint in inspect.get_annotations(callback, eval_str=True).values():
        for about in getattr(hint, "__metadata__", ()):
            if getattr(about, "help", None):  # shared by commands: escaped once
                about.help = re.sub(r"(?<!\\)\[", r"\\[", about.help)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0; 1 (a claim's program broke, or an examination found something missing); 2 (bad input); 70 (an
    error of featavg's own); 130 (Ctrl-C). Bad input is one sentence on standard error, and so is an
    error of featavg's own: its traceback is behind `--debug`.

    Args:
        arguments: what follows `featavg` on the command line; `sys.argv` by default.
    """
    given = _options_first(list(sys.argv[1:] if arguments is None else arguments))
    _make_printable()
    if arguments is None:  # a program of its own, which opens no window
        os.environ["MPLBACKEND"] = "agg"
    try:
        refuse_empty(given)
        with _one_line_warnings():
            code = make_app()(given or ["--help"], prog_name="featavg", standalone_mode=False)
            sys.stdout.flush()  # a full disk is reported here, not at exit
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
    except BrokenPipeError:  # `featavg claims | head` has seen enough
        sys.stderr.close()
        return 0
    except Exception as error:  # whatever is left is ours
        if isinstance(error, OSError) and (sentence := _outside(error)):
            return _say(sentence, 2)
        return _broken(error, "--debug" in given)
    finally:
        logging.getLogger("featavg").setLevel(logging.NOTSET)
    return _say("Interrupted.", 130) if code == 130 else int(code or 0)


def _make_printable() -> None:
    """Replaces characters that the terminal cannot show; a closed stream becomes /dev/null."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed before the start: `featavg claims >&-`
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure") and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def _outside(error: OSError) -> str:
    """A sentence about an error of the machine; empty if the program may be at fault."""
    try:
        os.getcwd()
    except OSError:
        return "The working folder was deleted: change to another one."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF):
        # What is left in the buffer would be tried once more at exit.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        return f"The output cannot be written ({os.strerror(error.errno).lower()}): make room."
    return ""


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"featavg {__version__}")
        raise typer.Exit
    return wanted


def _featavg(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Verbose output; -vv also lists each file written.", show_default=False
        ),
    ] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no warnings.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")] = False,
) -> None:
    """Does a network average its features, what does that cost, and what helps?"""
    levels = (logging.WARNING, logging.INFO, logging.DEBUG)
    level = logging.ERROR if quiet else levels[min(verbose, 2)]
    logger = logging.getLogger("featavg")
    logger.setLevel(level)
    if not any(isinstance(handler, _ToStandardError) for handler in logger.handlers):
        logger.addHandler(_ToStandardError())


class _ToStandardError(logging.Handler):
    """Log lines on what is standard error at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the record as one line."""
        print(f"{record.levelname.lower()}: {record.getMessage()}", file=sys.stderr)


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Logs Python's warnings as one line each, at level info."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        logging.getLogger("featavg").info("%s: %s", category.__name__, message)

    def thread_failed(about: threading.ExceptHookArgs) -> None:
        # A pool that is torn down by Ctrl-C: its threads' tracebacks are of no use to anyone.
        logging.getLogger("featavg").debug("in a thread: %r", about.exc_value)

    before = warnings.showwarning, threading.excepthook
    warnings.showwarning, threading.excepthook = show, thread_failed
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = before


def _options_first(given: list[str]) -> list[str]:
    """`--debug` and the like may stand behind a command, where people put them."""
    end = given.index("--") if "--" in given else len(given)
    first = [word for word in given[:end] if word in EVERYWHERE]
    return first + [word for i, word in enumerate(given) if i >= end or word not in EVERYWHERE]


def _broken(error: Exception, debug: bool) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    sentence = " ".join(str(error).split())[:200]
    what = f"{type(error).__name__}: {sentence}".rstrip(": ")
    again = "" if debug else ", with what the same command prints with --debug"
    return _say(f"featavg stopped by an error of its own ({what}): report this{again}.", BROKEN)


def _say(sentence: str, code: int) -> int:
    print(" ".join(sentence.split()), file=sys.stderr)
    return code


def _usage_sentence(error: Any) -> str:
    where = error.ctx.command_path if error.ctx is not None else "featavg"
    sentence = error.format_message().rstrip(".")
    # "Invalid value for '--width': Input should be 1 or more" names the flag in its middle.
    sentence = re.sub(r"^Invalid value for '([^']+)': (?:Input )?should", r"\1 should", sentence)
    return f"{sentence}: see `{where} --help`."


if __name__ == "__main__":
    sys.exit(main())
