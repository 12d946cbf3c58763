"""Experiments behind the paper's claims: runs in the theorems' regime and their radii."""
