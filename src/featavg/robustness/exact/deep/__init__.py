"""Exact l2 radii of ReLU networks of any depth: linear bounds, cuts, branch and bound."""
