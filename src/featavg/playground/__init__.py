"""The playground: one HTML file in which two networks train before the reader's eyes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType


class _CallableFolder(ModuleType):
    """This folder and the function `featavg.playground` share a name: importing one hides the other.

    So the folder can be called, and does what the function does.
    """

    def __call__(self, path: str | Path | None = None, *, open_browser: bool = False) -> Path:
        from featavg.playground.page import playground

        return playground(path, open_browser=open_browser)


sys.modules[__name__].__class__ = _CallableFolder
