"""The commands of `featavg`, one file per group; `featavg.cli.GROUPS` lists them."""

from __future__ import annotations


class Interrupted(Exception):  # noqa: N818 (the user's wish, not a fault)
    """Ctrl-C in a command that can say how to go on; the sentence is shown, exit code 130."""
