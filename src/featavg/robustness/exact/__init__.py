"""Exact l2 and l_inf radii of two-layer networks: pieces, branch and bound, witnesses."""
