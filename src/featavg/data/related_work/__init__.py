"""Distributions of related work: a lattice, a subspace of features, slabs."""

from featavg.faces import face

__getattr__, __dir__ = face(__name__, __file__)
