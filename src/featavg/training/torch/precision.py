"""Which precision a training really uses: bfloat16 only where the CPU has instructions for it (torch)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import torch

# What torch calls the instructions that multiply in bfloat16: Intel and AMD, then ARM.
INSTRUCTIONS = ("avx512_bf16", "amx_bf16", "bf16", "sve_bf16")
_log = logging.getLogger(__name__)


def used_precision(asked: str, device: str) -> str:
    """What is used where `asked` is asked for: float32 in place of an emulated bfloat16.

    Without the instructions a CPU computes bfloat16 step by step, ten times slower than float32 on the
    one where that was measured.

    >>> used_precision("float32", "cpu")
    'float32'
    """
    if asked != "bfloat16" or torch.device(device).type != "cpu" or not emulated():
        return asked
    # Said before a run of hours, whoever started it.
    _log.warning("This CPU has no instructions for bfloat16: training in float32, faster here.")
    return "float32"


def emulated() -> bool:
    """Whether this CPU has no instructions for bfloat16; False where torch cannot tell."""
    capabilities = _capabilities()
    return bool(capabilities) and not any(capabilities.get(name) for name in INSTRUCTIONS)


def _capabilities() -> Mapping[str, Any]:
    # An older torch cannot tell, and what was asked for is used.
    ask = getattr(torch.cpu, "get_capabilities", None)
    return {} if ask is None else ask()
