"""Sweeps: many settings and seeds, several engines, one table that survives a kill.

The way through this folder: `plan` -> `measures` -> `work` -> `engines` -> `run` -> `table`.
"""
