"""Validates the arguments of public functions."""
