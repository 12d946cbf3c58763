"""Experiments on images: heads on frozen features, attacked curves, superclasses."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
