"""The playground: one HTML file in which two networks train before the reader's eyes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class _CallableFolder(ModuleType):
    """This folder and the function `featavg.playground` share a name: importing one hides the other.

    So the folder can be called, and does what the function does.
    """

    def __call__(self, *arguments: Any, **named: Any) -> Path:
        from featavg.boundary import guarded
        from featavg.playground.page import playground

        page: Path = guarded(playground)(*arguments, **named)
        return page


sys.modules[__name__].__class__ = _CallableFolder
