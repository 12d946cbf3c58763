"""Robustness: exact radii, certified brackets, attacks, curves."""
