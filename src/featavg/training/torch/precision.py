"""Which precision a training really uses: bfloat16 only where the CPU computes in it (torch)."""

from __future__ import annotations

import functools
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch

# What torch calls the instructions that multiply in bfloat16: Intel and AMD, then ARM.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); assert (a @ a)[0, 0] == 64"
_log = logging.getLogger(__name__)


def used_precision(asked: str, device: str) -> str:
    """What is used where `asked` is asked for: float32 in place of an emulated or broken bfloat16.

    Without the instructions a CPU computes bfloat16 step by step, ten times slower than float32 on the
    one where that was measured. Some virtual machines list instructions that end the process.

    >>> used_precision("float32", "cpu")
    'float32'
    """
    if asked != "bfloat16" or torch.device(device).type != "cpu":
        return asked
    if emulated():
        reason = "has no instructions for bfloat16"
    elif not survives():
        reason = "lists instructions for bfloat16 that it does not carry out"
    else:
        return asked
    # Said before a run of hours, whoever started it.
    _log.warning("This CPU %s: training in float32.", reason)
    return "float32"


def emulated() -> bool:
    """Whether this CPU has no instructions for bfloat16; False where torch cannot tell."""
    capabilities = _capabilities()
    return bool(capabilities) and not any(capabilities.get(name) for name in INSTRUCTIONS)


@functools.cache
def survives() -> bool:
    """Whether a product of matrices in bfloat16 comes back from a process of its own.

    An illegal instruction cannot be caught: it ends the process that tries it.
    """
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False)
    return trial.returncode == 0


def _capabilities() -> Mapping[str, Any]:
    # An older torch cannot tell, and what was asked for is used.
    ask = getattr(torch.cpu, "get_capabilities", None)
    return {} if ask is None else ask()
