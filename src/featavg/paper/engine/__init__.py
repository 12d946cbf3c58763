"""The statements of the documents as programs, each with a verdict.

The way through this folder: `ledger` says what a claim is, and `check` what decides it; `registry`
finds the claims, `run` runs them, `result` holds what came of one, `store` keeps it, `terminal`
prints it; `statements` says which claims answer which statement. Every sub-folder is a document or
a theme, every file in it a few claims and nothing else.
"""
