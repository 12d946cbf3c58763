"""Sweeps over settings, with their engines and index."""
