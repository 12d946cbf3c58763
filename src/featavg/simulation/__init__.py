"""A simulation that a user asks for: a setting in, numbers, weights and figures out.

The way through this folder: `points` -> `numbers`, `figures` -> `folder` -> `run`.
"""
