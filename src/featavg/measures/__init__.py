"""Measures: what a network has learned, as numbers with their nulls and intervals."""
