"""Exact radii of two-layer networks."""
