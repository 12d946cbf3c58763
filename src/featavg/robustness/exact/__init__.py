"""Exact l2 and l_inf radii of two-layer networks: pieces, branch and bound, witnesses."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
