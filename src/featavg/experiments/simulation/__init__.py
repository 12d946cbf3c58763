"""`featavg simulate`: a Setting, its presets, its run and its result folder."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
