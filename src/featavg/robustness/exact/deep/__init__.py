"""Exact l2 radii of ReLU networks of any depth: linear bounds, cuts, branch and bound."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
