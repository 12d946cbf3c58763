"""The statements of the documents as programs, each with a verdict.

The way through this folder: `marks` -> `panels` -> `figure` say what to draw; `ledger` says what a
claim is; `registry` finds the claims; `outcome` runs one; `store` keeps results; `reproduce` runs
them all. Every other file is a theme: a few claims and nothing else.
"""
