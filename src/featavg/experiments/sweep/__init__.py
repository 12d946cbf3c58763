"""Sweeps: many settings and seeds, several engines, one table that survives a kill.

The way through this folder: `plan` -> `measures` -> `work` -> `engines` -> `run` -> `table`.
"""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
