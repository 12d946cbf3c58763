"""Experiments behind the connections: power ReLU, manifolds, planes, slabs."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
