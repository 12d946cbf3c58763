"""Exact radii and certificates of deep networks."""
