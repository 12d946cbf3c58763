"""Experiments behind the paper's claims: runs in the theorems' regime and their radii."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
