"""The threads of torch, as an option of the commands that need it."""

from __future__ import annotations

from typing import Annotated

import typer

Threads = Annotated[
    int, typer.Option(help="Threads of torch; 0 leaves its own choice. The last bits depend on it.")
]


def use_torch(threads: int) -> None:
    """Say how to get torch if it is missing, and set its threads."""
    from featavg.errors import InputError, torch_needed

    if threads < 0:
        raise InputError("threads", f"is {threads}", "give a number, or 0 for torch's own choice")
    torch_needed()
    if threads:
        import torch

        torch.set_num_threads(threads)
