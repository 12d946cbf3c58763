"""Experiments on margins: KKT points, Lipschitz bounds, radii along the way."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
