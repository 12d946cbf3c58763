"""The threads of torch, as an option of the commands that need it."""

from __future__ import annotations

from typing import Annotated

import typer

from featavg.cli.checked import MOST_WORKERS

Threads = Annotated[
    int,
    typer.Option(
        min=0,
        max=MOST_WORKERS,
        help="Threads of torch; 0 leaves its own choice. The last bits depend on it.",
    ),
]


def use_torch(threads: int) -> None:
    """Say how to get torch if it is missing, and set its threads."""
    from featavg.errors import torch_needed

    torch_needed()
    if threads:
        import torch

        torch.set_num_threads(threads)
