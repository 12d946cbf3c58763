"""The commands of `featavg`, one file per group; `featavg.cli.app.GROUPS` lists them.

Files with commands do not postpone their annotations (`from __future__ import annotations`): typer
would evaluate the text of every flag several times, a noticeable part of `featavg --help`.
"""

from __future__ import annotations


class Interrupted(Exception):  # noqa: N818 (the user's wish, not a fault)
    """Ctrl-C in a command that can say how to go on; the sentence is shown, exit code 130."""
