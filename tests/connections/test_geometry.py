"""Lattice, manifold, usefulness, best margin and planes: fast formulas against slow ones."""
